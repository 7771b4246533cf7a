package leasecore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
)

// The rules of the protocol that live in the core: P2, P5 to P8, P12 to P15.

// TestP2_DecidedFromTheWholeLog: what landed just before our opening is in the
// state that we decide from; a decision from less is none that fits the log.
func TestP2_DecidedFromTheWholeLog(t *testing.T) {
	w := underway(t, consumed)
	w.rotate()
	w.offer(2)
	stale := leasecore.NewState("prod") // a standby's, before the last answer
	for i := range w.log {
		if err := stale.Apply(&w.log[i]); err != nil {
			t.Fatal(err)
		}
	}
	says(t, w.do(w.answer("A", true)), "prepared/2 installed/2")
	says(t, w.takeOver(), "") // the whole log: nothing is rolled back
	w.active(2)
	if err := stale.Apply(&w.log[len(w.log)-1]); err != nil { // our opening, without what came before it
		t.Fatal(err)
	}
	evs, err := leasecore.Decide(leasecore.NewDraft(stale), leasecore.At{Now: w.now, ID: "x"}, leasecore.Tick{Name: orders})
	if err != nil || said(evs) != "rollback-started/2" {
		t.Fatalf("the story shows nothing: %s, %v", said(evs), err)
	}
	w.inconsistent(2, evs[0].Data)
}

// TestP5_NothingBeforeTheGuardIsExtended: neither a login of ours nor anybody's
// is asked for; then both, in this order.
func TestP5_NothingBeforeTheGuardIsExtended(t *testing.T) {
	w := begin(t, consumed, verified)
	w.register("A")
	w.owes("acquire/1")
	says(t, w.do(w.grant(1, guarded)), "acquired/1")
	w.owes("extend/1")
	says(t, w.do(w.extended(1)), "guard-extended/1")
	w.owes("verify/1")
	says(t, w.do(w.proven(1)), "verified/1 handover-started/1")
	w.owes("prepare/1->A")
}

// TestP5_ALoginBeforeTheExtensionIsNotEnough: an outcome that comes out of turn
// starts no hand-over.
func TestP5_ALoginBeforeTheExtensionIsNotEnough(t *testing.T) {
	w := begin(t, verified)
	w.do(w.grant(1, guarded))
	says(t, w.do(w.proven(1)), "verified/1")
	w.owes("extend/1")
	says(t, w.do(w.extended(1)), "guard-extended/1 handover-started/1 installed/1")
}

// TestP5_OneReadPerIntent: whatever came of it, the next attempt is another
// lease with another guard, and never the same read.
func TestP5_OneReadPerIntent(t *testing.T) {
	w := begin(t)
	w.owes("acquire/1")
	says(t, w.do(leasecore.AcquireDone{Name: orders, Lease: 1, Err: went("timeout"), Guard: "G1"}), "acquire-failed/1 revoking/1")
	w.owes("revoke/1") // what the lost answer may have left hangs on that guard
	says(t, w.pass(time.Second), "requested/2")
	w.owes("revoke/1 acquire/2")
	w.do(w.grant(2, guarded))
	w.owes("revoke/1 extend/2")
}

// TestP6_WhatIsOnlyIntendedIsClosed by who takes over, and never extended; what
// was acquired is extended again and goes on.
func TestP6_WhatATakeoverFinds(t *testing.T) {
	w := begin(t)
	says(t, w.takeOver(), "orphaned/1 requested/2")
	w.do(w.grant(2, guarded))
	w.owes("extend/2")
	says(t, w.takeOver(), "")
	w.owes("extend/2")
	says(t, w.do(w.extended(2)), "guard-extended/2 handover-started/2 installed/2")
	says(t, w.takeOver(), "")
	w.active(2)
}

