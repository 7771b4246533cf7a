package service_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/service"
)

// scrape reads the metrics of an instance: value by name and labels, as they are
// written.
func scrape(t *testing.T, url string) (values map[string]float64, text string) {
	t.Helper()
	r, err := plainClient.Get(url + "/metrics")
	if err != nil {
		return nil, ""
	}
	defer func() { _ = r.Body.Close() }()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		return nil, string(b)
	}
	values = map[string]float64{}
	lines := bufio.NewScanner(strings.NewReader(string(b)))
	for lines.Scan() {
		if key, value, ok := strings.Cut(lines.Text(), " "); ok && !strings.HasPrefix(key, "#") {
			values[key], _ = strconv.ParseFloat(value[strings.LastIndexByte(value, ' ')+1:], 64)
		}
	}
	return values, string(b)
}

var plainClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}

// until waits until the instance's metrics have these values; "+" in front of a
// value: at least that.
func (r *rig) until(url, what string, want map[string]string) map[string]float64 {
	r.t.Helper()
	var got map[string]float64
	deadline := time.Now().Add(60 * time.Second)
	for {
		got, _ = scrape(r.t, url)
		missing := ""
		for key, value := range want {
			v, there := got[key]
			n, _ := strconv.ParseFloat(strings.TrimPrefix(value, "+"), 64)
			if !there || (strings.HasPrefix(value, "+") && v < n) || (!strings.HasPrefix(value, "+") && v != n) {
				missing += "\n" + key + " is " + strconv.FormatFloat(v, 'g', -1, 64) + ", not " + value
			}
		}
		if missing == "" {
			return got
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%s:%s", what, missing)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// TestMetrics_TellWhatHappens drives a rotation, a verification that fails, a
// Vault that is out, a message by hand and a fence, and holds what is scraped to
// it.
func TestMetrics_TellWhatHappens(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	var refuse atomic.Bool
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		user, password, _ := q.BasicAuth()
		if refuse.Load() || r.accts.Login(user, password) != nil {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(app.Close)
	r.more = "http: {listen: 127.0.0.1:0}\n"
	r.definitions(1, `  app:
    path: database/creds/app
    kind: postgresql
    consumers: [{name: shop}]
    verifier: {kind: http, dsn: "http://{{username}}:{{password}}@`+strings.TrimPrefix(app.URL, "http://")+`/", timeout: 200ms}
    prepare_timeout: 5s
    good_for: 100ms
`)
	url, stop := r.servePage("state-a")
	s := &shop{rig: r}

	// Nobody is there yet who must follow.
	r.until(url(), "before the consumer", map[string]string{
		`leasesvc_scope_leading{scope="prod"}`:                                     "1",
		`leasesvc_scope_ready{scope="prod"}`:                                       "1",
		`leasesvc_scope_consumers_absent{scope="prod"}`:                            "1",
		`leasesvc_lease_consumers_absent{name="app",scope="prod"}`:                 "1",
		`leasesvc_scope_takeovers_total{how="fresh",scope="prod"}`:                 "1",
		`leasesvc_nats_connected`:                                                  "1",
		`leasesvc_insecure_consumers`:                                              "1",
		`leasesvc_vault_guarded{connection="main"}`:                                "1",
		`leasesvc_vault_out{connection="main"}`:                                    "0",
		`leasesvc_scope_fence_refusals_total{by="append",scope="prod"}`:            "0",
		`leasesvc_scope_foreign_messages_total{scope="prod"}`:                      "0",
		`leasesvc_scope_failures_total{action="verify",kind="other",scope="prod"}`: "0",
	})
	r.serve(s)
	first := r.until(url(), "the first lease", map[string]string{
		`leasesvc_lease_usable{name="app",scope="prod"}`:                                     "1",
		`leasesvc_scope_names{scope="prod",state="usable"}`:                                  "1",
		`leasesvc_scope_names{scope="prod",state="unusable"}`:                                "0",
		`leasesvc_scope_consumers{scope="prod",state="following"}`:                           "1",
		`leasesvc_scope_consumers_absent{scope="prod"}`:                                      "0",
		`leasesvc_scope_leases{scope="prod",state="active"}`:                                 "1",
		`leasesvc_scope_handover_duration_seconds_count{outcome="committed",scope="prod"}`:   "+1",
		`leasesvc_vault_calls_total{connection="main",operation="read",result="ok"}`:         "+1",
		`leasesvc_vault_calls_total{connection="main",operation="create-guard",result="ok"}`: "+1",
		`leasesvc_log_stream_limit_bytes`:                                                    "+1",
		`leasesvc_holder_renewals_total`:                                                     "+1",
	})
	now := float64(time.Now().Unix())
	expiry, granted, due := first[`leasesvc_lease_expiry_timestamp_seconds{name="app",scope="prod"}`],
		first[`leasesvc_lease_last_success_timestamp_seconds{name="app",scope="prod"}`], first[`leasesvc_lease_renewal_due_timestamp_seconds{name="app",scope="prod"}`]
	if expiry < granted+3590 || expiry > granted+3610 || granted < now-300 || granted > now+5 || due < granted+1500 || due > granted+1900 {
		t.Errorf("granted at %f, due at %f, ends at %f; now it is %f", granted, due, expiry, now)
	}
	if next := first[`leasesvc_lease_next_attempt_timestamp_seconds{name="app",scope="prod"}`]; next < now || next > expiry {
		t.Errorf("looked at next at %f, now it is %f", next, now)
	}
	if first[`leasesvc_scope_earliest_expiry_timestamp_seconds{scope="prod"}`] != expiry {
		t.Error("the earliest expiry is not that of the only lease")
	}
	_, text := scrape(t, url())
	check := exec.CommandContext(t.Context(), "promtool", "check", "metrics")
	check.Stdin = strings.NewReader(text)
	if out, err := check.CombinedOutput(); err != nil || len(strings.TrimSpace(string(out))) > 0 {
		t.Errorf("promtool check metrics (of Debian's package prometheus, see scripts/install-test-deps): %v\n%s", err, out)
	}

	// A rotation.
	r.done(r.api().Rotate(context.Background(), "prod", "app"))
	r.until(url(), "the rotation", map[string]string{
		`leasesvc_scope_handover_duration_seconds_count{outcome="committed",scope="prod"}`:   "+2",
		`leasesvc_scope_events_total{scope="prod",type="revoked"}`:                           "+1",
		`leasesvc_scope_leases{scope="prod",state="active"}`:                                 "1",
		`leasesvc_scope_leases{scope="prod",state="grace"}`:                                  "0",
		`leasesvc_vault_calls_total{connection="main",operation="revoke-lease",result="ok"}`: "+1",
		`leasesvc_lease_failed_attempts{name="app",scope="prod"}`:                            "0",
		`leasesvc_scope_names_failing{scope="prod"}`:                                         "0",
	})

	// A verification that fails.
	refuse.Store(true)
	r.done(r.api().Rotate(context.Background(), "prod", "app"))
	r.until(url(), "the failed verification", map[string]string{
		`leasesvc_scope_failures_total{action="verify",kind="authentication-refused",scope="prod"}`:            "+1",
		`leasesvc_lease_failures_total{action="verify",kind="authentication-refused",name="app",scope="prod"}`: "+1",
		`leasesvc_lease_failed_attempts{name="app",scope="prod"}`:                                              "+1",
		`leasesvc_scope_names_failing{scope="prod"}`:                                                           "1",
		`leasesvc_lease_usable{name="app",scope="prod"}`:                                                       "1",
	})

	// A roll back: what was wished for is tried again.
	s.answer(io.ErrUnexpectedEOF)
	refuse.Store(false)
	r.until(url(), "the roll back", map[string]string{
		`leasesvc_scope_handover_duration_seconds_count{outcome="rolled-back",scope="prod"}`: "+1",
		`leasesvc_scope_failures_total{action="handover",kind="refused",scope="prod"}`:       "+1",
	})

	// A Vault that is out.
	out := r.vault.Inject(devvault.Fault{Status: http.StatusServiceUnavailable, Body: `{"errors":["Vault is sealed"]}`})
	s.answer(nil)
	r.await("a rotation to be begun", func() bool { _, err := r.api().Rotate(aBit(t), "prod", "app"); return err == nil })
	r.until(url(), "the outage", map[string]string{
		`leasesvc_vault_out{connection="main"}`:                                      "1",
		`leasesvc_vault_outages_total{connection="main"}`:                            "+1",
		`leasesvc_vault_probes_total{connection="main"}`:                             "+1",
		`leasesvc_scope_failures_total{action="acquire",kind="sealed",scope="prod"}`: "+1",
		`leasesvc_scope_ready{scope="prod"}`:                                         "1",
	})
	out.Remove()
	r.until(url(), "the end of the outage", map[string]string{
		`leasesvc_vault_out{connection="main"}`:                   "0",
		`leasesvc_scope_names_failing{scope="prod"}`:              "0",
		`leasesvc_lease_failed_attempts{name="app",scope="prod"}`: "0",
	})

	// Messages that somebody writes by hand, while we lead.
	js := r.nats.JS(t)
	for _, subject := range []string{"lease.prod.app.renewed", "lease.prod.app.installed", "lease.no_scope._x.y.z"} {
		if _, err := js.Publish(context.Background(), subject, []byte(`{"type":"renewed"}`)); err != nil {
			t.Fatal(err)
		}
	}
	r.await("an event of ours after them", func() bool { _, err := r.api().Rotate(aBit(t), "prod", "app"); return err == nil })
	r.until(url(), "the messages by hand", map[string]string{
		`leasesvc_scope_foreign_messages_total{scope="prod"}`: "2",
		`leasesvc_log_foreign_subjects_total`:                 "1",
	})
	r.await("the alarm in the log", func() bool {
		return strings.Contains(r.out.String(), "messages in the log do not count") && strings.Contains(r.out.String(), "of no scope")
	})
	st, err := r.api().Status(context.Background(), "prod")
	if err != nil || st.Skipped != 2 {
		t.Errorf("status counts %d events that do not count, %v", st.Skipped, err)
	}

	// A fence.
	l, err := journal.Open(aBit(t), js, journal.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r.somebodyOpens(l)
	_, _ = r.api().Rotate(aBit(t), "prod", "app") // an append that is refused
	after := r.until(url(), "the fence", map[string]string{
		`leasesvc_scope_fence_refusals_total{by="append",scope="prod"}`: "+1",
		`leasesvc_scope_terms_ended_total{scope="prod",why="fenced"}`:   "+1",
	})
	if n := after[`leasesvc_scope_foreign_messages_total{scope="prod"}`]; n != 2 {
		t.Errorf("a successor's message counts as foreign: %v", n)
	}
	if _, text := scrape(t, url()); strings.Contains(text, "database/creds") || strings.Contains(text, "v-") && strings.Contains(text, `="v-`) {
		t.Error("a path or a user name is in what is scraped")
	}
	stop()
}

// TestMetrics_AreRightAfterATakeover: the gauges of the successor are those of the
// holder before it; its counters are its own.
func TestMetrics_AreRightAfterATakeover(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.more = "http: {listen: 127.0.0.1:0}\n"
	r.definitions(1, strings.ReplaceAll(appDefinition, "consumers: [{name: shop}]", "consumers: []"))
	holder, stop := r.servePage("state-a")
	before := r.until(holder(), "the lease", map[string]string{`leasesvc_lease_usable{name="app",scope="prod"}`: "1", `leasesvc_scope_ready{scope="prod"}`: "1"})
	standby, _ := r.servePage("state-b")
	quiet := r.until(standby(), "the standby", map[string]string{
		`leasesvc_scope_leading{scope="prod"}`: "0",
		`leasesvc_scope_ready{scope="prod"}`:   "1",
		`leasesvc_scope_epoch{scope="prod"}`:   strconv.FormatFloat(before[`leasesvc_scope_epoch{scope="prod"}`], 'f', -1, 64),
	})
	for key := range quiet {
		if strings.HasPrefix(key, "leasesvc_lease_") || strings.HasPrefix(key, "leasesvc_scope_names") {
			t.Errorf("a standby has %s", key)
		}
	}
	stop()
	after := r.until(standby(), "the takeover", map[string]string{
		`leasesvc_scope_leading{scope="prod"}`:                                   "1",
		`leasesvc_scope_takeovers_total{how="released",scope="prod"}`:            "1",
		`leasesvc_scope_failover_gap_seconds_count{how="released",scope="prod"}`: "1",
		`leasesvc_scope_names{scope="prod",state="usable"}`:                      "1",
		`leasesvc_lease_usable{name="app",scope="prod"}`:                         "1",
	})
	for _, key := range []string{
		`leasesvc_lease_expiry_timestamp_seconds{name="app",scope="prod"}`,
		`leasesvc_lease_last_success_timestamp_seconds{name="app",scope="prod"}`,
		`leasesvc_lease_renewal_due_timestamp_seconds{name="app",scope="prod"}`,
		`leasesvc_scope_earliest_expiry_timestamp_seconds{scope="prod"}`,
	} {
		if before[key] == 0 || before[key] != after[key] {
			t.Errorf("%s was %f and is %f", key, before[key], after[key])
		}
	}
	if gap := after[`leasesvc_scope_failover_gap_seconds_sum{how="released",scope="prod"}`]; gap > 60 {
		t.Errorf("a scope that was given back was led by nobody for %f s", gap)
	}
	if e := after[`leasesvc_scope_epoch{scope="prod"}`]; e <= before[`leasesvc_scope_epoch{scope="prod"}`] {
		t.Errorf("the epoch is %f", e)
	}

	// A name that is removed, and one that is new.
	r.definitions(2, "  other: {path: kv/other, kind: kv}\n")
	r.do("kv/other", map[string]any{"key": "1"})
	r.done(r.api().Apply(context.Background(), "prod"))
	r.until(standby(), "the other name", map[string]string{
		`leasesvc_lease_usable{name="other",scope="prod"}`:  "1",
		`leasesvc_scope_names{scope="prod",state="usable"}`: "1",
	})
	r.await("nothing of the removed name, once its lease is revoked", func() bool {
		got, _ := scrape(t, standby())
		for key := range got {
			if strings.Contains(key, `name="app"`) {
				return false
			}
		}
		return true
	})
}

// TestMetrics_PerLeaseIsAsConfigured: without series of names the sums are there.
func TestMetrics_PerLeaseIsAsConfigured(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.more = "http: {listen: 127.0.0.1:0}\nmetrics: {per_lease: 0}\n"
	r.definitions(1, strings.ReplaceAll(appDefinition, "consumers: [{name: shop}]", "consumers: []"))
	url, _ := r.servePage("state-a")
	got := r.until(url(), "the sums", map[string]string{`leasesvc_scope_names{scope="prod",state="usable"}`: "1", `leasesvc_per_lease_limit`: "0"})
	for key := range got {
		if strings.HasPrefix(key, "leasesvc_lease_") {
			t.Errorf("there is %s", key)
		}
	}
}

// TestMetrics_TellTheGapOfAHolderThatDied: from its last heartbeat on, and not
// from its last event, which may be hours ago.
func TestMetrics_TellTheGapOfAHolderThatDied(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.definitions(1, strings.ReplaceAll(appDefinition, "consumers: [{name: shop}]", "consumers: []"))
	holder, stopHolder := r.start("state-a")
	r.await("a lease", func() bool { return r.active("app") != 0 })
	quiet := time.Now()
	r.more = "http: {listen: 127.0.0.1:0}\n"
	url, _ := r.servePage("state-b")
	r.until(url(), "the standby", map[string]string{`leasesvc_scope_ready{scope="prod"}`: "1", `leasesvc_scope_leading{scope="prod"}`: "0"})
	// Some seconds without an event: the gap must not count them.
	r.await("a while without events", func() bool { return time.Since(quiet) > 5*time.Second })
	died := time.Now()
	service.CutOff(holder) // as kill -9 does
	got := r.until(url(), "the takeover", map[string]string{
		`leasesvc_scope_takeovers_total{how="quiet",scope="prod"}`:            "1",
		`leasesvc_scope_failover_gap_seconds_count{how="quiet",scope="prod"}`: "1",
		`leasesvc_holder_claims_total`:                                        "+1",
	})
	took := time.Since(died).Seconds()
	if gap := got[`leasesvc_scope_failover_gap_seconds_sum{how="quiet",scope="prod"}`]; gap <= 0 || gap > took+1 {
		t.Errorf("a gap of %f s; the takeover was seen %f s after the end", gap, took)
	}
	if n := got[`leasesvc_holder_deposals_total{by="silence"}`] + got[`leasesvc_holder_deposals_total{by="no-responders"}`]; n < 1 {
		t.Error("no deposal is counted")
	}
	_ = stopHolder() // it can't release
}
