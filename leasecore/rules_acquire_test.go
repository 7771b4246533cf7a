package leasecore_test

import (
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
)

// Acquire, and what is staged: L1 to L11.

// TestL1_NothingBeginsWhileLeaving: whatever is asked for, a holder that is
// about to give the scope back begins nothing.
func TestL1_NothingBeginsWhileLeaving(t *testing.T) {
	for what, ask := range map[string]func(*world) leasecore.Command{
		"a tick":            func(*world) leasecore.Command { return leasecore.Tick{Name: orders} },
		"a rotation":        func(*world) leasecore.Command { return leasecore.Rotate{Name: orders} },
		"a reissue":         func(*world) leasecore.Command { return leasecore.Reissue{} },
		"an adoption":       func(w *world) leasecore.Command { return adoption(w, "X") },
		"a renewal anew":    func(w *world) leasecore.Command { d := w.renewed(1, "600"); d.Anew = true; return d },
		"a refused renewal": func(w *world) leasecore.Command { return w.notRenewed(1, refusedBy("permission")) },
		"a new path": func(w *world) leasecore.Command {
			return leasecore.ApplyDefinitions{Revision: 2, Digest: "x", Definitions: map[string]events.Definition{orders: definition(orders, at("other"))}}
		},
	} {
		t.Run(what, func(t *testing.T) {
			w := underway(t)
			w.draining = true
			before := len(w.log)
			if _, err := w.decide(ask(w)); err == nil {
				w.settle()
			}
			for _, e := range w.log[before:] {
				switch e.Type() {
				case events.TypeRequested, events.TypeAdopted, events.TypeHandoverStarted:
					t.Errorf("%s began %s", what, said([]events.Event{e}))
				}
			}
			if w.name().InFlight() {
				t.Errorf("%s put something in flight", what)
			}
			w.active(1)
		})
	}
}

// TestL1_WhatIsInFlightGoesOnWhileLeaving: the holder waits for what it began.
func TestL1_WhatIsInFlightGoesOnWhileLeaving(t *testing.T) {
	w := underway(t, consumed)
	w.rotate()
	w.offer(2)
	w.draining = true
	if !w.name().InFlight() {
		t.Fatal("a hand-over is in flight")
	}
	says(t, w.do(w.answer("A", true)), "prepared/2 installed/2")
	if w.name().InFlight() {
		t.Fatal("nothing is in flight any more")
	}
}

// TestL1_NoHandOverBeginsWhileLeaving: a candidate that is ready is left to the
// successor.
func TestL1_NoHandOverBeginsWhileLeaving(t *testing.T) {
	w := underway(t, consumed)
	w.rotate()
	w.do(w.grant(2, guarded))
	w.draining = true
	says(t, w.do(w.extended(2)), "guard-extended/2")
	if w.name().InFlight() {
		t.Fatal("it is waited for")
	}
	w.draining = false
	says(t, w.takeOver(), "handover-started/2")
}

// TestL3_WhatIsEdited: only another path or connection acquires anew.
func TestL3_WhatIsEdited(t *testing.T) {
	for what, c := range map[string]struct {
		edit setting
		anew bool
	}{
		"path":       {at("database/creds/other"), true},
		"connection": {in("second"), true},
		"kind":       {kind(events.KindMySQL), false},
		"renew_at":   {func(d *events.Definition) { d.RenewAt = events.MustSeconds("0.7") }, false},
		"verifier":   {verified, false},
		"consumers":  {consumed, false},
		"good_for":   {func(d *events.Definition) { d.GoodFor = events.WholeSeconds(60) }, false},
		"require":    {requiring("extra"), false},
		"time-outs":  {func(d *events.Definition) { d.PrepareTimeout = events.WholeSeconds(20) }, false},
		"nothing":    {func(*events.Definition) {}, false},
	} {
		t.Run(what, func(t *testing.T) {
			w := underway(t)
			evs := w.define1(c.edit)
			want := "applied"
			switch {
			case c.anew:
				want = "applied requested/2"
			case what == "nothing":
				want = ""
			}
			says(t, evs, want)
			w.active(1)
		})
	}
}

// TestL3_NoExpiryCountsAsUnexpired, while an expired lease is acquired afresh.
func TestL3_NoExpiryCountsAsUnexpired(t *testing.T) {
	w := begin(t)
	w.activate(1, secret)
	says(t, w.pass(1000*time.Hour), "")
	w.active(1)

	w = begin(t)
	w.activate(1)
	says(t, w.pass(600*time.Second), "expired/1 revoking/1 requested/2")
	if r, _ := last[*events.Requested](w); r.Reason != events.ReasonExpired {
		t.Fatalf("requested because of %q", r.Reason)
	}
}

