package service_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/events"
)

// TestC1_RenewalsThatFailForEver are paced: a 500 is tried again with back-off
// while the lease is good, nonsense is not tried again at all.
func TestC1_RenewalsThatFailForEver(t *testing.T) {
	for name, try := range map[string]struct {
		fault     devvault.Fault
		successor bool
	}{
		"500":     {devvault.Fault{Status: 500, Body: `{"errors":["internal error"]}`}, false},
		"garbage": {devvault.Fault{Status: 200, Body: `<html>`}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newCaseRig(t, "1h", "2h")
			r.definitions(1, definition("app", ", renew_at: 0.0003"))
			try.fault.Path = "sys/leases/renew"
			fault := r.vault.Inject(try.fault)
			r.run("state-a")
			r.await("a lease", func() bool { return r.active("app") != 0 })
			end := r.uses("app")
			r.await("three renewals that failed", func() bool { return r.count(events.TypeRenewFailed) >= 3 })
			failed := r.events(events.TypeRenewFailed)
			if n := fault.Hits(); n > len(failed)+1 {
				t.Errorf("%d requests, %d failures in the log", n, len(failed))
			}
			for i := 1; i < len(failed); i++ {
				if gap := failed[i].Time.Sub(failed[i-1].Time); gap < 900*time.Millisecond {
					t.Errorf("renewals of lease %d and %d failed %s after each other", failed[i-1].Lease, failed[i].Lease, gap)
				}
				if !try.successor && failed[i].Time.Sub(failed[i-1].Time) < time.Duration(i)*900*time.Millisecond {
					t.Errorf("attempt %d came after %s", i, failed[i].Time.Sub(failed[i-1].Time))
				}
			}
			if got := r.count(events.TypeRequested) > 1; got != try.successor {
				t.Errorf("a successor was requested: %t", got)
			}
			if try.successor {
				for _, e := range failed {
					if n := len(r.of(events.TypeRenewFailed, "app", e.Lease)); n != 1 {
						t.Errorf("lease %d was renewed %d times though the answer was nonsense", e.Lease, n)
					}
				}
			}
			if end() == 0 {
				t.Error("nobody read it")
			}
		})
	}
}

// TestC4_AMinuteWithoutVault (some seconds here): the lease is good for an hour,
// so it is kept, and renewed when Vault is back.
func TestC4_AMinuteWithoutVault(t *testing.T) {
	t.Parallel()
	r := newCaseRig(t, "1h", "2h")
	r.definitions(1, definition("app", ", renew_at: 0.0003"))
	r.run("state-a")
	r.await("a renewal", func() bool { return r.count(events.TypeRenewed) >= 1 })
	end := r.uses("app")
	r.vault.Seal()
	r.await("two renewals that failed", func() bool { return r.count(events.TypeRenewFailed) >= 2 })
	for _, e := range r.events(events.TypeRenewFailed) {
		f := data[*events.RenewFailed](t, e)
		if f.Refused || f.Kind != "sealed" {
			t.Errorf("a renewal failed as %s, refused %t", f.Kind, f.Refused)
		}
	}
	before := r.count(events.TypeRenewed)
	r.vault.Unseal()
	r.await("a renewal after it", func() bool { return r.count(events.TypeRenewed) > before })
	if r.count(events.TypeRequested) != 1 || r.count(events.TypeExpired) != 0 || r.active("app") != 1 {
		t.Errorf("%d acquisitions, %d expired, lease %d is active", r.count(events.TypeRequested), r.count(events.TypeExpired), r.active("app"))
	}
	if end() == 0 {
		t.Error("nobody read it")
	}
}

