package config

import (
	"errors"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// Each mistake of the table has a file that shows it, so that an update of the
// library that words one differently shows too.
func TestSyntaxMistakes(t *testing.T) {
	shown := map[int]bool{}
	for src, want := range map[string]string{
		strings.Repeat("[", 20):         "x:1:17: more than 16 levels",
		"a: 1\nb: \"S3cret\nc: 2\n":     "x:2:4: a text that begins with a quote",
		"a: 1\nb: 'S3cret\n---\n":       "x:2:4: a text that begins with a quote",
		`a: "x\S3cret"`:                 "x:1:6: an escape that is not allowed",
		`a: "\uD800 S3cret"`:            "x:1:7: an escape that is not allowed",
		"a: 1\nS3cret\nb: 2\n":          `x:2:1: a text without ": " after it`,
		"%S3cret x\n---\na: b\n":        "x:1:1: a directive",
		"%YAML S3cret\n---\na: b\n":     "x:1:1: a directive",
		"%YAML 1.1\n---\na: b\n":        "x:1:1: a directive",
		"%YAML 3.1\n---\na: b\n":        "x:1:1: a directive",
		"%TAG ! !S3cret\n---\na: b\n":   "x:1:1: a directive",
		"%TAG S3cret\n---\na: b\n":      "x:1:1: a directive",
		"%YAML 1.1\n%YAML 1.1\n---\na:": "x:2:1: a directive",
		"a: &[S3cret":                   "x:1:4: an anchor",
		"a: *[S3cret":                   "x:1:4: an alias",
		"a: *S3cret":                    "x:1:4: an alias",
		"a: !<S3cret b":                 "x:1:4: a tag",
		"a: !S3cret!b c":                "x:1:4: a tag",
		"a: !<%S3 b":                    "x:1:4: a tag",
		"a: |S3cret\n  x\n":             `x:1:4: "|" or ">" begins`,
		"a: \"S3cret\"# c":              `x:1:12: "#" right after`,
		"a:\n -\tb: S3cret\n":           "x:2:3: a tab where",
		"a: @S3cret":                    "x:1:4: a text that begins with @",
		"a: b: S3cret":                  `x:1:5: ": " is not expected here`,
		"a: ? S3cret":                   `x:1:4: "?" is not expected`,
		"a: - S3cret":                   "x:1:4: a list",
		"a: {b: c S3cret: d}":           `x:1:16: "," or "}" is expected`,
		"a: {b: [c}\nS3cret: d":         `x:1:10: "," or "]" is expected`,
		"a: [b, , S3cret]":              `x:1:8: a value is expected here`,
		"a: {b: S3cret":                 "x:1:4: \"{\" or \"[\" is never closed",
		"a: {":                          "x:1:5: \"{\" or \"[\" is never closed",
		"  a: 1\n b: S3cret\n":          "x:2:2: ",
		"a: 'x' S3cret\n":               `x:1:8: a "key: value" is expected`,
		"a:\n  - x\n  b: S3cret\n":      `x:3:3: a "- value" is expected`,
		"a: ]S3cret":                    "x:1:4: a value is expected here",
		"[a] S3cret":                    "x:1:5: is not expected after the value",
		"a: 1\n... S3cret\n":            "x:2:5: text after the document's end",
	} {
		_, errs := parseTree("x", []byte(src))
		if len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), want) || strings.Contains(errs[0].Error(), "S3cret") {
			t.Errorf("%q: got %v, want %s", src, errs, want)
		}
		var n yaml.Node
		var e *yaml.LoadError
		if errors.As(yaml.Load([]byte(src), &n), &e) {
			shown[mistake(e)] = true
		}
	}
	for i, m := range syntaxMistakes {
		if i > 0 && !shown[i] { // the first is ours, and the library at rest allows more
			t.Errorf("no file shows %+v", m)
		}
	}
}