// TestL4_APendingRetryIsHonoured: neither a tick, an operator nor an edit jumps
// the back-off; another path has none.
func TestL4_APendingRetryIsHonoured(t *testing.T) {
	fail := func(t *testing.T) *world {
		w := begin(t)
		says(t, w.do(leasecore.AcquireDone{Name: orders, Lease: 1, Err: went("timeout")}), "acquire-failed/1")
		return w
	}
	w := fail(t)
	w.refuses(leasecore.Rotate{Name: orders}, leasecore.ErrWaiting)
	says(t, w.define1(func(d *events.Definition) { d.GoodFor = events.WholeSeconds(1) }), "applied")
	says(t, w.pass(time.Second-time.Nanosecond), "")
	w.wakes(time.Nanosecond)
	says(t, w.pass(time.Nanosecond), "requested/2")

	says(t, fail(t).define1(at("database/creds/other")), "applied requested/2")
	says(t, fail(t).define1(in("second")), "applied requested/2")
}

// TestL5_LateOutcomesHaveNoEffect: an outcome counts only for the operation in
// flight that it came from.
func TestL5_LateOutcomesHaveNoEffect(t *testing.T) {
	w := underway(t, consumed, verified)
	for _, c := range []leasecore.Command{
		w.grant(1), w.grant(2), w.extended(1), w.proven(1), w.revoked(1), w.renewed(2, "60"),
		leasecore.AcquireDone{Name: orders, Lease: 1, Err: went("timeout")},
		leasecore.VerifyDone{Name: orders, Lease: 1, Err: went("login")},
		leasecore.PollDone{Name: orders, Lease: 2, Fingerprint: "other"},
		leasecore.Answered{Name: orders, N: w.name().N, Incarnation: "A", Yes: true},
		leasecore.AcquireDone{Name: "nobody", Lease: 1, Err: went("timeout")},
	} {
		w.refuses(c, leasecore.ErrStale)
	}
	w.rotate()
	w.offer(2)
	for _, c := range []leasecore.Command{w.grant(2), w.extended(2), w.proven(2), w.revoked(2)} {
		w.refuses(c, leasecore.ErrStale)
	}
}

// TestL5_OneOperationPerName at a time.
func TestL5_OneOperationPerName(t *testing.T) {
	w := underway(t, consumed)
	for _, next := range []func(){func() { w.rotate() }, func() { w.offer(2) }, func() { w.do(w.answer("A", false)) }} {
		next()
		w.refuses(leasecore.Rotate{Name: orders}, leasecore.ErrBusy)
		w.refuses(adoption(w, "X"), leasecore.ErrBusy)
		says(t, w.do(leasecore.Reissue{}), "")
	}
}

// TestL6_EveryFailureIsRecordedAndPlanned: each effect that fails leaves an
// event that says why and when it is tried again, and no error.
func TestL6_EveryFailureIsRecordedAndPlanned(t *testing.T) {
	w := begin(t, verified)
	planned := func(what string, r events.Retry) {
		t.Helper()
		if r.Attempt != 1 || !r.At.Equal(w.now.Add(time.Second)) {
			t.Fatalf("%s: planned is attempt %d at +%v, want 1 at +1s", what, r.Attempt, r.At.Sub(w.now))
		}
	}
	says(t, w.do(leasecore.AcquireDone{Name: orders, Lease: 1, Err: went("timeout")}), "acquire-failed/1")
	failed, _ := last[*events.AcquireFailed](w)
	planned("acquire", failed.Retry)
	w.pass(time.Second)

	w.do(w.grant(2, guarded))
	x := w.extended(2)
	x.Err = went("timeout")
	says(t, w.do(x), "renew-failed/2")
	notExtended, _ := last[*events.RenewFailed](w)
	planned("extend", notExtended.Retry)
	w.owes("")
	w.pass(time.Second)
	w.owes("extend/2")
	w.do(w.extended(2))
	w.do(w.proven(2))
	w.is(2, "active")

	says(t, w.do(w.notRenewed(2, went("timeout"))), "renew-failed/2")
	notRenewed, _ := last[*events.RenewFailed](w)
	planned("renew", notRenewed.Retry)
	w.rotate()
	w.do(w.grant(3))
	says(t, w.do(leasecore.VerifyDone{Name: orders, Lease: 3, Err: went("login")}), "verify-failed/3 revoking/3")
	notVerified, _ := last[*events.VerifyFailed](w)
	planned("verify", notVerified.Retry)
	says(t, w.do(leasecore.RevokeDone{Name: orders, Lease: 3, Err: went("timeout")}), "revoke-failed/3")
	notRevoked, _ := last[*events.RevokeFailed](w)
	planned("revoke", notRevoked.Retry)
	w.active(2)
}

