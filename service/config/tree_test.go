package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// outline prints a tree: its structure, keys and texts.
func (n *node) outline(b *strings.Builder) {
	switch n.kind {
	case nothing:
		b.WriteString("~")
	case scalar:
		fmt.Fprintf(b, "%q", n.text)
	case list:
		b.WriteString("[")
		for _, item := range n.items {
			item.outline(b)
			b.WriteString(" ")
		}
		b.WriteString("]")
	case mapping:
		b.WriteString("{")
		for _, e := range n.entries {
			fmt.Fprintf(b, "%s@%d:%d:", e.name, e.Line, e.Column)
			e.value.outline(b)
			b.WriteString(" ")
		}
		b.WriteString("}")
	}
}

func TestTrees(t *testing.T) {
	for src, want := range map[string]string{
		"":                      "~",
		"# a\n\n# b":            "~",
		"---\n":                 "~",
		"--- # a\na: b\n...\n":  `{a@2:1:"b" }`,
		"a:\nb: ~\nc: null\n":   `{a@1:1:~ b@2:1:~ c@3:1:~ }`,
		"a:\n- b\n-\n- c: d\n":  `{a@1:1:["b" ~ {c@4:3:"d" } ] }`,
		"a: >-\n  b\n  c\nd: e": `{a@1:1:"b c" d@4:1:"e" }`,
		"a: b\n  c\nd: e":       `{a@1:1:"b c" d@3:1:"e" }`,
		"a: \"b\n  c\"":         `{a@1:1:"b c" }`,
		// What is put in front of a bracket at the root is not counted.
		`{"a":1,"é":{"b":[]}}`:            `{a@1:2:"1" é@1:8:{b@1:13:[] } }`,
		"# c\n\n  {a: 1,\n  b: 2}":        `{a@3:4:"1" b@4:3:"2" }`,
		"é: {ü: 'it''s', \"x y\": \"é\"}": `{é@1:1:{ü@1:5:"it's" x y@1:17:"é" } }`,
		"2020-01-01: yes\n<<a: 1":         `{2020-01-01@1:1:"yes" <<a@2:1:"1" }`,
		"a: {{u}}":                        `x:1:4: "{{" outside of quotes`,
		"? [a]\n: b":                      "x:1:3: a mapping or list where a key",
		"a: &b c\nd: *b\ne: !!str f":      "x:1:4: an anchor|x:2:4: an alias|x:3:4: a tag",
		"a: ! b\n? !x c\n? &y d":          "x:1:4: a tag|x:2:3: a tag|x:3:3: an anchor",
		"a: &b\n  c: d\ne: ! [f]":         "x:1:4: an anchor|x:3:4: a tag",
		"&a a: b\n*a : c":                 "x:1:1: an anchor|x:2:1: an alias (*name) for a key",
		"<<: {a: b}":                      "x:1:1: a merge key",
		": a":                             `x:1:1: ":" without a key`,
		"a: b\n---\nc: d":                 "x:2:1: a second document",
		"a: |\n  b\nc: \"\\0\"":           "x:1:4: a text with a line break|x:3:4: a text with a line break",
		"a: 1\nb: {c: 1, c: 2}\na: 3":     `x:2:11: key "c" stands twice in this mapping, first at 2:5|x:3:1: key "a" stands twice in this mapping, first at 1:1`,
		strings.Repeat("{a: ", 15) + "1" + strings.Repeat("}", 15): "{",
		strings.Repeat("{a: ", 16) + "1" + strings.Repeat("}", 16): "x:1:65: more than 16 levels",
		strings.Repeat("- ", 16) + "1":                             "x:1:33: more than 16 levels",
		strings.Repeat("- ", 17) + "1":                             "x:1:33: more than 16 levels",
	} {
		root, errs := parseTree("x", []byte(src))
		var got strings.Builder
		if len(errs) == 0 {
			root.outline(&got)
		}
		wants := strings.Split(want, "|")
		for i, e := range errs {
			if i < len(wants) && strings.HasPrefix(e.Error(), wants[i]) {
				got.WriteString(wants[i])
			} else {
				got.WriteString(e.Error())
			}
			if i+1 < len(errs) {
				got.WriteString("|")
			}
		}
		if got.String() != want && (want != "{" || !strings.HasPrefix(got.String(), want)) {
			t.Errorf("%q: got %s, want %s", src, &got, want)
		}
	}
}

