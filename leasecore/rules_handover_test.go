package leasecore_test

import (
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
)

// Commit and roll back: L13 to L24.

// TestL13_WhoIsAsked: everybody, unless the values are those in use and nobody
// forces it.
func TestL13_WhoIsAsked(t *testing.T) {
	w := underway(t, consumed)
	w.rotate()
	says(t, w.do(w.grant(2, fingerprint("f1"))), "acquired/2 handover-started/2 installed/2")
	if h, _ := last[*events.HandoverStarted](w); h.Unasked != events.ProofUnchanged || len(h.Asked) > 0 {
		t.Fatalf("same values: %+v", h)
	}
	w.confirm("A")

	w.rotate()
	says(t, w.do(w.grant(3)), "acquired/3 handover-started/3")
	w.owes("prepare/3->A")
	w.do(w.answer("A", true))
	w.confirm("A")

	a := adoption(w, "X")
	a.Adopted.Fingerprint = "f3"
	says(t, w.do(a), "adopted/4 handover-started/4")
	w.owes("prepare/4->A")
}

// TestL13_AnUnchangedReadReconnectsNobody and writes nothing.
func TestL13_AnUnchangedReadReconnectsNobody(t *testing.T) {
	w := begin(t, consumed, kind(events.KindKV))
	w.register("A")
	w.activate(1, secret)
	n := w.name().N
	w.rotate()
	says(t, w.do(w.grant(2, secret, fingerprint("f1"))), "acquired/2 retired/2 revoking/2")
	if r, _ := last[*events.Retired](w); r.Reason != events.RetiredUnchanged {
		t.Fatalf("retired as %q", r.Reason)
	}
	w.owes("revoke/2")
	w.active(1)
	if w.name().N != n {
		t.Fatal("everybody is told anew")
	}
}

// TestL14_SilenceIsNoYes: everybody registered has to say it, about this n.
func TestL14_SilenceIsNoYes(t *testing.T) {
	asked := func(t *testing.T) *world {
		w := underway(t, consumed)
		w.register("B")
		w.confirm("B")
		w.rotate()
		w.offer(2)
		return w
	}
	w := asked(t)
	says(t, w.do(w.answer("A", true)), "prepared/2")
	w.refuses(w.answer("C", true), leasecore.ErrStale)
	late := w.answer("B", true)
	late.N--
	w.refuses(late, leasecore.ErrStale)
	says(t, w.pass(10*time.Second-time.Nanosecond), "")
	says(t, w.pass(time.Nanosecond), "rollback-started/2")
	w.refuses(w.answer("B", true), leasecore.ErrStale)
	w.active(1)

	w = asked(t)
	says(t, w.do(w.answer("B", false)), "prepared/2 rollback-started/2")

	w = asked(t)
	w.do(w.answer("A", true))
	says(t, w.do(w.answer("B", true)), "prepared/2 installed/2")
	w.active(2)
}

// TestL14_TheFirstAnswerCounts: a no is not taken back, nor a yes given twice.
func TestL14_TheFirstAnswerCounts(t *testing.T) {
	w := underway(t, consumed)
	w.register("B")
	w.rotate()
	w.offer(2)
	w.do(w.answer("A", true))
	says(t, w.do(w.answer("A", true)), "")
	says(t, w.do(w.answer("A", false)), "")
	says(t, w.do(w.answer("B", true)), "prepared/2 installed/2")
}

// TestL14_NobodyThereIsNoYes: the last one leaves while it is asked.
func TestL14_NobodyThereIsNoYes(t *testing.T) {
	w := underway(t, consumed)
	w.rotate()
	w.offer(2)
	says(t, w.do(leasecore.Leave{Name: orders, Incarnation: "A", Reason: events.LeftSilent}), "left")
	says(t, w.pass(10*time.Second), "rollback-started/2 rolled-back/2 revoking/2")
	w.active(1)
}