// TestP6_ClosedOnlyByVaultsWord: a guard that must have run out has not, for all
// we know: the lease is still owed its revocation.
func TestP6_ClosedOnlyByVaultsWord(t *testing.T) {
	w := begin(t)
	w.do(w.grant(1, guarded))
	w.takeOver()
	says(t, w.pass(60*time.Second), "expired/1 revoking/1")
	w.is(1, "revoking")
	w.owes("revoke/1")
	for range 20 {
		w.do(leasecore.RevokeDone{Name: orders, Lease: 1, Err: went("down")})
		w.pass(time.Hour)
		w.takeOver()
		w.is(1, "revoking")
	}
	says(t, w.do(w.revoked(1)), "revoked/1")

	// Vault says that it has no such guard: that is its word.
	w = begin(t)
	w.do(w.grant(1, guarded))
	says(t, w.do(leasecore.ExtendDone{Name: orders, Lease: 1, Err: gone(), SentAt: w.now}), "expired/1")
	w.is(1, "")
	// It does not answer: that is none.
	w.pass(time.Second)
	w.do(w.grant(2, guarded))
	says(t, w.do(leasecore.ExtendDone{Name: orders, Lease: 2, Err: went("timeout"), SentAt: w.now}), "renew-failed/2")
	w.is(2, "acquired")
}

// TestP6_NothingElseClosesAnAcquiredLease, in no phase and by no event.
func TestP6_NothingElseClosesAnAcquiredLease(t *testing.T) {
	w := underway(t, consumed)
	w.inconsistent(1, &events.Orphaned{})
	w.inconsistent(1, &events.AcquireFailed{})
	w.inconsistent(1, &events.Revoked{})
	w.inconsistent(1, &events.Revoked{Shared: true})
	w.rotate()
	w.offer(2)
	w.inconsistent(2, &events.Orphaned{})
	w.inconsistent(2, &events.Expired{By: events.ExpiredByVault})
	w.inconsistent(2, &events.Revoked{})
}

// TestP7_RevokingIsFinal: it is never staged again, and any holder repeats it.
func TestP7_RevokingIsFinal(t *testing.T) {
	w := underway(t, consumed)
	w.do(leasecore.RevokeActive{Name: orders})
	w.owes("revoke/1 acquire/2")
	for _, d := range []events.Data{
		&events.HandoverStarted{}, &events.Installed{}, &events.RollbackStarted{}, &events.Retired{}, &events.Expired{By: events.ExpiredByVault},
		&events.Acquired{LeaseID: "L1"},
	} {
		w.inconsistent(1, d)
	}
	w.do(w.grant(2))
	for range 3 {
		w.takeOver()
		w.is(1, "revoking")
		if owed := w.state.Owed(orders, w.now); len(owed) == 0 || owed[0].Kind != leasecore.Revoke {
			t.Fatalf("owed is %v", owed)
		}
	}
	w.refuses(w.renewed(1, "600"), leasecore.ErrStale)
}

// TestP8_NIsTheEventsSequence: each message carries that of the event it follows
// from, and an answer counts for that one alone.
func TestP8_NIsTheEventsSequence(t *testing.T) {
	w := underway(t, consumed)
	w.rotate()
	w.offer(2)
	carries := func(kind leasecore.EffectKind, n uint64) {
		t.Helper()
		for _, e := range w.state.Owed(orders, w.now) {
			if e.Kind == kind {
				if e.N != n {
					t.Fatalf("%s carries n=%d, want %d", e, e.N, n)
				}
				return
			}
		}
		t.Fatalf("no %s is owed:\n%s", kind, w.state.Print())
	}
	_, started := last[*events.HandoverStarted](w)
	carries(leasecore.Prepare, started)
	for _, n := range []uint64{0, started - 1, started + 1} {
		w.refuses(leasecore.Answered{Name: orders, N: n, Incarnation: "A", Yes: true}, leasecore.ErrStale)
	}
	w.do(leasecore.Answered{Name: orders, N: started, Incarnation: "A"})
	_, back := last[*events.RollbackStarted](w)
	carries(leasecore.Tell, back)
	w.state.Confirm(orders, "A", back-1)
	says(t, w.settle(), "")
	w.confirm("A")
	w.pass(time.Second)
	w.rotate()
	w.offer(3)
	w.do(w.answer("A", true))
	_, installed := last[*events.Installed](w)
	carries(leasecore.Tell, installed)
	w.state.Confirm(orders, "A", installed)
	w.state.Confirm(orders, "A", 1) // late: it takes nothing back
	w.owes("revoke/2")
}