// checkPlaces checks that everything in a tree stands where it says.
func checkPlaces(t interface {
	Fatalf(string, ...any)
	Helper()
}, src string, root *node) {
	t.Helper()
	lines := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(src, "\ufeff")), "\n")
	at := func(p Position, text string) {
		if p.Line < 1 || p.Line > len(lines) || p.Column < 1 {
			t.Fatalf("%v is not in the file\n%q", p, src)
		}
		line := []rune(lines[p.Line-1])
		if p.Column > len(line)+1 {
			t.Fatalf("%v is not on its line\n%q", p, src)
		}
		rest := string(line[p.Column-1:])
		if text == "" || strings.HasPrefix(rest, text) || strings.HasPrefix(rest, `"`) || strings.HasPrefix(rest, `'`) ||
			strings.HasPrefix(rest, "|") || strings.HasPrefix(rest, ">") {
			return
		}
		// A text without quotes goes on on the next line.
		if word, _, _ := strings.Cut(text, " "); p.Line < len(lines) && strings.HasPrefix(rest, word) {
			return
		}
		t.Fatalf("%q is not at %v\n%q", text, p, src)
	}
	var walk func(n *node)
	walk = func(n *node) {
		at(n.Position, n.text)
		for _, e := range n.entries {
			at(e.Position, e.name)
			walk(e.value)
		}
		for _, item := range n.items {
			walk(item)
		}
	}
	walk(root)
}

// genYAML draws a document of the kinds that people write.
func genYAML(t *rapid.T, indent, depth int) string {
	pad := strings.Repeat(" ", indent)
	word := rapid.SampledFrom([]string{"a", "b-c", "d_e", "x1", "é", `"q k"`, `'s'`, "7"})
	leafValue := rapid.SampledFrom([]string{
		"", " 1", " 0.5", " 30s", " true", " ~", " x y", ` "a: b"`, ` 'it''s'`, " [a, b]", " {a: 1, b: [2, 3]}", " {}", " []",
		" a # note", " http://a:1/b#c", " {a: , b: }", " \"x\\u00e9y\\\\z\"", " {\"a\":1, 'b': 2}", " {a: {b: c}, d: e}", " -1", " 1e3",
	})
	var b strings.Builder
	if depth > 0 && rapid.IntRange(0, 3).Draw(t, "list") == 0 {
		for range rapid.IntRange(1, 3).Draw(t, "items") {
			if rapid.Bool().Draw(t, "mapping") {
				inner := genYAML(t, indent+2, depth-1)
				if strings.HasPrefix(inner, pad+"  ") && !strings.HasPrefix(inner, pad+"  -") {
					b.WriteString(pad + "- " + strings.TrimPrefix(inner, pad+"  "))
					continue
				}
			}
			b.WriteString(pad + "-" + leafValue.Draw(t, "leaf") + "\n")
		}
		return b.String()
	}
	seen := map[string]bool{}
	for range rapid.IntRange(1, 4).Draw(t, "keys") {
		key := word.Draw(t, "key")
		if seen[key] {
			continue
		}
		seen[key] = true
		if rapid.IntRange(0, 9).Draw(t, "comment") == 0 {
			b.WriteString(pad + "# note\n\n")
		}
		if depth > 0 && rapid.Bool().Draw(t, "nest") {
			deeper := rapid.IntRange(1, 4).Draw(t, "indent")
			b.WriteString(pad + key + ":\n" + genYAML(t, indent+deeper, depth-1))
			continue
		}
		b.WriteString(pad + key + ":" + leafValue.Draw(t, "leaf") + "\n")
	}
	return b.String()
}

func TestPlacesAreThoseOfTheFile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := genYAML(t, 0, 3)
		root, errs := parseTree("x", []byte(src))
		if len(errs) > 0 {
			t.Fatalf("%v\n%s", errs, src)
		}
		checkPlaces(t, src, root)
	})
	for _, file := range []string{"example/leasesvc.yaml", "example/definitions.yaml"} {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		root, errs := parseTree(file, src)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		checkPlaces(t, string(src), root)
	}
}

func FuzzTree(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.yaml")
	for _, file := range append(files, "example/leasesvc.yaml", "example/definitions.yaml") {
		if src, err := os.ReadFile(file); err == nil {
			f.Add(string(src))
		}
	}
	f.Fuzz(func(t *testing.T, src string) {
		root, errs := parseTree("x", []byte(src))
		lines := strings.Count(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(src), "\n") + 1
		for _, e := range errs {
			if e.Line < 1 || e.Line > lines || e.Column < 1 || e.Message == "" || e.Message == panicked || strings.ContainsAny(e.Error(), "\n\r\x00") {
				t.Fatalf("a bad error: %+v\n%q", e, src)
			}
		}
		if root != nil {
			checkPlaces(t, src, root)
		}
	})
}