// TestC5_OneErrorLateInALease: the next attempt is planned from what remains.
func TestC5_OneErrorLateInALease(t *testing.T) {
	t.Parallel()
	r := newCaseRig(t, "20s", "1h")
	r.definitions(1, definition("app", ", renew_at: 0.8"))
	// Lost one after the other, the second with less than 4 s left.
	fault := r.vault.Inject(devvault.Fault{Path: "sys/leases/renew", DropBefore: true, Times: 2})
	r.run("state-a")
	r.await("a lease", func() bool { return r.active("app") == 1 })
	end := r.uses("app")
	r.within(60*time.Second, "the renewal", func() bool { return r.count(events.TypeRenewed) >= 1 })
	end()
	if fault.Hits() != 2 {
		t.Errorf("%d requests were dropped", fault.Hits())
	}
	acquired := r.of(events.TypeAcquired, "app", 1)[0]
	expires := acquired.Time.Add(20 * time.Second)
	for _, e := range r.events(events.TypeRenewFailed) {
		f := data[*events.RenewFailed](t, e)
		left := expires.Sub(e.Time)
		if wait := f.Retry.At.Sub(e.Time); wait > max(left/4, time.Second)+100*time.Millisecond || !f.Retry.At.Before(expires) {
			t.Errorf("with %s left the next attempt is in %s", left, wait)
		}
	}
	if r.count(events.TypeExpired) != 0 || r.count(events.TypeRequested) != 1 {
		t.Errorf("%d expired, %d acquisitions", r.count(events.TypeExpired), r.count(events.TypeRequested))
	}
}

// TestC7_AnEmptyAnswerThen400: 200 with an empty body is no renewal.
func TestC7_AnEmptyAnswerThen400(t *testing.T) {
	t.Parallel()
	r := newCaseRig(t, "1h", "2h")
	r.definitions(1, definition("app", ", renew_at: 0.0003"))
	var mu sync.Mutex
	answers := map[string]int{}
	r.watch("sys/leases/renew", func(w http.ResponseWriter, a arrival) bool {
		mu.Lock()
		defer mu.Unlock()
		answers[a.lease]++
		if len(answers) > 1 {
			return false // the successor's
		}
		if answers[a.lease] == 1 {
			return answer(w, 200, "")
		}
		return answer(w, 400, `{"errors":["lease is not renewable"]}`)
	})
	r.run("state-a")
	r.await("a lease", func() bool { return r.active("app") == 1 })
	end := r.uses("app")
	r.await("its successor", func() bool { return r.active("app") > 1 })
	if n := len(r.of(events.TypeRenewed, "app", 1)); n != 0 {
		t.Errorf("an empty answer counts as %d renewals", n)
	}
	failed := r.of(events.TypeRenewFailed, "app", 1)
	if len(failed) == 0 || data[*events.RenewFailed](t, failed[0]).Kind != "malformed" || !data[*events.RenewFailed](t, failed[0]).Refused {
		t.Errorf("%d failures", len(failed))
	}
	r.await("the end of the old one", func() bool { return len(r.of(events.TypeRevoked, "app", 1)) == 1 })
	if end() == 0 {
		t.Error("nobody read it")
	}
}

// TestC8_RenewalsShrinkNearMaxTTL: the first short grant brings a successor, and
// none is asked for more often than once a second.
func TestC8_RenewalsShrinkNearMaxTTL(t *testing.T) {
	for name, set := range map[string]any{"by max TTL": nil, "to milliseconds": 0.005} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newCaseRig(t, "12s", "20s")
			r.definitions(1, definition("app", ""))
			if set != nil {
				r.vault.Inject(devvault.Fault{Path: "sys/leases/renew", TTL: set})
			}
			r.run("state-a")
			r.await("a lease", func() bool { return r.active("app") == 1 })
			if set == nil { // what is granted for 5 ms is no use to a reader
				end := r.uses("app")
				defer func() {
					if end() == 0 {
						t.Error("nobody read it")
					}
				}()
			}
			r.within(60*time.Second, "a successor", func() bool { return r.active("app") > 1 })
			short := 0
			renewals := r.of(events.TypeRenewed, "app", 1)
			for i, e := range renewals {
				if data[*events.Renewed](t, e).Short {
					short++
				}
				if i > 0 && e.Time.Sub(renewals[i-1].Time) < 900*time.Millisecond {
					t.Errorf("renewed again after %s", e.Time.Sub(renewals[i-1].Time))
				}
			}
			if short != 1 || !data[*events.Renewed](t, renewals[len(renewals)-1]).Short {
				t.Errorf("%d of %d grants were short; the first one ends it", short, len(renewals))
			}
			if set == nil {
				if n := r.count(events.TypeExpired); n != 0 {
					t.Errorf("%d expired", n)
				}
			}
		})
	}
}

