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

// retiredAt gives how long after now lease 1 is retired, to the second.
func retiredAfter(t *testing.T, w *world) time.Duration {
	t.Helper()
	began := w.now
	for range 200 {
		for _, e := range w.pass(time.Second) {
			if e.Type() == events.TypeRetired && e.Lease == 1 {
				return w.now.Sub(began)
			}
		}
	}
	t.Fatalf("lease 1 is never retired:\n%s", w.state.Print())
	return 0
}

func goodFor(seconds int64) setting {
	return func(d *events.Definition) {
		d.GoodFor, d.RetireAfter = events.WholeSeconds(seconds), events.WholeSeconds(1)
	}
}

// TestPromisesCountFromWhenTheCommitIsKnown: until then readers were promised the
// lease before.
func TestPromisesCountFromWhenTheCommitIsKnown(t *testing.T) {
	w := underway(t, goodFor(5))
	w.rotate()
	w.offer(2)
	w.state.Installed(orders, w.now.Add(3*time.Second))
	if d := retiredAfter(t, w); d != 8*time.Second {
		t.Errorf("retired after %s", d)
	}
}

// TestPromisesOfALowerGoodForCountFromWhenItIsKnown, and the longest counts where
// there were several.
func TestPromisesOfALowerGoodForCountFromWhenItIsKnown(t *testing.T) {
	w := underway(t, goodFor(30))
	w.define1(goodFor(10))
	w.state.Redefined(orders, w.now.Add(4*time.Second))
	w.define1(goodFor(2))
	w.state.Redefined(orders, w.now.Add(5*time.Second))
	w.rotate()
	w.offer(2)
	if d := retiredAfter(t, w); d != 35*time.Second {
		t.Errorf("retired after %s", d)
	}
	w.state.Redefined("unheard-of", w.now)
}

// TestPromisesOfADeposedHolderLastAsLongAsItsOverlap: it may not know yet.
func TestPromisesOfADeposedHolderLastAsLongAsItsOverlap(t *testing.T) {
	w := underway(t, goodFor(5))
	w.append(events.Event{ID: "taken", Scope: "prod", Name: events.EpochName, Epoch: w.state.Epoch + 1, Time: w.now,
		Data: &events.Opened{Holder: "b", Overlap: events.WholeSeconds(3)}})
	w.rotate()
	w.offer(2)
	if d := retiredAfter(t, w); d != 8*time.Second {
		t.Errorf("retired after %s", d)
	}
}

// TestPromisesOfTheHolderBeforeEndAfterTheEpochBegan: its readers saw the commit
// by then at the latest.
func TestPromisesOfTheHolderBeforeEndAfterTheEpochBegan(t *testing.T) {
	w := underway(t, goodFor(5))
	w.rotate()
	w.offer(2)
	w.now = w.now.Add(3 * time.Second)
	w.takeOver()
	if d := retiredAfter(t, w); d != 5*time.Second {
		t.Errorf("retired after %s", d)
	}
}

// TestWaitsTellsWhetherAnOutageHoldsWorkUp, of the very connection.
func TestWaitsTellsWhetherAnOutageHoldsWorkUp(t *testing.T) {
	w := underway(t)
	waits := func(vault string) bool { return w.name().Waits(vault) }
	if waits("main") {
		t.Error("nothing failed")
	}
	w.rotate()
	w.do(leasecore.AcquireDone{Name: orders, Lease: 2, Err: went("transient")})
	if !waits("main") || waits("second") {
		t.Error("an acquisition waits for its retry")
	}
	w = underway(t)
	w.pass(300 * time.Second)
	w.do(w.notRenewed(1, went("transient")))
	if !waits("main") || waits("second") {
		t.Error("a renewal waits for its retry")
	}
}

// TestL26_JoiningTakesOverAllThatIsKnown of the lease in Vault.
func TestL26_JoiningTakesOverAllThatIsKnown(t *testing.T) {
	w := begin(t)
	w.activate(1, id("X"), guarded, unrenewable, ttl("1234"))
	w.pass(7 * time.Second)
	w.do(adoption(w, "X"))
	a, b := w.lease(1), w.lease(2)
	if !b.GrantedAt.Equal(a.GrantedAt) || b.TTL != a.TTL || b.Renewable != a.Renewable || b.Short != a.Short ||
		b.Guard != a.Guard || !b.GuardAt.Equal(a.GuardAt) || b.GuardTTL != a.GuardTTL || b.GuardExtended != a.GuardExtended {
		t.Errorf("%+v\n%+v", a, b)
	}
}

// TestL42_ARefusedUpdateIsRecorded with the revision that it would have been.
func TestL42_ARefusedUpdateIsRecorded(t *testing.T) {
	w := underway(t)
	evs := w.do(leasecore.RejectDocument{Name: "app", Expected: 3, Failure: events.Failure{Kind: "busy", Message: "a hand-over"}})
	r, ok := evs[0].Data.(*events.Rejected)
	if !ok || r.Revision != 4 || r.Kind != "busy" || r.Message != "a hand-over" || evs[0].Name != "app" || evs[0].Lease != 0 {
		t.Errorf("%+v", evs[0])
	}
}

// TestPromisesOfTheHolderBeforeCountFromWhenWeKnewOurEpochOpen: an append of its
// may have landed between the time that the opening was stamped with and then.
func TestPromisesOfTheHolderBeforeCountFromWhenWeKnewOurEpochOpen(t *testing.T) {
	w := underway(t, goodFor(5))
	w.rotate()
	w.offer(2)
	w.now = w.now.Add(3 * time.Second)
	w.open(w.state.Epoch+10, "b")
	w.state.Took(w.now.Add(2 * time.Second))
	if d := retiredAfter(t, w); d != 7*time.Second {
		t.Errorf("retired after %s", d)
	}
}

// TestRestore_AReplacedLeaseSaysWhen it was replaced, or the state is none.
func TestRestore_AReplacedLeaseSaysWhen(t *testing.T) {
	lease := leasecore.Lease{No: 1, State: leasecore.Grace}
	names := func() []*leasecore.Name { return []*leasecore.Name{{Name: orders, Leases: []leasecore.Lease{lease}}} }
	if _, err := leasecore.Restore(leasecore.Frozen{Names: names()}); err == nil {
		t.Error("a lease that was replaced at no time is taken")
	}
	lease.Replaced = &leasecore.Replaced{At: time.Unix(1, 0)}
	if _, err := leasecore.Restore(leasecore.Frozen{Names: names()}); err != nil {
		t.Error(err)
	}
}
