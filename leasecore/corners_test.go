package leasecore_test

import (
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
)

// Corners that the rules do not spell out and that a fault once went unseen in.

// TestL14_NobodyIsLeftToSayYes: everybody left during the hand-over of a candidate
// that only a consumer can prove.
func TestL14_NobodyIsLeftToSayYes(t *testing.T) {
	w := begin(t, consumed)
	w.register("A")
	w.offer(1)
	says(t, w.do(leasecore.Leave{Name: orders, Incarnation: "A", Reason: events.LeftByItself}), "left")
	w.active(0)
	says(t, w.pass(10*time.Second), "rollback-started/1 rolled-back/1 revoking/1")
}

// TestL16_TheDefinitionsOwnBudgetOfGoingBack counts, not the default.
func TestL16_TheDefinitionsOwnBudgetOfGoingBack(t *testing.T) {
	w := underway(t, consumed, func(d *events.Definition) { d.RollbackTimeout = events.WholeSeconds(17) })
	w.rotate()
	w.offer(2)
	w.do(w.answer("A", false))
	if r, _ := last[*events.RollbackStarted](w); r.Budget.Duration() != 17*time.Second {
		t.Fatalf("budget %s", r.Budget)
	}
	w.wakes(17 * time.Second)
	says(t, w.pass(17*time.Second-time.Nanosecond), "")
	says(t, w.pass(time.Nanosecond), "rolled-back/2")
}

// TestC34_WhatVaultWasNotAskedForCostsNothing: it was known to be out.
func TestC34_WhatVaultWasNotAskedForCostsNothing(t *testing.T) {
	w := begin(t, func(d *events.Definition) { d.AcquisitionsPerHour = 1 })
	before := w.state.Spent
	fail := went("transient")
	fail.NotSent = true
	says(t, w.do(leasecore.AcquireDone{Name: orders, Lease: 1, Err: fail}), "acquire-failed/1")
	if w.state.Spent.Equal(before) || w.name().Spent.After(w.now) {
		t.Fatalf("the scope has spent until %s (before: %s), the name until %s", w.state.Spent, before, w.name().Spent)
	}
	says(t, w.pass(time.Second), "requested/2") // the budget of 1 an hour is whole
	says(t, w.do(leasecore.AcquireDone{Name: orders, Lease: 2, Err: went("transient")}), "acquire-failed/2")
	says(t, w.pass(30*time.Minute), "") // this time it was asked
}

// TestL26_WhatIsBeingRevokedIsNotAdopted: it ends in Vault any moment (L11).
func TestL26_WhatIsBeingRevokedIsNotAdopted(t *testing.T) {
	w := underway(t)
	w.do(leasecore.RevokeActive{Name: orders})
	w.do(leasecore.AcquireDone{Name: orders, Lease: 2, Err: went("transient")})
	w.refuses(adoption(w, "L1"), leasecore.ErrUnfit)
}

// TestL20_ARotationByHandNeedsAConsumerOnlyWhereNothingIsActive: with an active
// lease nothing is lost by waiting for somebody to prove the next.
func TestL20_ARotationByHandNeedsAConsumerOnlyWhereNothingIsActive(t *testing.T) {
	w := underway(t, consumed)
	w.do(leasecore.Leave{Name: orders, Incarnation: "A", Reason: events.LeftByItself})
	says(t, w.do(leasecore.Rotate{Name: orders}), "requested/2")

	w = begin(t, consumed)
	w.refuses(leasecore.Rotate{Name: orders}, leasecore.ErrWaiting)
}

// TestL30_DueByItselfWaitsForAConsumer: what only a consumer can prove is not
// acquired for nobody.
func TestL30_DueByItselfWaitsForAConsumer(t *testing.T) {
	w := begin(t, consumed)
	w.register("A")
	w.activate(1, unrenewable, ttl("600"))
	w.do(leasecore.Leave{Name: orders, Incarnation: "A", Reason: events.LeftByItself})
	says(t, w.pass(400*time.Second), "")
	says(t, w.register("B"), "registered requested/2")
}

