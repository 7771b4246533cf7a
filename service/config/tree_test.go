package config

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
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
			fmt.Fprintf(b, "%q:", e.name)
			e.value.outline(b)
			b.WriteString(" ")
		}
		b.WriteString("}")
	}
}

// outlineOf prints what goccy/go-yaml's own parser made of a document.
func outlineOf(n ast.Node, b *strings.Builder) {
	switch n := n.(type) {
	case nil, *ast.NullNode, *ast.CommentGroupNode:
		b.WriteString("~")
	case *ast.MappingNode:
		b.WriteString("{")
		for _, v := range n.Values {
			fmt.Fprintf(b, "%q:", v.Key.GetToken().Value)
			outlineOf(v.Value, b)
			b.WriteString(" ")
		}
		b.WriteString("}")
	case *ast.MappingValueNode:
		fmt.Fprintf(b, "{%q:", n.Key.GetToken().Value)
		outlineOf(n.Value, b)
		b.WriteString(" }")
	case *ast.SequenceNode:
		b.WriteString("[")
		for _, v := range n.Values {
			outlineOf(v, b)
			b.WriteString(" ")
		}
		b.WriteString("]")
	case *ast.LiteralNode:
		fmt.Fprintf(b, "%q", n.Value.Value)
	default:
		fmt.Fprintf(b, "%q", n.GetToken().Value)
	}
}

// other reads src with goccy/go-yaml's parser.
func other(src string) (outline string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("it panicked: %v", r)
		}
	}()
	f, err := parser.ParseBytes([]byte(src), 0)
	if err != nil {
		return "", err
	}
	if len(f.Docs) > 1 {
		return "", fmt.Errorf("%d documents", len(f.Docs))
	}
	var b strings.Builder
	if len(f.Docs) == 0 {
		b.WriteString("~")
	} else {
		outlineOf(f.Docs[0].Body, &b)
	}
	return b.String(), nil
}

// faults are where the other parser is known to read something else than
// YAML 1.2.2 says; what has one is not compared.
var faults = []*regexp.Regexp{
	regexp.MustCompile(`<<`),                          // the key "a<<" is read as "<<"
	regexp.MustCompile(`(?m)^(\.\.\.|---)[^ \t\r\n]`), // "...x" is read as the end of a document
}

// agree checks that what parseTree accepts, the other parser reads the same
// way. (What parseTree refuses, the other may accept: it is the narrower.)
func agree(t interface {
	Fatalf(string, ...any)
	Helper()
}, src string) (compared bool) {
	t.Helper()
	root, errs := parseTree("x.yaml", []byte(src))
	if len(errs) > 0 {
		for _, e := range errs {
			if e.Line < 1 || e.Column < 1 || e.Message == "" {
				t.Fatalf("an error without a position: %+v\n%q", e, src)
			}
		}
		return false
	}
	for _, fault := range faults {
		if fault.MatchString(src) {
			return false
		}
	}
	clean := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(src, "\ufeff"))
	want, err := other(clean)
	if err != nil {
		// Where the other one refuses, nothing is compared; TestParsersAgree
		// checks that this is rare in files that people write.
		return false
	}
	var got strings.Builder
	root.outline(&got)
	if got.String() != want {
		t.Fatalf("read as\n%s\nby the other parser as\n%s\n%q", got.String(), want, src)
	}
	return true
}

// genYAML draws a document of the kinds that people write.
func genYAML(t *rapid.T, indent, depth int) string {
	pad := strings.Repeat(" ", indent)
	word := rapid.SampledFrom([]string{"a", "b-c", "d_e", "x1", "é", `"q k"`, `'s'`, "7"})
	leafValue := rapid.SampledFrom([]string{
		"", " 1", " 0.5", " 30s", " true", " ~", " x y", ` "a: b"`, ` 'it''s'`, " [a, b]", " {a: 1, b: [2, 3]}", " {}", " []",
		" a # note", " http://a:1/b#c", " {a: , b: }", " \"x\\u00e9y\\\\z\"", " {\"a\":1, 'b': 2}", " [\n  a,\n  b ]", " {a: {b: c}, d: e}", " -1", " 1e3",
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

func TestParsersAgree(t *testing.T) {
	compared, total := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		src := genYAML(t, 0, 3)
		total++
		if agree(t, src) {
			compared++
		}
	})
	if compared*10 < total*9 {
		t.Errorf("only %d of %d documents were compared", compared, total)
	}
	files, _ := filepath.Glob("testdata/*.yaml")
	for _, file := range append(files, "example/leasesvc.yaml", "example/definitions.yaml") {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		agree(t, string(src))
	}
}

func FuzzTreeAgreesWithTheOtherParser(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.yaml")
	for _, file := range append(files, "example/leasesvc.yaml", "example/definitions.yaml") {
		if src, err := os.ReadFile(file); err == nil {
			f.Add(string(src))
		}
	}
	f.Fuzz(func(t *testing.T, src string) {
		if len(src) > 1<<16 || strings.Count(src, "\n") > 500 {
			return // the other parser takes quadratic time
		}
		agree(t, src)
	})
}