// TestL15_CommitSettlesTheName: the retry is forgotten and every other owned
// lease is on its way out.
func TestL15_CommitSettlesTheName(t *testing.T) {
	w := unsafe(t, unrenewable)
	says(t, w.pass(580*time.Second), "requested/3") // lease 1 is at its end: it is replaced in spite of lease 2
	w.offer(3)
	if w.name().Pending == nil {
		t.Fatal("no retry is planned; the story shows nothing")
	}
	w.do(w.answer("A", true))
	w.active(3)
	if w.name().Pending != nil {
		t.Fatalf("a retry is still planned:\n%s", w.state.Print())
	}
	w.is(1, "grace")
	w.is(2, "grace")
	if n := w.name(); n.Candidate != 0 || n.Handover != nil {
		t.Fatalf("something is still in flight:\n%s", w.state.Print())
	}
	w.wakes(5 * time.Second) // good_for of the replaced ones
}

// TestL15_OnlyTheCandidateIsInstalled.
func TestL15_OnlyTheCandidateIsInstalled(t *testing.T) {
	w := underway(t, consumed)
	w.inconsistent(1, &events.Installed{})
	w.rotate()
	w.inconsistent(2, &events.Installed{})
	w.offer(2)
	w.inconsistent(1, &events.Installed{})
	w.do(w.answer("A", false))
	w.inconsistent(2, &events.Installed{})
}

// TestL16_TheOldOneGoesAfterTheCommit and a revocation that fails changes
// nothing of the install.
func TestL16_TheOldOneGoesAfterTheCommit(t *testing.T) {
	w := underway(t, consumed)
	w.rotate()
	w.offer(2)
	w.is(1, "active")
	w.do(w.answer("A", true))
	w.is(1, "grace")
	w.confirm("A")
	says(t, w.pass(5*time.Second), "retired/1 revoking/1")
	_, committed := last[*events.Installed](w)
	if _, revoking := last[*events.Revoking](w); revoking < committed {
		t.Fatalf("revoked at %d, committed at %d", revoking, committed)
	}
	says(t, w.do(leasecore.RevokeDone{Name: orders, Lease: 1, Err: went("sealed")}), "revoke-failed/1")
	w.active(2)
	if n := w.name(); n.Pending != nil || n.Handover != nil || n.Successor != "" {
		t.Fatalf("the install was touched:\n%s", w.state.Print())
	}
}

// TestL17_WhatDoesNotCommitIsRolledBack, staged or not: it leaves its role and is
// owed its revocation.
func TestL17_WhatDoesNotCommitIsRolledBack(t *testing.T) {
	for what, c := range map[string]struct {
		end  func(w *world) leasecore.Command
		want string
	}{
		"not staged": {func(w *world) leasecore.Command { return w.grant(2, keys("username")) }, "acquire-failed/2 revoking/2"},
		"not verified": {func(w *world) leasecore.Command {
			w.do(w.grant(2))
			return leasecore.VerifyDone{Name: orders, Lease: 2, Err: went("login")}
		}, "verify-failed/2 revoking/2"},
		"its path is another": {func(w *world) leasecore.Command {
			w.do(w.grant(2))
			return leasecore.ApplyDefinitions{Revision: 9, Digest: "x", Definitions: map[string]events.Definition{orders: definition(orders, consumed, verified, at("new"))}}
		}, "applied retired/2 revoking/2 requested/3"},
		"expired": {func(w *world) leasecore.Command {
			w.do(w.grant(2, ttl("3")))
			w.now = w.now.Add(3 * time.Second)
			return leasecore.Tick{Name: orders}
		}, "expired/2 revoking/2"},
		"refused": {func(w *world) leasecore.Command { w.offer(2); return w.answer("A", false) }, "prepared/2 rollback-started/2"},
		"nobody answers": {func(w *world) leasecore.Command {
			w.offer(2)
			w.now = w.now.Add(10 * time.Second)
			return leasecore.Tick{Name: orders}
		}, "rollback-started/2"},
	} {
		t.Run(what, func(t *testing.T) {
			w := underway(t, consumed, verified)
			w.rotate()
			says(t, w.do(c.end(w)), c.want)
			w.confirm("A")
			w.is(2, "revoking")
			w.active(1)
			if w.name().Candidate == 2 {
				t.Fatal("it is still the candidate")
			}
		})
	}
}