// TestP12_AHandOverWithoutOutcome is rolled back by who takes over; with every
// yes in the log it is installed.
func TestP12_AHandOverWithoutOutcome(t *testing.T) {
	for yes, want := range map[string]string{
		"": "rollback-started/2", "A": "rollback-started/2", "B": "rollback-started/2", "AB": "installed/2",
	} {
		w := underway(t, consumed)
		w.register("B")
		w.confirm("B")
		w.rotate()
		w.offer(2)
		for _, id := range yes { // the log has the answers, their consequences did not land
			w.append(events.Event{ID: string(id), Scope: "prod", Name: orders, Lease: 2, Epoch: 10, Time: w.now, Data: &events.Prepared{
				Incarnation: string(id), N: w.name().Handover.N, Yes: true,
			}})
		}
		says(t, w.takeOver(), want)
	}
}

// TestP12_ANoInTheLogIsANo, however it goes on.
func TestP12_ANoInTheLogIsANo(t *testing.T) {
	w := underway(t, consumed)
	w.rotate()
	w.offer(2)
	w.append(events.Event{ID: "no", Scope: "prod", Name: orders, Lease: 2, Epoch: 10, Time: w.now, Data: &events.Prepared{Incarnation: "A", N: w.name().Handover.N}})
	says(t, w.takeOver(), "rollback-started/2")
}

// TestP12_ARollBackGoesOn under the next holder, with its whole budget, and is
// never turned into an install.
func TestP12_ARollBackGoesOn(t *testing.T) {
	w := underway(t, consumed)
	w.rotate()
	w.offer(2)
	w.do(w.answer("A", false))
	w.pass(4 * time.Second)
	says(t, w.takeOver(), "")
	w.inconsistent(2, &events.Installed{})
	w.refuses(w.answer("A", true), leasecore.ErrStale)
	w.owes("tell/1->A")
	says(t, w.pass(5*time.Second-1), "")
	says(t, w.confirm("A"), "rolled-back/2 revoking/2")
}

// TestP13_EverybodyRegisteredCounts: who registered after the commit too, whoever
// was asked.
func TestP13_EverybodyRegisteredCounts(t *testing.T) {
	w := underway(t, consumed)
	w.rotate()
	w.offer(2)
	w.do(w.answer("A", true))
	w.confirm("A")
	w.register("B")
	says(t, w.pass(time.Minute), "")
	w.is(1, "grace")
	says(t, w.confirm("B"), "retired/1 revoking/1")

	// In a roll back likewise.
	w.confirm("A", "B")
	w.rotate()
	w.offer(3)
	w.do(w.answer("A", false))
	w.register("C")
	says(t, w.confirm("A", "B"), "")
	says(t, w.confirm("C"), "rolled-back/3 revoking/3")
}

// TestP13_TheNextIncarnationTakesItsPlace, and has to confirm for itself.
func TestP13_TheNextIncarnationTakesItsPlace(t *testing.T) {
	w := underway(t, consumed)
	w.rotate()
	w.offer(2)
	w.do(w.answer("A", true))
	w.pass(5 * time.Second)
	w.is(1, "grace")
	w.do(leasecore.Register{Name: orders, Registration: events.Registered{Consumer: "api", Instance: "i-A", Incarnation: "B", Replaces: "A", Key: "UAPI"}})
	if c := w.name().Consumers; len(c) != 1 || c[0].ID != "B" {
		t.Fatalf("registered are %v", c)
	}
	w.owes("tell/2->B")
	says(t, w.settle(), "")
	w.state.Confirm(orders, "A", w.name().N) // the dead one's word, late
	says(t, w.settle(), "")
	says(t, w.confirm("B"), "retired/1 revoking/1")
}

// TestP13_WhoLeftIsNotWaitedFor.
func TestP13_WhoLeftIsNotWaitedFor(t *testing.T) {
	w := underway(t, consumed)
	w.rotate()
	w.offer(2)
	w.do(w.answer("A", true))
	w.pass(5 * time.Second)
	says(t, w.do(leasecore.Leave{Name: orders, Incarnation: "A", Reason: events.LeftByItself}), "left retired/1 revoking/1")
}

