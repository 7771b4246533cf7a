package leasecore_test

import (
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
)

// Ownership and revocation: L25 to L28.

// TestL25_OnlyTheRetiredIsRevoked: the log follows no other revocation.
func TestL25_OnlyTheRetiredIsRevoked(t *testing.T) {
	w := begin(t, consumed, verified)
	w.register("A")
	w.inconsistent(1, &events.Revoking{})
	w.do(w.grant(1))
	w.inconsistent(1, &events.Revoking{})
	w.do(w.proven(1))
	w.inconsistent(1, &events.Revoking{})
	w.do(w.answer("A", true))
	w.inconsistent(1, &events.Revoking{})
	w.inconsistent(1, &events.Revoked{})
	w.do(leasecore.RevokeActive{Name: orders})
	w.is(1, "revoking")
	w.do(w.revoked(1))
	w.inconsistent(1, &events.Revoking{})
}

// TestL25_ARevocationIsNeverLost: the first is tried at once, then after 1, 2,
// 4, 8, 16, 32, 60, 60 s, by whoever leads.
func TestL25_ARevocationIsNeverLost(t *testing.T) {
	w := underway(t)
	w.do(leasecore.RevokeActive{Name: orders})
	w.do(leasecore.AcquireDone{Name: orders, Lease: 2, Err: &leasecore.Failed{Failure: failure("down"), RetryAfter: 24 * time.Hour}})
	w.owes("revoke/1")
	for i, seconds := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 60} {
		says(t, w.do(leasecore.RevokeDone{Name: orders, Lease: 1, Err: went("down")}), "revoke-failed/1")
		if f, _ := last[*events.RevokeFailed](w); f.Retry.Attempt != min(i+1, 7) {
			t.Fatalf("attempt %d is counted as %d", i+1, f.Retry.Attempt)
		}
		w.owes("")
		w.wakes(seconds * time.Second)
		if i == 4 {
			w.takeOver()
		}
		w.pass(seconds*time.Second - 1)
		w.owes("")
		w.pass(1)
		w.owes("revoke/1")
	}
	says(t, w.do(w.revoked(1)), "revoked/1")
	w.is(1, "")
}

// TestL25_WithTheConnectionItCameBy, whatever the definition names by then.
func TestL25_WithTheConnectionItCameBy(t *testing.T) {
	w := underway(t)
	w.define1(in("second"))
	w.activate(2)
	w.pass(5 * time.Second)
	w.is(1, "revoking")
	if one, two := w.lease(1).Vault, w.lease(2).Vault; one != "main" || two != "second" {
		t.Fatalf("lease 1 is revoked by %s, lease 2 is of %s", one, two)
	}
}

// TestL26_ASharedLeaseIDLives as long as either name uses it, and is revoked
// once.
func TestL26_ASharedLeaseIDLives(t *testing.T) {
	w := newWorld(t)
	w.open(10, "a")
	w.defineAll(map[string]events.Definition{"billing": definition("billing"), orders: definition(orders)})
	acquired := func(name string, no uint64, lease string) {
		d := w.grant(no, id(lease), guarded)
		d.Name = name
		w.do(d)
		x := w.extended(no)
		x.Name = name
		w.do(x)
	}
	acquired("billing", 1, "X")
	acquired(orders, 2, "X")

	says(t, w.do(leasecore.RevokeActive{Name: orders}), "retired/2 revoked/2 requested/3")
	w.owes("acquire/3")
	if l := w.state.Name("billing").Committed(w.now); l == nil || l.Guard == "" {
		t.Fatalf("billing lives on the shared lease id:\n%s", w.state.Print())
	}
	says(t, w.do(leasecore.RevokeActive{Name: "billing"}), "billing:retired/1 billing:revoking/1 billing:requested/4")

	// The other one is on its way out: it is told to Vault once.
	acquired(orders, 3, "X2")
	acquired("billing", 4, "X2")
	w.do(leasecore.Shutdown{})
	revoking := 0
	for _, name := range w.state.SortedNames() {
		for _, e := range w.state.Owed(name, w.now) {
			if e.Kind == leasecore.Revoke && e.Lease > 2 {
				revoking++
			}
		}
	}
	if revoking != 1 {
		t.Fatalf("lease id X2 is revoked %d times:\n%s", revoking, w.state.Print())
	}
}

// TestL26_AdoptedUnderTheSameID: what is adopted and what it replaces are seen to
// share the lease id within the one decision that does both.
func TestL26_AdoptedUnderTheSameID(t *testing.T) {
	w := begin(t, func(d *events.Definition) { d.GoodFor = events.WholeSeconds(0) })
	w.activate(1, id("X"))
	says(t, w.do(adoption(w, "X")), "adopted/2 handover-started/2 installed/2 retired/1 revoked/1")
	if r, _ := last[*events.Revoked](w); !r.Shared {
		t.Fatal("Vault is asked to revoke the active lease")
	}
	w.owes("")
	w.active(2)
}