// TestL18_ARollBackTouchesNothingElse: what is active stays, also when it was
// taken away meanwhile; and there is no roll back of what is not in flight.
func TestL18_ARollBackTouchesNothingElse(t *testing.T) {
	w := underway(t, consumed)
	w.inconsistent(1, &events.RollbackStarted{})
	w.inconsistent(1, &events.RolledBack{Safe: true})
	w.rotate()
	w.offer(2)
	w.inconsistent(1, &events.RollbackStarted{})
	w.inconsistent(2, &events.RolledBack{Safe: true})
	says(t, w.do(leasecore.RevokeActive{Name: orders}), "retired/1 revoking/1")
	w.do(w.answer("A", false))
	if r, _ := last[*events.RollbackStarted](w); r.Back != 0 {
		t.Fatalf("rolled back to lease %d, which was taken away", r.Back)
	}
	w.confirm("A")
	w.is(1, "revoking")
	w.is(2, "revoking")
	w.active(0)
}

// TestL20_WithNoPreviousLeaseThereIsNone.
func TestL20_WithNoPreviousLeaseThereIsNone(t *testing.T) {
	w := begin(t, consumed)
	w.register("A")
	w.offer(1)
	w.do(w.answer("A", false))
	if r, _ := last[*events.RollbackStarted](w); r.Back != 0 {
		t.Fatalf("back to lease %d", r.Back)
	}
	w.owes("tell/0->A") // "none" is what it is told, and can confirm
	w.active(0)
	says(t, w.confirm("A"), "rolled-back/1 revoking/1")
	if w.name().Active != 0 {
		t.Fatalf("active is lease %d", w.name().Active)
	}
}

// TestL21_EverybodyIsSentBack: who said yes, who said no and who said nothing,
// to the lease before, within the roll back's budget.
func TestL21_EverybodyIsSentBack(t *testing.T) {
	w := underway(t, consumed)
	w.register("B")
	w.register("C")
	w.confirm("A", "B", "C")
	w.rotate()
	w.offer(2)
	w.owes("prepare/2->A prepare/2->B prepare/2->C")
	w.do(w.answer("A", true))
	w.do(w.answer("B", false))
	w.owes("tell/1->A tell/1->B tell/1->C")
	_, n := last[*events.RollbackStarted](w)
	for _, e := range w.state.Owed(orders, w.now) {
		if e.N != n {
			t.Fatalf("%s carries n=%d, want %d", e, e.N, n)
		}
	}
	w.wakes(5 * time.Second)
	says(t, w.confirm("A", "C"), "")
	says(t, w.confirm("B"), "rolled-back/2 revoking/2")
	if r, _ := last[*events.RolledBack](w); !r.Safe {
		t.Fatal("everybody is back")
	}
	w.owes("revoke/2")
}

// L22 in all its branches: a candidate that somebody was asked about is revoked
// only once everybody confirmed being back.

func TestL22_NobodyWasAsked(t *testing.T) {
	w := underway(t, consumed, verified)
	w.rotate()
	w.do(w.grant(2))
	says(t, w.do(leasecore.VerifyDone{Name: orders, Lease: 2, Err: went("login")}), "verify-failed/2 revoking/2")
}

func TestL22_EverybodyConfirmed(t *testing.T) {
	w := underway(t, consumed)
	w.rotate()
	w.offer(2)
	w.do(w.answer("A", false))
	says(t, w.confirm("A"), "rolled-back/2 revoking/2")
}

// unsafe is a world whose candidate 2 was rolled back without A's word, while
// lease 1 is active.
func unsafe(t *testing.T, lease1 ...detail) *world {
	w := begin(t, consumed)
	w.register("A")
	w.activate(1, lease1...)
	w.rotate()
	w.offer(2)
	w.do(w.answer("A", false))
	says(t, w.pass(5*time.Second), "rolled-back/2")
	if r, _ := last[*events.RolledBack](w); r.Safe || len(r.Unconfirmed) != 1 || r.Unconfirmed[0] != "A" {
		t.Fatalf("%+v", r)
	}
	w.is(2, "kept")
	w.active(1)
	return w
}

func TestL22_WithoutEverybodysWordItIsKept(t *testing.T) {
	w := unsafe(t)
	w.owes("tell/1->A")
	says(t, w.pass(time.Second), "") // the back-off has passed: still nothing new
	w.refuses(leasecore.Rotate{Name: orders}, leasecore.ErrWaiting)
	w.pass(294 * time.Second) // half of its life: it is renewed like the active one
	w.owes("renew/1 renew/2 tell/1->A")
	w.do(w.renewed(1, "600"))
	w.do(w.renewed(2, "600"))
	says(t, w.pass(200*time.Second), "")
	w.is(2, "kept")
	says(t, w.takeOver(), "")
	w.is(2, "kept")
}