// TestC9_AThirdOfWhatWasAsked: make before break, and nobody notices.
func TestC9_AThirdOfWhatWasAsked(t *testing.T) {
	t.Parallel()
	r := newCaseRig(t, "1h", "2h")
	r.definitions(1, definition("app", ", renew_at: 0.0003"))
	fault := r.vault.Inject(devvault.Fault{Path: "sys/leases/renew", TTL: 743, Times: 1})
	r.run("state-a")
	r.await("a lease", func() bool { return r.active("app") == 1 })
	end := r.uses("app")
	r.await("its successor", func() bool { return r.active("app") > 1 })
	r.await("the end of the old one", func() bool { return len(r.of(events.TypeRevoked, "app", 1)) == 1 })
	if end() < 10 {
		t.Error("hardly anybody read it")
	}
	renewed := r.of(events.TypeRenewed, "app", 1)
	if fault.Hits() != 1 || len(renewed) != 1 || !data[*events.Renewed](t, renewed[0]).Short || data[*events.Renewed](t, renewed[0]).TTL.String() != "743" {
		t.Fatalf("%d hits, %d renewals", fault.Hits(), len(renewed))
	}
	if reason := data[*events.Requested](t, r.of(events.TypeRequested, "app", 2)[0]).Reason; reason != events.ReasonShortGrant {
		t.Errorf("the successor was requested as %s", reason)
	}
	if made, broke := r.of(events.TypeInstalled, "app", 2)[0].Seq, r.of(events.TypeRevoking, "app", 1)[0].Seq; made > broke {
		t.Error("broken before made")
	}
}

// TestC11_TheSameAnswerAgainAndAgain: a cache in between repeats one renewal while
// Vault sees none; the lease ends there, and a successor is acquired as soon as
// that shows.
func TestC11_TheSameAnswerAgainAndAgain(t *testing.T) {
	t.Parallel()
	r := newCaseRig(t, "8s", "1h")
	r.definitions(1, definition("app", ", renew_at: 0.3"))
	var mu sync.Mutex
	repeated := 0
	seen := r.watch("sys/leases/renew", func(w http.ResponseWriter, a arrival) bool {
		mu.Lock()
		defer mu.Unlock()
		if repeated++; repeated > 3 {
			return false
		}
		return answer(w, 200, fmt.Sprintf(`{"lease_id":%q,"lease_duration":8,"renewable":true,"data":null}`, a.lease))
	})
	r.run("state-a")
	r.await("a lease", func() bool { return r.active("app") == 1 })
	r.within(60*time.Second, "its successor", func() bool { return r.active("app") > 1 })
	renewed := r.of(events.TypeRenewed, "app", 1)
	if len(renewed) != 3 {
		t.Fatalf("%d renewals were believed, %d arrived", len(renewed), seen.count())
	}
	for _, e := range renewed {
		d := data[*events.Renewed](t, e)
		if late := e.Time.Sub(d.SentAt); late < 0 || d.TTL.String() != "8" {
			t.Errorf("counts from %s before it was recorded, %s s", late, d.TTL)
		}
	}
	expired := r.of(events.TypeExpired, "app", 1)
	if len(expired) != 1 || data[*events.Expired](t, expired[0]).By != events.ExpiredByVault {
		t.Errorf("%d ends by Vault", len(expired))
	}
}