// TestL26_AdoptedUnderAnIDThatIsOurs: it lives as long as that one does, whatever
// who had it adopted says, and hangs on the same guard.
func TestL26_AdoptedUnderAnIDThatIsOurs(t *testing.T) {
	w := begin(t)
	w.activate(1, id("X"), guarded)
	ends, _ := w.lease(1).Expires()
	w.pass(time.Second)
	w.do(adoption(w, "X"))
	l := w.lease(2)
	if l.Guard != w.lease(1).Guard || !l.GuardExtended {
		t.Fatalf("guard %q, extended %t", l.Guard, l.GuardExtended)
	}
	if until, _ := l.Expires(); !until.Equal(ends) {
		t.Fatalf("it ends at %s, the lease that it is at %s", until, ends)
	}
}

// TestL26_ARenewalConcernsEverybody: it may well make the one lease in Vault
// shorter than the others believe.
func TestL26_ARenewalConcernsEverybody(t *testing.T) {
	w := newWorld(t)
	w.open(10, "a")
	w.defineAll(map[string]events.Definition{"billing": definition("billing"), orders: definition(orders)})
	d := w.grant(1, id("X"), ttl("100"))
	d.Name = "billing"
	w.do(d)
	w.activate(2, id("X"), ttl("1000"))
	if got := w.state.Sharing("billing", 1); len(got) != 1 || got[0] != orders {
		t.Fatalf("shared with %q", got)
	}
	w.pass(50 * time.Second)
	r := w.renewed(1, "100")
	r.Name = "billing"
	w.do(r)
	a, _ := w.state.Name("billing").Lease(1).Expires()
	b, _ := w.lease(2).Expires()
	if want := w.now.Add(100 * time.Second); !a.Equal(want) || !b.Equal(want) {
		t.Fatalf("they end at %s and %s, want %s", a, b, want)
	}
}

// TestL26_AnotherConnectionIsAnotherLease: the same id of two Vaults is not
// shared.
func TestL26_AnotherConnectionIsAnotherLease(t *testing.T) {
	w := newWorld(t)
	w.open(10, "a")
	w.defineAll(map[string]events.Definition{"billing": definition("billing", in("second")), orders: definition(orders)})
	d := w.grant(1, id("X"))
	d.Name = "billing"
	w.do(d)
	w.do(w.grant(2, id("X")))
	says(t, w.do(leasecore.RevokeActive{Name: orders}), "retired/2 revoking/2 requested/3")
	w.owes("revoke/2 acquire/3")
}

// TestL26_TheGuardGoesToWhoIsLeft: the lease id hangs on it.
func TestL26_TheGuardGoesToWhoIsLeft(t *testing.T) {
	w := begin(t)
	w.activate(1, guarded)
	w.rotate()
	w.activate(2, id("L1"))
	says(t, w.pass(5*time.Second), "retired/1 revoked/1")
	if l := w.lease(2); l.Guard != "G-L1" || !l.GuardExtended {
		t.Fatalf("guard %q, extended %t", l.Guard, l.GuardExtended)
	}
	w.do(leasecore.RevokeActive{Name: orders})
	w.owes("revoke/2 acquire/3")
}

// TestL27_NotFoundIsSuccess.
func TestL27_NotFoundIsSuccess(t *testing.T) {
	w := underway(t)
	w.do(leasecore.RevokeActive{Name: orders})
	says(t, w.do(leasecore.RevokeDone{Name: orders, Lease: 1, Gone: true}), "revoked/1")
	if r, _ := last[*events.Revoked](w); !r.Gone {
		t.Fatal("the log does not say that it was gone")
	}
	w.is(1, "")
	w.owes("acquire/2")
}

// TestL28_WhatRunsDoesNotDriveTheTimer: neither a revocation on its way, nor a
// lease that somebody still refers to.
func TestL28_WhatRunsDoesNotDriveTheTimer(t *testing.T) {
	w := underway(t)
	says(t, w.defineAll(nil), "removed retired/1 revoking/1")
	w.owes("revoke/1")
	w.wakes(0)
	w.pass(time.Hour)
	w.wakes(0)
	w.do(leasecore.RevokeDone{Name: orders, Lease: 1, Err: went("down")})
	w.wakes(time.Second)
	w.pass(time.Second)
	w.owes("revoke/1") // runs again
	w.wakes(0)
}
