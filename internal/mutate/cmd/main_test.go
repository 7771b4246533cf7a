package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheExitCodeTells(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module example.org/sample\n\ngo 1.26\n",
		"a.go":      "package sample\n\nfunc Less(a, b int) bool { return a < b }\n",
		"a_test.go": "package sample\n\nimport \"testing\"\n\nfunc TestLess(t *testing.T) {\n\tif !Less(1, 2) || Less(2, 1) {\n\t\tt.Error(\"wrong\")\n\t}\n}\n",
		"known.md":  "| file | function | mutation | reason |\n|---|---|---|---|\n| a.go | Less | `a < b` → `a <= b` | it is an example |\n",
		"stale.md":  "| file | function | mutation | reason |\n|---|---|---|---|\n| a.go | More | `a < b` → `a <= b` | it is gone |\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	for name, c := range map[string]struct {
		args string
		code int
		says string
	}{
		"enough":     {"-min 60 .=.", 0, "survived  a.go:3: Less: `a < b` → `a <= b`"},
		"too few":    {"-min 90 -rows .", 1, "| a.go | Less | `a < b` → `a <= b` |  |"},
		"listed":     {"-min 90 -equivalent known.md .", 0, "1 listed as equivalent: 100.0 %"},
		"stale":      {"-equivalent stale.md .", 1, "no such mutant any more"},
		"no table":   {"-equivalent none.md .", 2, "none.md"},
		"no package": {"./none", 2, "reading package ./none"},
		"nothing":    {"", 2, "name a package"},
		"no flag":    {"-what", 2, "-what"},
	} {
		var out strings.Builder
		if code := run(context.Background(), strings.Fields(c.args), &out, &out); code != c.code || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: ended with %d, want %d and %q:\n%s", name, code, c.code, c.says, out.String())
		}
	}
}
