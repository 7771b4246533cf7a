package metrics

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/leasesvc/leasesvc/events"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gathered gives the families that leasesvc's metrics make, each with its lines.
func gathered(t *testing.T, g prometheus.Gatherer) map[string]map[string]float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]float64{}
	for _, f := range families {
		lines := map[string]float64{}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			value := m.GetGauge().GetValue() + m.GetCounter().GetValue()
			if h := m.GetHistogram(); h != nil {
				value = float64(h.GetSampleCount())
			}
			lines[strings.Join(labels, ",")] = value
		}
		out[f.GetName()] = lines
	}
	return out
}

func TestEveryMetricOfTheCatalogueIsExposedAndNoOther(t *testing.T) {
	m := New(full(), Options{Version: "1.2.3", PerLease: 10})
	feed(m)
	got := gathered(t, pedantic(m))
	for _, c := range Catalogue() {
		if _, there := got[c.Name]; !there {
			t.Errorf("%s is not exposed", c.Name)
		}
	}
	for name := range got {
		ours := slices.ContainsFunc(Catalogue(), func(c *Metric) bool { return c.Name == name })
		if !ours && !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			t.Errorf("%s is in no catalogue", name)
		}
	}
	if problems, err := testutil.GatherAndLint(m.Gatherer()); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}

func TestValuesAreThoseOfTheSource(t *testing.T) {
	m := New(full(), Options{Version: "1.2.3", PerLease: 10})
	feed(m)
	got := gathered(t, m.Gatherer())
	unix := float64(noon.Unix())
	for _, want := range []struct {
		name, labels string
		value        float64
	}{
		{"leasesvc_log_stream_fill_ratio", "", 0.8},
		{"leasesvc_holder_deposals_total", "by=no-responders", 2},
		{"leasesvc_holder_deposals_total", "by=silence", 1},
		{"leasesvc_vault_calls_total", "connection=main,operation=read,result=ok", 7},
		{"leasesvc_vault_calls_total", "connection=main,operation=renew-lease,result=permission", 2},
		{"leasesvc_vault_out", "connection=main", 1},
		{"leasesvc_scope_leading", "scope=prod", 1},
		{"leasesvc_scope_leading", "scope=batch", 0},
		{"leasesvc_scope_names", "scope=prod,state=usable", 3},
		{"leasesvc_scope_names", "scope=prod,state=unusable", 2},
		{"leasesvc_scope_names_failing", "scope=prod", 1},
		{"leasesvc_scope_names_overdue", "scope=prod", 2},
		{"leasesvc_scope_earliest_expiry_timestamp_seconds", "scope=prod", unix - 60},
		{"leasesvc_scope_leases", "scope=prod,state=active", 2},
		{"leasesvc_scope_leases", "scope=prod,state=revoking", 2},
		{"leasesvc_scope_consumers", "scope=prod,state=following", 1},
		{"leasesvc_scope_consumers_absent", "scope=prod", 1},
		{"leasesvc_scope_fence_refusals_total", "by=append,scope=prod", 1},
		{"leasesvc_scope_takeovers_total", "how=quiet,scope=prod", 1},
		{"leasesvc_scope_failover_gap_seconds", "how=quiet,scope=prod", 1},
		{"leasesvc_scope_handover_duration_seconds", "outcome=committed,scope=prod", 1},
		{"leasesvc_lease_expiry_timestamp_seconds", "name=orders,scope=prod", unix + 3600},
		{"leasesvc_lease_usable", "name=gone,scope=prod", 0},
		{"leasesvc_lease_usable", "name=static,scope=prod", 1},
		{"leasesvc_lease_failed_attempts", "name=late,scope=prod", 3},
		{"leasesvc_lease_failures_total", "action=acquire,kind=permission,name=late,scope=prod", 1},
		{"leasesvc_lease_consumers_behind", "name=orders,scope=prod", 1},
	} {
		if v, there := got[want.name][want.labels]; !there || v != want.value {
			t.Errorf("%s{%s} is %v (%v), not %v; there are %v", want.name, want.labels, v, there, want.value, got[want.name])
		}
	}
	for name, labels := range map[string]string{
		"leasesvc_lease_expiry_timestamp_seconds":       "name=static,scope=prod", // it does not expire
		"leasesvc_lease_usable":                         "name=new,scope=prod",    // nobody knows yet
		"leasesvc_lease_last_success_timestamp_seconds": "name=none,scope=prod",
		"leasesvc_scope_names":                          "scope=batch,state=usable", // not led here
	} {
		if v, there := got[name][labels]; there {
			t.Errorf("%s{%s} is %v and must be absent", name, labels, v)
		}
	}
	if _, there := got["leasesvc_scope_failover_gap_seconds"]["how=fresh,scope=prod"]; there {
		t.Error("a scope that nobody led before has a gap")
	}
}

