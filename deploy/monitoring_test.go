package deploy

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// dashboard is what the tests look at of Grafana's.
type dashboard struct {
	UID    string
	Panels []struct {
		ID      int
		Type    string
		Title   string
		GridPos struct{ H, W, X, Y int }
		Targets []struct{ Expr string }
	}
	Templating struct {
		List []struct{ Name, Definition string }
	}
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal([]byte(read(t, "grafana/dashboards/leasesvc.json")), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// expressions are those of the panels, and of what is chosen from.
func (d dashboard) expressions() []string {
	var all []string
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			all = append(all, target.Expr)
		}
	}
	return all
}

var (
	metricName = regexp.MustCompile(`\bleasesvc_[a-z_]+\b`)
	metricRow  = regexp.MustCompile("(?m)^\\| `(leasesvc_[a-z_]+)` \\| (counter|gauge|histogram) \\|")
)

// TestDashboardShowsMetricsThatThereAre: every metric that it asks for stands in
// docs/metrics.md, of which the service's own tests see that it is true.
func TestDashboardShowsMetricsThatThereAre(t *testing.T) {
	kinds := map[string]string{}
	for _, m := range metricRow.FindAllStringSubmatch(read(t, "../docs/metrics.md"), -1) {
		kinds[m[1]] = m[2]
	}
	d, asked := readDashboard(t), map[string]bool{}
	text := d.expressions()
	for _, v := range d.Templating.List {
		text = append(text, v.Definition)
	}
	for _, name := range metricName.FindAllString(strings.Join(text, "\n"), -1) {
		base, suffix := name, ""
		for _, s := range []string{"_bucket", "_count", "_sum"} {
			if b, ok := strings.CutSuffix(name, s); ok && kinds[b] == "histogram" {
				base, suffix = b, s
			}
		}
		asked[base] = true
		switch kind := kinds[base]; {
		case kind == "":
			t.Errorf("the dashboard asks for %s, which docs/metrics.md does not have", name)
		case kind == "histogram" && suffix == "":
			t.Errorf("the dashboard asks for %s, which is a histogram: there are only its _bucket, _count and _sum", name)
		}
	}
	if len(asked) < 25 {
		t.Errorf("only %d metrics are shown", len(asked))
	}
	for _, expr := range d.expressions() {
		for name, kind := range kinds {
			if kind == "counter" && regexp.MustCompile(`\b`+name+`\b`).MatchString(expr) && !regexp.MustCompile(`(rate|increase)\(`+name+`\b`).MatchString(expr) {
				t.Errorf("%s is a counter, of which only rates and increases mean something: %s", name, expr)
			}
		}
	}
}

// TestDashboardHoldsTogether: panels have numbers of their own, lie beside each other
// and not on each other, and have a data source to ask.
func TestDashboardHoldsTogether(t *testing.T) {
	d := readDashboard(t)
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("two panels are number %d", p.ID)
		}
		ids[p.ID] = true
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("%s shows nothing", p.Title)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, there := taken[[2]int{x, y}]; there || x >= 24 {
					t.Fatalf("%s lies on %q, or beyond the edge", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
	for file, want := range map[string]string{
		"grafana/provisioning/datasources/prometheus.yaml": "type: prometheus",
		"grafana/provisioning/dashboards/leasesvc.yaml":    "path: /etc/grafana/dashboards",
	} {
		if !strings.Contains(read(t, file), want) {
			t.Errorf("%s has no %q", file, want)
		}
	}
	if mounts := readCompose(t).Services["grafana"].Volumes; !slices.Contains(mounts, "./deploy/grafana/dashboards:/etc/grafana/dashboards:ro") {
		t.Errorf("the dashboard is not where the provider looks: %v", mounts)
	}
}

// TestDashboardAsksWhatPrometheusUnderstands: each expression as a rule of its own.
func TestDashboardAsksWhatPrometheusUnderstands(t *testing.T) {
	type rule struct {
		Record string `yaml:"record"`
		Expr   string `yaml:"expr"`
	}
	var rules []rule
	for i, expr := range readDashboard(t).expressions() {
		expr = strings.NewReplacer("$scope", ".*", "$__rate_interval", "5m").Replace(expr)
		if strings.Contains(expr, "$") {
			t.Errorf("a variable that is not known: %s", expr)
		}
		rules = append(rules, rule{fmt.Sprintf("dashboard:expression:%d", i), expr})
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", file)
}

// TestPrometheusTakesItsConfiguration, the alert rules in it too.
func TestPrometheusTakesItsConfiguration(t *testing.T) {
	dir := t.TempDir()
	token := filepath.Join(dir, "prometheus-token")
	text := strings.ReplaceAll(read(t, "prometheus/prometheus.yaml"), "/secrets/prometheus-token", token)
	for name, content := range map[string]string{"prometheus.yaml": text, "alerts.yaml": read(t, "prometheus/alerts.yaml"), "prometheus-token": "a-token-of-no-worth"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	promtool(t, "check", "config", filepath.Join(dir, "prometheus.yaml"))
	var c struct {
		ScrapeConfigs []struct {
			JobName       string `yaml:"job_name"`
			StaticConfigs []struct {
				Targets []string `yaml:"targets"`
			} `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	if err := yaml.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	if len(c.ScrapeConfigs) != 1 || c.ScrapeConfigs[0].JobName != "leasesvc" {
		t.Fatalf("the alert rules expect the job leasesvc: %+v", c)
	}
	services := readCompose(t).Services
	for _, target := range c.ScrapeConfigs[0].StaticConfigs[0].Targets {
		host, port, _ := strings.Cut(target, ":")
		if _, ok := services[host]; !ok || port != "8250" {
			t.Errorf("%s is no instance of the compose file", target)
		}
	}
}

func promtool(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("promtool", args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %v: %v (scripts/install-test-deps installs it)\n%s", args, err, out)
	}
}