// TestL7_WhatIsDroppedIsRevoked: the active lease, a candidate, and one in a
// hand-over.
func TestL7_WhatIsDroppedIsRevoked(t *testing.T) {
	w := underway(t)
	says(t, w.defineAll(nil), "removed retired/1 revoking/1")
	if r, _ := last[*events.Retired](w); r.Reason != events.RetiredRemoved {
		t.Fatalf("retired as %q", r.Reason)
	}
	w.owes("revoke/1")
	says(t, w.do(w.revoked(1)), "revoked/1")
	if w.name() != nil {
		t.Fatalf("the name is still there:\n%s", w.state.Print())
	}

	w = underway(t, verified)
	w.rotate()
	w.do(w.grant(2))
	says(t, w.defineAll(nil), "removed retired/2 retired/1 revoking/1 revoking/2")

	w = underway(t, consumed)
	w.rotate()
	w.offer(2)
	says(t, w.defineAll(nil), "removed rollback-started/2")
	says(t, w.confirm("A"), "rolled-back/2 retired/1 revoking/1 revoking/2")
}

// TestL8_WhatArrivedIsOwned, whatever is wrong with it; without a lease id there
// is nothing to own.
func TestL8_WhatArrivedIsOwned(t *testing.T) {
	w := begin(t)
	says(t, w.do(leasecore.AcquireDone{Name: orders, Lease: 1, Err: went("store"), LeaseID: "L1", Guard: "G1"}), "acquire-failed/1 revoking/1")
	w.owes("revoke/1")
	if l := w.lease(1); l.LeaseID != "L1" || l.Guard != "G1" {
		t.Fatalf("owned is %q under guard %q", l.LeaseID, l.Guard)
	}
	w.do(w.revoked(1))
	w.pass(time.Second)
	says(t, w.do(w.grant(2, keys("username"), guarded)), "acquire-failed/2 revoking/2")
	if l := w.lease(2); l.LeaseID != "L2" || l.Guard != "G-L2" {
		t.Fatalf("owned is %q under guard %q", l.LeaseID, l.Guard)
	}
	w.do(w.revoked(2))
	w.pass(2 * time.Second)
	says(t, w.do(leasecore.AcquireDone{Name: orders, Lease: 3, Err: went("store")}), "acquire-failed/3")
	w.is(3, "")
	w.owes("")
}

// TestL8_AKnownLeaseIDIsOwnedOnce: what failed came under a lease id that is in
// use; it is not revoked.
func TestL8_AKnownLeaseIDIsOwnedOnce(t *testing.T) {
	w := underway(t)
	w.rotate()
	says(t, w.do(w.grant(2, id("L1"), keys("username"))), "acquire-failed/2 revoked/2")
	if r, _ := last[*events.Revoked](w); !r.Shared {
		t.Fatal("Vault was asked")
	}
	w.owes("")
	w.active(1)
}

// TestL9_DurationsThatMakeNoSense: without a lease id they do not expire, with
// one the fallback counts and the event says so.
func TestL9_DurationsThatMakeNoSense(t *testing.T) {
	for _, c := range []struct {
		id, came, counts string
		suspect          bool
	}{
		{"", "0", "0", true}, // an account that nothing ends (C17)
		{"", "-1", "0", true},
		{"L1", "0", "120", true},
		{"L1", "-5", "120", true},
		{"L1", "-0.000000001", "120", true},
		{"L1", "0.5", "0.5", false},
		{"L1", "600", "600", false},
	} {
		w := begin(t, func(d *events.Definition) { d.FallbackTTL = events.WholeSeconds(120) })
		w.do(w.grant(1, id(c.id), ttl(c.came)))
		a, _ := last[*events.Acquired](w)
		if a.TTL.String() != c.counts || (a.Suspect != "") != c.suspect {
			t.Errorf("lease id %q for %s s: %s s counts, suspect %q; want %s, %t", c.id, c.came, a.TTL, a.Suspect, c.counts, c.suspect)
		}
		if _, ends := w.lease(1).Expires(); ends != (c.counts != "0") {
			t.Errorf("lease id %q for %s s: expires %t", c.id, c.came, ends)
		}
	}
}

