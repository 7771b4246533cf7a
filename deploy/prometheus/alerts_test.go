// Package prometheus_test checks the alert rules: that promtool takes them and
// their tests pass, that every alert has a test in which it fires and one in
// which it does not, and that every metric they name is exposed.
package prometheus_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/leasesvc/leasesvc/service/metrics"
)

// promtool runs it; it is of Debian's package prometheus
// (scripts/install-test-deps).
func promtool(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput()
	if err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestRulesAreRightAndTheirTestsPass(t *testing.T) {
	promtool(t, "check", "rules", "alerts.yaml")
	promtool(t, "test", "rules", "alerts_test.yaml")
}

type rules struct {
	Groups []struct {
		Rules []struct {
			Alert, Expr         string
			Labels, Annotations map[string]string
		}
	}
}

func read[T any](t *testing.T, file string) (out T) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

var ours = regexp.MustCompile(`leasesvc_[a-z_]+`)

func TestEveryAlertNamesMetricsThatExistAndSaysWhatToDo(t *testing.T) {
	exposed := map[string]bool{}
	for _, m := range metrics.Catalogue() {
		exposed[m.Name] = true
		if m.Type == metrics.Histogram {
			exposed[m.Name+"_count"], exposed[m.Name+"_sum"], exposed[m.Name+"_bucket"] = true, true, true
		}
	}
	tested := read[struct {
		Tests []struct {
			Cases []struct {
				Alert string           `yaml:"alertname"`
				Fires []map[string]any `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}](t, "alerts_test.yaml")
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, test := range tested.Tests {
		for _, c := range test.Cases {
			if len(c.Fires) > 0 {
				fires[c.Alert] = true
			} else {
				quiet[c.Alert] = true
			}
		}
	}
	n := 0
	for _, g := range read[rules](t, "alerts.yaml").Groups {
		for _, r := range g.Rules {
			n++
			for _, name := range ours.FindAllString(r.Expr, -1) {
				if !exposed[name] {
					t.Errorf("%s names %s, which is not exposed", r.Alert, name)
				}
			}
			if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || len(r.Annotations["action"]) < 40 {
				t.Errorf("%s does not say how bad it is, what it is and what to do", r.Alert)
			}
			if !fires[r.Alert] || !quiet[r.Alert] {
				t.Errorf("%s has a test in which it fires (%v) and one in which it does not (%v)", r.Alert, fires[r.Alert], quiet[r.Alert])
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d rules were read", n)
	}
}

var block = regexp.MustCompile("(?s)```yaml\n(scrape_configs:.*?)```")

// TestScrapeConfigurationsOfTheDocumentationAreRight: promtool takes each.
func TestScrapeConfigurationsOfTheDocumentationAreRight(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := block.FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 2 {
		t.Fatalf("%d configurations were found", len(blocks))
	}
	for i, b := range blocks {
		file := filepath.Join(t.TempDir(), "prometheus.yml")
		if err := os.WriteFile(file, []byte(b[1]), 0o600); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b[1], "job_name: leasesvc\n") {
			t.Errorf("configuration %d does not scrape as the job that the rules expect", i)
		}
		promtool(t, "check", "config", "--syntax-only", file) // the files it names are not here
	}
}