// TestOddWordsAndManyNamesStayBounded: whatever kinds, operations and results
// come, and however many names fail, the number of series has a bound.
func TestOddWordsAndManyNamesStayBounded(t *testing.T) {
	f := full()
	for i := range 1000 {
		odd := strings.Repeat("\xff\"}\n", i%7) + "secret/data/x" + strings.Repeat("k", i)
		f.figures.Vaults[0].Calls = append(f.figures.Vaults[0].Calls, VaultCalls{odd, odd, 1})
	}
	m := New(f, Options{Version: "1.2.3", PerLease: 10})
	feed(m)
	for i := range 1000 {
		m.Applied(failed("prod", "late", "kind-"+strings.Repeat("x", i)+"\xff\n"))
		m.Applied(failed("prod", "stranger-"+strings.Repeat("y", i), "permission")) // no name of the scope
	}
	got := gathered(t, pedantic(m))
	if calls := got["leasesvc_vault_calls_total"]; len(calls) != 3 || calls["connection=main,operation=other,result=other"] != 1000 {
		t.Errorf("calls: %v", calls)
	}
	if by := got["leasesvc_lease_failures_total"]; len(by) != 2 || by["action=acquire,kind=other,name=late,scope=prod"] != 1000 {
		t.Errorf("%d series of failures by name: %v", len(by), by)
	}
	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if body := rec.Body.String(); rec.Code != 200 || strings.Contains(body, "secret/data") || strings.Contains(body, "SECRET") || strings.Contains(body, "creds/") {
		t.Errorf("status %d; a path or a message is in what was scraped", rec.Code)
	}
}

func TestAScopeWithMoreNamesThanTheLimitHasSumsAlone(t *testing.T) {
	f := many(11)
	for limit, want := range map[int]int{0: 0, 10: 0, 11: 11, 1000: 11} {
		m := New(f, Options{PerLease: limit})
		m.Applied(failed("prod", "name-000001", "timeout"))
		got := gathered(t, m.Gatherer())
		if n := len(got["leasesvc_lease_expiry_timestamp_seconds"]); n != want {
			t.Errorf("with per_lease %d: %d series", limit, n)
		}
		if n := len(got["leasesvc_lease_failures_total"]); (n > 0) != (want > 0) {
			t.Errorf("with per_lease %d: %d series of failures", limit, n)
		}
		if got["leasesvc_scope_leases"]["scope=prod,state=active"] != 11 {
			t.Errorf("with per_lease %d: %v", limit, got["leasesvc_scope_leases"])
		}
	}
}

