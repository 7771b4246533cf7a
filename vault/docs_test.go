package vault

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDocsNameEverything keeps docs/vault.md true: each kind of error has its
// row, each variable is named, and those that are said to have an effect do.
func TestDocsNameEverything(t *testing.T) {
	raw, err := os.ReadFile("../docs/vault.md")
	if err != nil {
		t.Fatal(err)
	}
	docs := string(raw)
	_, kinds, _ := strings.Cut(docs, "## What each kind of error does")
	for k := KindInvalid; int(k) < len(kindWords); k++ {
		if strings.Count(kinds, fmt.Sprintf("\n| `%s` |", k)) != 1 {
			t.Errorf("the kind %s has no row, or more than one", k)
		}
	}
	for _, name := range ignoredVariables {
		if !strings.Contains(docs, "`_"+name+"`") {
			t.Errorf("_%s, which is ignored, is not named", name)
		}
	}
	rows := regexp.MustCompile("(?m)^\\| `BAO_([A-Z_]+)`, `VAULT_([A-Z_]+)` \\| .* \\| (.*) \\|$").FindAllStringSubmatch(docs, -1)
	if len(rows) != 12 {
		t.Fatalf("%d variables have a row", len(rows))
	}
	for _, row := range rows {
		if row[1] != row[2] {
			t.Errorf("%s and %s share a row", row[1], row[2])
		}
		example := strings.Trim(strings.Split(row[3], " or ")[0], "`")
		o, err := Environment(env{"VAULT_" + row[1]: example}.lookup)
		if err != nil {
			t.Errorf("the example of %s: %v", row[1], err)
		}
		before := fmt.Sprintf("%+v", struct{ c Config }{Config{TokenFile: "x"}})
		after := Config{TokenFile: "x"}.Override(o)
		after.origins = nil
		if after := fmt.Sprintf("%+v", struct{ c Config }{after}); after == before {
			t.Errorf("%s=%s has no effect", row[1], example)
		}
	}
	for _, path := range []string{"database/creds/orders"} {
		for _, line := range strings.Split(Policy("leasesvc", Paths(path)...), "\n") {
			if strings.HasPrefix(line, "path ") && !strings.Contains(docs, strings.TrimSuffix(line, " {")) {
				t.Errorf("the policy's %s is not in the docs", line)
			}
		}
	}
}