// TestP13_AConfirmationIsOfAtLeastN.
func TestP13_AConfirmationIsOfAtLeastN(t *testing.T) {
	w := underway(t, consumed)
	w.rotate()
	w.offer(2)
	w.do(w.answer("A", true))
	w.pass(5 * time.Second)
	w.state.Confirm(orders, "A", w.name().N-1)
	says(t, w.settle(), "")
	w.confirm("A")
	w.is(1, "revoking")
}

// TestP13_AfterATakeoverEverybodyIsAskedAgain, and the gates are looked at
// again.
func TestP13_AfterATakeoverEverybodyIsAskedAgain(t *testing.T) {
	w := underway(t, consumed)
	w.rotate()
	w.offer(2)
	w.do(w.answer("A", true))
	w.confirm("A")
	w.owes("")
	w.takeOver()
	w.owes("tell/2->A")
	says(t, w.pass(time.Minute), "")
	w.is(1, "grace")
	says(t, w.confirm("A"), "retired/1 revoking/1")
}

// TestP13_AReopeningForgetsNothing: it is the same holder.
func TestP13_AReopeningForgetsNothing(t *testing.T) {
	w := underway(t, consumed)
	w.open(10, "a")
	w.owes("")
}

// TestP13_GraceIsAMinimum, no substitute for a confirmation; and a confirmation
// is none for grace.
func TestP13_GraceIsAMinimum(t *testing.T) {
	w := underway(t, consumed)
	w.rotate()
	w.offer(2)
	w.do(w.answer("A", true))
	says(t, w.confirm("A"), "")
	says(t, w.pass(5*time.Second-1), "")
	says(t, w.pass(1), "retired/1 revoking/1")
}

// TestP13_OverdueNamesWhoIsCutOff: the bounded exception is in the log.
func TestP13_OverdueNamesWhoIsCutOff(t *testing.T) {
	w := underway(t, consumed, func(d *events.Definition) { d.RetireAfter = events.WholeSeconds(60) })
	w.register("B")
	w.confirm("B")
	w.rotate()
	w.offer(2)
	w.do(w.answer("A", true))
	w.do(w.answer("B", true))
	w.confirm("A")
	says(t, w.pass(60*time.Second-1), "")
	says(t, w.pass(1), "retired/1 revoking/1")
	if r, _ := last[*events.Retired](w); r.Reason != events.RetiredOverdue || fmt.Sprint(r.CutOff) != "[B]" {
		t.Fatalf("%+v", r)
	}
}

// TestP14_ToldWithoutEnd: after a commit, an unsafe roll back and a takeover,
// until it is confirmed.
func TestP14_ToldWithoutEnd(t *testing.T) {
	w := unsafe(t)
	for range 5 {
		w.pass(50 * time.Second)
		w.owes("tell/1->A")
	}
	w.takeOver()
	w.owes("tell/1->A")
	w.confirm("A")
	if got := w.owed(); got != "revoke/2" {
		t.Fatalf("owed is %q", got)
	}
	w.do(w.revoked(2))

	w.rotate()
	w.offer(3)
	w.do(w.answer("A", true))
	for range 3 {
		w.owes("tell/3->A")
		w.takeOver()
	}
	w.confirm("A")
	w.pass(5 * time.Second)
	w.do(w.revoked(1))
	w.owes("")
	// Who comes later is told too.
	w.register("B")
	w.owes("tell/3->B")
}

// TestP15_KeptIsRetiredOnceTheGateHolds, without a later commit; the gate is that
// of the n in force.
func TestP15_KeptIsRetiredOnceTheGateHolds(t *testing.T) {
	w := unsafe(t)
	w.register("B")
	says(t, w.confirm("A"), "")
	says(t, w.confirm("B"), "retired/2 revoking/2")
	if r, _ := last[*events.Retired](w); r.Reason != events.RetiredRolledBack {
		t.Fatalf("retired as %q", r.Reason)
	}
	w.active(1)

	// Not while somebody is being asked about another: its n is not yet in force.
	w = unsafe(t, unrenewable)
	w.pass(580 * time.Second)
	w.offer(3)
	says(t, w.confirm("A"), "")
	w.is(2, "kept")
	w.do(w.answer("A", false))
	says(t, w.settle(), "")
	w.is(2, "kept")
	says(t, w.confirm("A"), "rolled-back/3 retired/2 revoking/2 revoking/3")
}