// TestC12_RenewalsStayInTheirWindow: two hundred leases of the same instant are
// renewed spread over a tenth before their point, none at once, none too late.
func TestC12_RenewalsStayInTheirWindow(t *testing.T) {
	t.Parallel()
	const leases = 200
	r := newCaseRig(t, "1m", "2h")
	var defs strings.Builder
	for i := range leases {
		defs.WriteString(definition(fmt.Sprint("app-", i), ", renew_at: 0.25"))
	}
	r.definitions(1, defs.String())
	r.run("state-a")
	r.within(60*time.Second, "all leases", func() bool { return r.count(events.TypeInstalled) == leases })
	r.within(90*time.Second, "all renewals", func() bool { return r.count(events.TypeRenewed) >= leases })
	granted := map[string]time.Time{}
	for _, e := range r.events(events.TypeAcquired) {
		granted[e.Name] = data[*events.Acquired](t, e).SentAt
	}
	parts := [4]int{}
	first := map[string]bool{}
	for _, e := range r.events(events.TypeRenewed) {
		if first[e.Name] {
			continue
		}
		first[e.Name] = true
		after := data[*events.Renewed](t, e).SentAt.Sub(granted[e.Name])
		if after < 13500*time.Millisecond-50*time.Millisecond || after > 55*time.Second {
			t.Errorf("%s was renewed after %s of its minute; 13.5 s to 15 s is the window", e.Name, after)
		}
		parts[min(3, max(0, int((after-13500*time.Millisecond)/(375*time.Millisecond))))]++
	}
	for i, n := range parts[:3] {
		if n == 0 {
			t.Errorf("none of %d was renewed in part %d of the window: %v", leases, i, parts)
		}
	}
}

// TestC14_TheLeaseIsGone: somebody revoked it. That is an ordinary event, and a
// successor is there at once.
func TestC14_TheLeaseIsGone(t *testing.T) {
	for name, body := range map[string]string{
		"not found": `{"errors":["lease not found"]}`,
		"expired":   `{"errors":["lease expired"]}`,
		"really":    "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newCaseRig(t, "1h", "2h")
			r.definitions(1, definition("app", ", renew_at: 0.0003"))
			if body != "" {
				r.vault.Inject(devvault.Fault{Path: "sys/leases/renew", Status: 400, Body: body, Times: 1})
			}
			r.run("state-a")
			r.await("a lease", func() bool { return r.active("app") == 1 })
			if body == "" {
				r.do("sys/leases/revoke", map[string]any{"lease_id": r.vault.Leases()[0].ID, "sync": true})
			}
			r.await("its successor", func() bool { return r.active("app") > 1 })
			expired := r.of(events.TypeExpired, "app", 1)
			if len(expired) != 1 || data[*events.Expired](t, expired[0]).By != events.ExpiredByVault {
				t.Errorf("%d ends by Vault", len(expired))
			}
			if n := len(r.of(events.TypeRenewFailed, "app", 1)); n != 0 {
				t.Errorf("%d failures for what is ordinary", n)
			}
			if strings.Contains(r.out.String(), "level=ERROR") {
				t.Error("an error was logged")
			}
		})
	}
}

// TestAGuardOutlivesItsLeaseWithFewExtensions: at each renewal by the margin at least,
// though no two in a row extend it.
func TestAGuardOutlivesItsLeaseWithFewExtensions(t *testing.T) {
	t.Parallel()
	const margin = 60 * time.Second
	r := newCaseRig(t, "6s", "2h")
	r.definitions(1, definition("app", ""))
	r.run("state-a")
	r.within(90*time.Second, "renewals", func() bool { return r.count(events.TypeRenewed) >= 6 })
	extended := data[*events.GuardExtended](t, r.events(events.TypeGuardExtended)[0])
	ends, before := extended.SentAt.Add(extended.Granted.Duration()), true
	extensions := 0
	for i, e := range r.events(events.TypeRenewed) {
		d := data[*events.Renewed](t, e)
		now := d.GuardTTL.Sign() > 0
		if now {
			ends = d.SentAt.Add(d.GuardTTL.Duration())
			extensions++
		}
		if now && before {
			t.Errorf("renewal %d extended the guard, which had just been", i+1)
		}
		if least := d.SentAt.Add(d.TTL.Duration() + margin); ends.Before(least) {
			t.Errorf("after renewal %d the guard ends %v before it should", i+1, least.Sub(ends))
		}
		before = now
	}
	if extensions == 0 {
		t.Error("the guard was never extended")
	}
	// The check of guards extends one, too, and looks it up.
	asked := func(what string) int { return r.vault.Count("POST", "auth/token/"+what+"-accessor") }
	if n := asked("renew") - asked("lookup"); n != 1+extensions {
		t.Errorf("Vault was asked %d times for an extension, the log has %d", n, 1+extensions)
	}
}