func TestL22_KeptUntilEverybodyIsBack(t *testing.T) {
	says(t, unsafe(t).confirm("A"), "retired/2 revoking/2")
}

func TestL22_KeptUntilALaterCommit(t *testing.T) {
	w := unsafe(t, unrenewable, ttl("500"))
	says(t, w.pass(480*time.Second), "requested/3")
	says(t, w.do(w.grant(3)), "acquired/3 handover-started/3")
	w.is(2, "kept")
	w.do(w.answer("A", true))
	w.is(2, "grace")
	says(t, w.pass(6*time.Second), "") // the promise has passed, A has not confirmed
	says(t, w.confirm("A"), "retired/1 revoking/1 retired/2 revoking/2")
}

func TestL22_KeptUntilItExpires(t *testing.T) {
	w := unsafe(t, ttl("7200"))
	says(t, w.pass(595*time.Second-time.Nanosecond), "")
	says(t, w.pass(time.Nanosecond), "expired/2 revoking/2")
}

func TestL22_KeptUntilShutdown(t *testing.T) {
	says(t, unsafe(t).do(leasecore.Shutdown{}), "retired/1 retired/2 revoking/1 revoking/2")
}

// TestL22_AtMostTwoAreKept: with one kept and the active lease at its end one
// more is tried; with two kept nothing is acquired any more.
func TestL22_AtMostTwoAreKept(t *testing.T) {
	w := begin(t, consumed)
	w.register("A")
	for no := uint64(1); no <= 2; no++ {
		w.offer(no, ttl("36000"))
		w.pass(10 * time.Second) // nobody answers
		w.pass(5 * time.Second)  // nor goes back
		w.is(no, "kept")
		w.pass(2 * time.Second)
	}
	says(t, w.pass(time.Hour), "")
	w.refuses(leasecore.Rotate{Name: orders}, leasecore.ErrWaiting)
	says(t, w.confirm("A"), "retired/1 revoking/1 retired/2 revoking/2 requested/3")
}

// TestL23_ARenewalThatDoesNotInstallIsNotRevoked: it is the active lease.
func TestL23_ARenewalThatDoesNotInstallIsNotRevoked(t *testing.T) {
	w := begin(t, consumed)
	w.register("A")
	w.activate(1, guarded)
	d := w.renewed(1, "600")
	d.Anew = true // other values under the same lease id
	says(t, w.do(d), "renewed/1 requested/2")
	w.do(w.grant(2, id("L1")))
	w.do(w.answer("A", false))
	says(t, w.confirm("A"), "rolled-back/2 revoked/2")
	if r, _ := last[*events.Revoked](w); !r.Shared {
		t.Fatal("Vault was asked to revoke the active lease")
	}
	w.owes("")
	w.active(1)
	if l := w.lease(1); l.Guard != "G-L1" {
		t.Fatalf("its guard is %q", l.Guard)
	}
}

// TestL24_WhatArrivesUnderAnOldEpochIsNotStaged.
func TestL24_WhatArrivesUnderAnOldEpochIsNotStaged(t *testing.T) {
	w := begin(t)
	w.owes("acquire/1")
	w.open(20, "b")
	w.owes("") // an intent of another epoch is nobody's work
	says(t, w.settle(), "orphaned/1 requested/2")
	w.refuses(w.grant(1), leasecore.ErrStale)
	w.owes("acquire/2")
}

// TestL15_RollingAsksAsManyAsTheWidth: one after the other, in the order they
// registered, whoever comes in between.
func TestL15_RollingAsksAsManyAsTheWidth(t *testing.T) {
	w := underway(t, consumed, func(d *events.Definition) { d.Width = 1 })
	w.register("B")
	w.confirm("B")
	w.rotate()
	says(t, w.do(w.grant(2)), "acquired/2 handover-started/2")
	w.owes("prepare/2->A")
	w.register("0") // sorts before the others, and is asked after them
	w.owes("prepare/2->A")
	w.do(w.answer("A", true))
	w.owes("prepare/2->B")
	w.do(w.answer("B", true))
	w.owes("prepare/2->0")
	says(t, w.do(w.answer("0", true)), "prepared/2 installed/2")
}