// TestL10_EveryNeededKey must have come, by kind and by definition (D7: for
// every database kind).
func TestL10_EveryNeededKey(t *testing.T) {
	for _, c := range []struct {
		kind    events.Kind
		require []string
		came    []string
		staged  bool
	}{
		{events.KindPostgreSQL, nil, []string{"username", "password"}, true},
		{events.KindPostgreSQL, nil, []string{"username"}, false},
		{events.KindMySQL, nil, []string{"password"}, false},
		{events.KindRabbitMQ, nil, []string{"password"}, false},
		{events.KindRabbitMQ, nil, []string{"password", "username", "more"}, true},
		{events.KindRedis, nil, nil, false},
		{events.KindGeneric, nil, nil, true},
		{events.KindGeneric, []string{"token"}, []string{"Token"}, false},
		{events.KindKV, []string{"token"}, []string{"token"}, true},
		{events.KindPostgreSQL, []string{"host"}, []string{"username", "password"}, false},
	} {
		w := begin(t, kind(c.kind), requiring(c.require...))
		w.do(w.grant(1, keys(c.came...)))
		if staged := w.name().Active == 1; staged != c.staged {
			t.Errorf("%s, requiring %v, with %v: staged %t", c.kind, c.require, c.came, staged)
		}
		if !c.staged {
			f, _ := last[*events.AcquireFailed](w)
			if f.Kind != leasecore.KindMissingKeys || len(f.Keys) != len(c.came) {
				t.Errorf("%s with %v: %+v", c.kind, c.came, f)
			}
		}
	}
}

// TestL11_WhatIsOnItsWayOutIsNotStaged: neither a lease that is being revoked
// nor one that is gone is handed over again.
func TestL11_WhatIsOnItsWayOutIsNotStaged(t *testing.T) {
	w := underway(t)
	w.do(leasecore.RevokeActive{Name: orders})
	w.is(1, "revoking")
	w.inconsistent(1, &events.HandoverStarted{Budget: events.WholeSeconds(10)})
	w.do(w.revoked(1))
	w.inconsistent(1, &events.HandoverStarted{Budget: events.WholeSeconds(10)})
}

// TestL11_ALeaseIDThatIsBeingRevokedIsNotStaged: its revocation is on its way to
// Vault, so a candidate under the same lease id is dead.
func TestL11_ALeaseIDThatIsBeingRevokedIsNotStaged(t *testing.T) {
	w := underway(t)
	w.do(leasecore.RevokeActive{Name: orders})
	w.owes("revoke/1 acquire/2")
	w.do(w.grant(2, id("L1")))
	if n := w.name(); n.Active == 2 || n.Candidate == 2 {
		t.Fatalf("lease id L1 is being revoked, and its other grant is on its way to readers:\n%s", w.state.Print())
	}
}

// TestL11_RetiredIsUsedAgain: a lease id whose lease is only retired lives on
// under the candidate that has it too.
func TestL11_RetiredIsUsedAgain(t *testing.T) {
	w := underway(t)
	w.rotate()
	w.activate(2, id("L1"), fingerprint("f2"))
	says(t, w.pass(5*time.Second), "retired/1 revoked/1")
	if r, _ := last[*events.Revoked](w); !r.Shared {
		t.Fatal("Vault was asked to revoke the lease in use")
	}
	w.active(2)
}

// TestC17_AnAccountWithoutLeaseIsNotReadEachPoll: every reading makes another
// account, so the fallback interval counts; what is only kept somewhere is polled.
func TestC17_AnAccountWithoutLeaseIsNotReadEachPoll(t *testing.T) {
	for path, interval := range map[string]time.Duration{
		"database/creds/app":    2 * time.Minute,
		"secret/data/creds/app": 5 * time.Second,
		"secret/app":            5 * time.Second,
	} {
		w := begin(t, func(d *events.Definition) { d.Path, d.FallbackTTL = path, events.WholeSeconds(120) })
		w.activate(1, id(""), ttl("0"))
		a, _ := last[*events.Acquired](w)
		if making := path == "database/creds/app"; (a.Suspect != "") != making {
			t.Errorf("%s: suspect %q", path, a.Suspect)
		}
		at, ok := w.state.Wake(w.name().Name, w.now)
		if wait := at.Sub(w.now); !ok || wait > interval || wait < interval*85/100 {
			t.Errorf("%s: read again in %s, at most a tenth before %s", path, wait, interval)
		}
	}
}
