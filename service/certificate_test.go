package service_test

import (
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
)

// TestACertificateEndsByItself: a certificate without a lease has an end, its
// own; it is not polled, since each request makes another one (L38 is about
// secrets that are there), and a successor is acquired in time (L30).
func TestACertificateEndsByItself(t *testing.T) {
	r := newRig(t, "1h", "2h")
	r.do("sys/mounts/pki", map[string]any{"type": "pki"})
	r.do("pki/root/generate/internal", map[string]any{"common_name": "ca", "ttl": "700h", "key_type": "ec"})
	r.do("pki/roles/web", map[string]any{"allow_any_name": true, "enforce_hostnames": false, "max_ttl": "2h", "key_type": "ec", "not_before_duration": "1s"})
	r.definitions(1, `  web:
    path: pki/issue/web
    kind: pki
    params: {common_name: web.example.com, ttl: 8s}
    renew_at: 0.4
    poll: 1s
    good_for: 0s
`)
	r.run("state-a")
	r.await("two certificates", func() bool { return len(r.events(events.TypeInstalled)) >= 2 })
	got := r.events(events.TypeAcquired)
	for i, e := range got {
		a := e.Data.(*events.Acquired)
		if a.LeaseID != "" || a.TTL.Sign() <= 0 || a.TTL.Cmp(events.WholeSeconds(8)) > 0 || a.Public["serial_number"] == "" || len(a.Public) != 1 {
			t.Errorf("acquired %+v", a)
		}
		if i > 0 && e.Time.Sub(got[i-1].Time) < 1500*time.Millisecond {
			t.Errorf("a successor after %s", e.Time.Sub(got[i-1].Time))
		}
	}
	reasons := r.events(events.TypeRequested)
	if reason := reasons[1].Data.(*events.Requested).Reason; reason != events.ReasonDue {
		t.Errorf("the second one was requested because it was %s", reason)
	}
	if n, made := r.vault.Count("", "pki/issue/web"), len(got); n > made+1 {
		t.Errorf("%d requests made %d certificates", n, made)
	}
}

// TestAVersionOfASecretIsKept: a KV v2 secret of a named version does not follow
// the latest.
func TestAVersionOfASecretIsKept(t *testing.T) {
	r := newRig(t, "1h", "2h")
	for _, v := range []string{"one", "two"} {
		r.do("kv2/data/x", map[string]any{"data": map[string]any{"password": v}})
	}
	r.definitions(1, "  x: {path: kv2/data/x, kind: kv, version: 1}\n")
	r.run("state-a")
	r.await("the secret", func() bool { return len(r.events(events.TypeInstalled)) == 1 })
	got, err := r.reader().Get(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	if v, _ := got.Get("password"); v.Reveal() != "one" {
		t.Error("it is not the version that is wanted")
	}
}