func TestARemovedNamesSeriesGo(t *testing.T) {
	f := full()
	m := New(f, Options{PerLease: 10})
	m.Applied(failed("prod", "late", "timeout"))
	m.Applied(failed("prod", "orders", "timeout"))
	m.Applied(&events.Event{Scope: "prod", Name: "late", Data: &events.Removed{}})
	by := gathered(t, m.Gatherer())["leasesvc_lease_failures_total"]
	if len(by) != 1 || by["action=acquire,kind=timeout,name=orders,scope=prod"] != 1 {
		t.Errorf("after the removal: %v", by)
	}
	m.Ended("prod", EndSteppedDown)
	if by := gathered(t, m.Gatherer())["leasesvc_lease_failures_total"]; len(by) != 0 {
		t.Errorf("after the term: %v", by)
	}
}

// TestEveryFailureEventIsCounted: each event that carries a failure has an action.
func TestEveryFailureEventIsCounted(t *testing.T) {
	f := events.Failure{Kind: "timeout"}
	for _, d := range []events.Data{
		&events.AcquireFailed{Failure: f}, &events.VerifyFailed{Failure: f}, &events.RollbackStarted{Failure: f},
		&events.RenewFailed{Failure: f}, &events.RevokeFailed{Failure: f}, &events.Rejected{Failure: f},
	} {
		if action, kind := failureOf(&events.Event{Data: d}); action == "" || kind != "timeout" {
			t.Errorf("%s counts as %q, %q", d.EventType(), action, kind)
		}
	}
	if action, _ := failureOf(&events.Event{Data: &events.Renewed{}}); action != "" {
		t.Errorf("a renewal counts as failed: %q", action)
	}
}

var documented = regexp.MustCompile("(?m)^\\| `(leasesvc_[a-z_]+)` \\| (\\w+) \\| ([^|]*) \\| ([^|]*) \\|$")

// TestDocumentationHasEveryMetric holds docs/metrics.md to the catalogue.
func TestDocumentationHasEveryMetric(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	for _, r := range documented.FindAllStringSubmatch(string(text), -1) {
		if rows[r[1]] != nil {
			t.Errorf("%s is documented twice", r[1])
		}
		rows[r[1]] = r[2:]
	}
	for _, m := range Catalogue() {
		want := m.row()
		if got := rows[m.Name]; got == nil || "| `"+m.Name+"` | "+strings.Join(got, " | ")+" |" != want {
			t.Errorf("the row of docs/metrics.md must be:\n%s", want)
		}
		delete(rows, m.Name)
	}
	for name := range rows {
		t.Errorf("%s is documented and does not exist", name)
	}
}

// row is a metric's line in the documentation.
func (m *Metric) row() string {
	labels := "none"
	if len(m.Labels) > 0 {
		labels = strings.Join(m.Labels, ", ")
	}
	return "| `" + m.Name + "` | " + string(m.Type) + " | " + labels + " | " + m.Help + " |"
}

// TestPromtoolFindsNothing runs promtool's check over a scrape.
func TestPromtoolFindsNothing(t *testing.T) {
	m := New(full(), Options{Version: "1.2.3", PerLease: 10})
	feed(m)
	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	promtool(t, rec.Body)
}

func promtool(t *testing.T, scraped io.Reader) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "promtool", "check", "metrics")
	cmd.Stdin = scraped
	if out, err := cmd.CombinedOutput(); err != nil || len(strings.TrimSpace(string(out))) > 0 {
		t.Errorf("promtool check metrics (of Debian's package prometheus, see scripts/install-test-deps): %v\n%s", err, out)
	}
}

// BenchmarkScrape is what a scrape of one scope costs, by its names and whether
// each has series.
func BenchmarkScrape(b *testing.B) {
	for what, limit := range map[string]int{"sums": 0, "series": 1_000_000} {
		for _, n := range []int{1_000, 10_000, 100_000} {
			f := many(n)
			b.Run(what+"/"+strconv.Itoa(n), func(b *testing.B) {
				m := New(f, Options{PerLease: limit})
				b.ReportAllocs()
				for b.Loop() {
					rec := httptest.NewRecorder()
					m.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
					b.ReportMetric(float64(rec.Body.Len()), "bytes")
				}
			})
		}
	}
}