// TestEventsSayWhoAndHowLong: auditors ask.
func TestEventsSayWhoAndHowLong(t *testing.T) {
	w := begin(t, verified)
	w.do(w.grant(1))
	who := events.Actor{Name: "operator", Key: "UKEY"}
	draft := leasecore.NewDraft(w.state)
	evs, err := leasecore.Decide(draft, leasecore.At{Now: w.now, ID: "x", Cause: "why", Actor: who},
		leasecore.VerifyDone{Name: orders, Lease: 1, Verifier: "postgresql", Took: events.MustSeconds("0.25")})
	if err != nil || len(evs) == 0 {
		t.Fatal(err)
	}
	if v, ok := evs[0].Data.(*events.Verified); !ok || v.Took.Cmp(events.MustSeconds("0.25")) != 0 {
		t.Errorf("%+v", evs[0].Data)
	}
	for _, e := range evs {
		if e.Actor != who || e.Cause != "why" || !e.Time.Equal(w.now) || e.Epoch != w.state.Epoch || e.Scope != "prod" {
			t.Errorf("%+v", e)
		}
	}
}

// TestADraftHoldsSeveralNames: a batch of commands is decided on one draft, where
// each sees what the one before did, and the state below knows nothing of it.
func TestADraftHoldsSeveralNames(t *testing.T) {
	w := newWorld(t)
	w.open(10, "a")
	w.defineAll(map[string]events.Definition{"a": definition("a"), "b": definition("b")})
	for i, n := range []string{"a", "b"} {
		d := w.grant(uint64(i + 1))
		d.Name = n
		w.do(d)
	}
	before := w.state.Print()
	draft := leasecore.NewDraft(w.state)
	decide := func(id string, c leasecore.Command) []events.Event {
		t.Helper()
		evs, err := leasecore.Decide(draft, leasecore.At{Now: w.now, ID: id}, c)
		if err != nil {
			t.Fatal(err)
		}
		return evs
	}
	decide("1", leasecore.ApplyDefinitions{Revision: 2, Digest: "d2", Definitions: map[string]events.Definition{"b": definition("b"), "c": definition("c")}})
	says(t, decide("2", leasecore.Reissue{}), "b:requested/4")
	if draft.Name("c") == nil || w.state.Name("c") != nil || w.state.Print() != before {
		t.Errorf("the draft lacks c, or the state below was changed:\n%s", w.state.Print())
	}
}

// TestHeadTellsWhereTheLogIs: what Print leaves out.
func TestHeadTellsWhereTheLogIs(t *testing.T) {
	w := underway(t)
	if at := w.log[len(w.log)-1].Seq; w.state.LastSeq != at {
		t.Errorf("the last sequence is %d, want %d", w.state.LastSeq, at)
	}
	w.pass(time.Second)
	w.do(leasecore.Release{Holder: "a"})
	if !w.state.Released || !w.state.ReleasedAt.Equal(w.now) {
		t.Errorf("released %t at %s", w.state.Released, w.state.ReleasedAt)
	}
}

// TestL36_RenewalsOfManyLeasesSpread: the number alone decides, all of its bytes.
func TestL36_RenewalsOfManyLeasesSpread(t *testing.T) {
	at := map[time.Time]bool{}
	for _, no := range []uint64{1, 256, 65536, 1 << 24, 1 << 32} {
		l := leasecore.Lease{No: no, TTL: time.Hour, GrantedAt: time.Unix(0, 0), Renewable: true, LeaseID: "x"}
		due, ends := l.RenewalDue(events.DefaultDefinition().RenewAt)
		if !ends {
			t.Fatal("it does not end")
		}
		at[due] = true
	}
	if len(at) != 5 {
		t.Errorf("5 leases are due at %d times", len(at))
	}
}

func TestValuesOutOfRangeAreNamed(t *testing.T) {
	if s := leasecore.LeaseState(200).String(); s == "" {
		t.Error("no text")
	}
	if s := leasecore.EffectKind(200).String(); s == "" {
		t.Error("no text")
	}
}
