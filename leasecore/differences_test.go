package leasecore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
)

// Where the core differs from the contract's seed on purpose: D1 to D8.

// TestD1_ReadersSeeTheCommittedOne while the consumers of the running hand-over
// see the candidate, and go on seeing it when that one was rolled back.
func TestD1_ReadersSeeTheCommittedOne(t *testing.T) {
	w := underway(t, consumed)
	w.rotate()
	w.active(1)
	w.offer(2)
	w.owes("prepare/2->A")
	w.active(1)
	w.do(w.answer("A", false))
	w.owes("tell/1->A")
	w.active(1)
	w.confirm("A")
	w.active(1)
}

// TestD2_OurOwnLoginComesFirst: consumers are not asked about what we can't log
// in with.
func TestD2_OurOwnLoginComesFirst(t *testing.T) {
	w := underway(t, consumed, verified)
	w.rotate()
	w.do(w.grant(2))
	w.owes("verify/2")
	says(t, w.pass(9*time.Second), "")
	says(t, w.do(leasecore.VerifyDone{Name: orders, Lease: 2, Err: went("login")}), "verify-failed/2 revoking/2")
	for _, e := range w.log {
		if e.Type() == events.TypeHandoverStarted && e.Lease == 2 {
			t.Fatal("consumers were asked")
		}
	}
}

// TestD3_ATakeoverAcquiresNothing that the log has: in each phase the new holder
// goes on from there.
func TestD3_ATakeoverAcquiresNothing(t *testing.T) {
	for what, story := range map[string]func(w *world){
		"active":      func(*world) {},
		"acquired":    func(w *world) { w.rotate(); w.do(w.grant(2, guarded)) },
		"verified":    func(w *world) { w.rotate(); w.do(w.grant(2, guarded)); w.do(w.proven(2)) },
		"asked":       func(w *world) { w.rotate(); w.offer(2) },
		"rolled back": func(w *world) { w.rotate(); w.offer(2); w.do(w.answer("A", false)) },
		"committed":   func(w *world) { w.rotate(); w.offer(2); w.do(w.answer("A", true)) },
		"revoking":    func(w *world) { w.rotate(); w.activate(2); w.pass(5 * time.Second) },
	} {
		t.Run(what, func(t *testing.T) {
			w := underway(t, consumed, verified)
			story(w)
			leases := w.state.LastLease
			for range 3 {
				if evs := w.takeOver(); strings.Contains(said(evs), "requested") {
					t.Fatalf("the takeover decided %s", said(evs))
				}
				for _, e := range w.state.Owed(orders, w.now) {
					if e.Kind == leasecore.Acquire {
						t.Fatalf("the takeover owes %s", e)
					}
				}
			}
			if w.state.LastLease != leases {
				t.Fatalf("%d leases, there were %d", w.state.LastLease, leases)
			}
			if w.name().Committed(w.now) == nil {
				t.Fatal("readers see nothing")
			}
		})
	}
}

// TestD4_TheClientIsTheConnectionsName.
func TestD4_TheClientIsTheConnectionsName(t *testing.T) {
	w := underway(t)
	says(t, w.define1(in("second")), "applied requested/2")
	r, _ := last[*events.Requested](w)
	if r.Vault != "second" || r.Reason != events.ReasonDefinition {
		t.Fatalf("%+v", r)
	}
	w.active(1) // until its successor is committed
}

// TestD5_ReleasingKeepsTheLeases: it retires and revokes nothing.
func TestD5_ReleasingKeepsTheLeases(t *testing.T) {
	w := unsafe(t)
	w.draining = true
	says(t, w.do(leasecore.Release{Holder: "a"}), "released")
	w.is(1, "active")
	w.is(2, "kept")
	w.owes("tell/1->A")
	w.draining = false
	says(t, w.takeOver(), "")
	w.active(1)
}

// TestD6_OnlyARefusalAcquiresAtOnce: with a Vault that is down, failing renewals
// cost no acquisition while the lease lives.
func TestD6_OnlyARefusalAcquiresAtOnce(t *testing.T) {
	w := underway(t)
	w.pass(300 * time.Second)
	for w.name().Committed(w.now) != nil {
		if w.owed() == "renew/1" {
			w.do(w.notRenewed(1, went("down")))
		}
		if w.state.LastLease != 1 && w.name().Committed(w.now) != nil {
			t.Fatalf("acquired while the lease lives:\n%s", w.state.Print())
		}
		at, _ := w.state.Wake(orders, w.now)
		w.pass(at.Sub(w.now))
	}
}

// TestD7_UserAndPasswordForEveryDatabase.
func TestD7_UserAndPasswordForEveryDatabase(t *testing.T) {
	for _, k := range []events.Kind{events.KindPostgreSQL, events.KindMySQL, events.KindRabbitMQ, events.KindRedis} {
		for _, missing := range []string{"username", "password"} {
			w := begin(t, kind(k))
			came := map[string]string{"username": "password", "password": "username"}[missing]
			w.do(w.grant(1, keys(came)))
			if f, _ := last[*events.AcquireFailed](w); !strings.Contains(f.Message, missing) {
				t.Errorf("%s without %s: %q", k, missing, f.Message)
			}
		}
	}
}

// TestD8_AnAdoptedLeaseHasNoGuard: it lives as long as it says, and is shared
// within the scope alone.
func TestD8_AnAdoptedLeaseHasNoGuard(t *testing.T) {
	w := underway(t)
	w.do(adoption(w, "X"))
	w.active(2)
	if l := w.lease(2); l.Guard != "" {
		t.Fatalf("guard %q", l.Guard)
	}
	if end, ends := w.lease(2).Expires(); !ends || !end.Equal(w.now.Add(600*time.Second)) {
		t.Fatalf("expires %v", end)
	}
}
