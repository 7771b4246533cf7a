package leasecore_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
)

// Renewal and what drives it: L29 to L39.

// TestL35_BackoffByAttempt: 1, 2, 4, 8, 16, 32, 60, 60 s; the count stops at 7 (L4, L25,
// L35).
func TestL35_BackoffByAttempt(t *testing.T) {
	want := []time.Duration{0, 1, 2, 4, 8, 16, 32, 60, 60, 60}
	for attempt, seconds := range want {
		if got := leasecore.Backoff(attempt); got != seconds*time.Second {
			t.Errorf("after attempt %d: %v, want %ds", attempt, got, seconds)
		}
	}
	w := begin(t)
	for i := 1; i <= 9; i++ {
		w.do(leasecore.AcquireDone{Name: orders, Lease: uint64(i), Err: went("down")})
		p := w.name().Pending
		if wait := p.At.Sub(w.now); wait != want[i]*time.Second || p.Attempt != min(i, leasecore.MaxAttempt) {
			t.Fatalf("failure %d: attempt %d, retry in %v", i, p.Attempt, wait)
		}
		w.wakes(want[i] * time.Second)
		w.pass(want[i] * time.Second)
	}
}

// TestL35_VaultMayAskForMore: its Retry-After is honoured, and does not shorten.
func TestL35_VaultMayAskForMore(t *testing.T) {
	for asked, waits := range map[time.Duration]time.Duration{30 * time.Second: 30 * time.Second, time.Millisecond: time.Second} {
		w := begin(t)
		w.do(leasecore.AcquireDone{Name: orders, Lease: 1, Err: &leasecore.Failed{Failure: failure("quota"), RetryAfter: asked}})
		if got := w.name().Pending.At.Sub(w.now); got != waits {
			t.Errorf("asked to wait %v: waits %v, want %v", asked, got, waits)
		}
	}
}

// TestL35_AttemptsAreOfPathAndConnection: another one begins anew.
func TestL35_AttemptsAreOfPathAndConnection(t *testing.T) {
	for what, edit := range map[string]setting{"path": at("new"), "connection": in("second")} {
		w := begin(t)
		for no := uint64(1); no <= 3; no++ {
			w.do(leasecore.AcquireDone{Name: orders, Lease: no, Err: went("down")})
			w.pass(time.Minute)
		}
		if r, _ := last[*events.Requested](w); r.Attempt != 4 {
			t.Fatalf("attempt %d, want 4", r.Attempt)
		}
		w.define1(edit)
		w.do(leasecore.AcquireDone{Name: orders, Lease: 4, Err: went("down")})
		w.settle()
		if r, _ := last[*events.Requested](w); r.Attempt != 1 {
			t.Fatalf("another %s: attempt %d, want 1", what, r.Attempt)
		}
	}
}

// TestL35_NothingIsPlannedForWhatWasReplaced: the renewal of a lease that has a
// successor by now fails; the name plans nothing.
func TestL35_NothingIsPlannedForWhatWasReplaced(t *testing.T) {
	w := underway(t, consumed)
	w.rotate()
	w.offer(2)
	w.do(w.answer("A", true))
	says(t, w.do(w.notRenewed(1, refusedBy("permission"))), "renew-failed/1")
	if n := w.name(); n.Pending != nil || n.Successor != "" {
		t.Fatalf("the name plans something:\n%s", w.state.Print())
	}
	w.confirm("A")
	w.pass(5 * time.Second)
	w.refuses(w.notRenewed(1, went("down")), leasecore.ErrStale)
}

// TestL29_OneOfTheTwo: a renewal that waits for its retry is not tried before,
// then once, and never together with an acquisition that replaces it.
func TestL29_OneOfTheTwo(t *testing.T) {
	w := underway(t)
	w.pass(300 * time.Second)
	w.owes("renew/1")
	says(t, w.do(w.notRenewed(1, went("timeout"))), "renew-failed/1")
	w.owes("")
	w.wakes(time.Second)
	says(t, w.pass(time.Second), "")
	w.owes("renew/1")
	says(t, w.do(w.notRenewed(1, refusedBy("permission"))), "renew-failed/1 requested/2")
	w.owes("acquire/2")
	w.pass(2 * time.Second)
	w.owes("acquire/2")
}

// TestL30_RenewOrAcquire: what is renewable and unexpired is renewed, anything
// else is acquired afresh.
func TestL30_RenewOrAcquire(t *testing.T) {
	for what, c := range map[string]struct {
		lease       []detail
		after       time.Duration
		says, owes  string
		reason      string
		stillActive uint64
	}{
		"renewable":            {nil, 300 * time.Second, "", "renew/1", "", 1},
		"renewable, not due":   {nil, 269 * time.Second, "", "", "", 1},
		"not renewable":        {[]detail{unrenewable}, 300 * time.Second, "requested/2", "acquire/2", events.ReasonDue, 1},
		"not renewable, young": {[]detail{unrenewable}, 269 * time.Second, "", "", "", 1},
		"expired":              {nil, 600 * time.Second, "expired/1 revoking/1 requested/2", "revoke/1 acquire/2", events.ReasonExpired, 0},
	} {
		t.Run(what, func(t *testing.T) {
			w := begin(t)
			w.activate(1, c.lease...)
			says(t, w.pass(c.after), c.says)
			w.owes(c.owes)
			w.active(c.stillActive)
			if r, _ := last[*events.Requested](w); c.reason != "" && r.Reason != c.reason {
				t.Fatalf("requested because of %q, want %q", r.Reason, c.reason)
			}
		})
	}
}

// TestL30_HalfOfTheLife, or the definition's fraction of it, less a spread of at
// most a tenth that depends on the lease alone: a replay gives the same.
func TestL30_HalfOfTheLife(t *testing.T) {
	granted := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	rapid.Check(t, func(rt *rapid.T) {
		l := leasecore.Lease{
			No: rapid.Uint64Range(1, 1<<40).Draw(rt, "no"), LeaseID: rapid.StringMatching("[a-z/]{1,20}").Draw(rt, "id"),
			GrantedAt: granted, TTL: time.Duration(rapid.Int64Range(int64(time.Second), int64(365*24*time.Hour)).Draw(rt, "ttl")),
		}
		percent := rapid.IntRange(1, 99).Draw(rt, "percent")
		fraction := events.WholeSeconds(int64(percent)).Mul(events.MustSeconds("0.01"))
		due, ends := l.RenewalDue(fraction)
		point := l.TTL / 100 * time.Duration(percent)
		after := due.Sub(granted)
		if !ends || after > point+100 || after < point-point/10-100 {
			rt.Fatalf("at %s of %v: after %v, want within a tenth below %v", fraction, l.TTL, after, point)
		}
		again := l
		if at, _ := again.RenewalDue(fraction); !at.Equal(due) {
			rt.Fatalf("due at %v, then at %v", due, at)
		}
	})
}

// TestL30_TheSpreadSpreads: leases of one instant are not renewed in one.
func TestL30_TheSpreadSpreads(t *testing.T) {
	var dues []time.Time
	for no := range uint64(100) {
		l := leasecore.Lease{No: no, LeaseID: "database/creds/orders/x", TTL: time.Hour}
		due, _ := l.RenewalDue(events.MustSeconds("0.5"))
		dues = append(dues, due)
	}
	slices.SortFunc(dues, time.Time.Compare)
	if n := len(slices.Compact(dues)); n < 95 {
		t.Errorf("100 leases are due at %d times", n)
	}
	if width := dues[99].Sub(dues[0]); width < 2*time.Minute {
		t.Errorf("100 leases are due within %v of each other", width)
	}
}

// TestL31_ARenewalNeedsAPositiveTTL; what is nonsense is answered by acquiring.
func TestL31_ARenewalNeedsAPositiveTTL(t *testing.T) {
	for _, seconds := range []string{"0", "-1", "-0.5"} {
		w := underway(t)
		says(t, w.do(w.renewed(1, seconds)), "renew-failed/1 requested/2")
		if f, _ := last[*events.RenewFailed](w); !f.Refused || f.Kind != "malformed" {
			t.Errorf("%s s: %+v", seconds, f)
		}
		w.active(1)
		if l := w.lease(1); l.TTL != 600*time.Second {
			t.Errorf("%s s: the lease has %v", seconds, l.TTL)
		}
	}
}

// TestL31_WhatIsNotInTheAnswerIsKept: lease id, values and guard.
func TestL31_WhatIsNotInTheAnswerIsKept(t *testing.T) {
	w := begin(t)
	w.activate(1, guarded)
	before := *w.lease(1)
	w.pass(300 * time.Second)
	says(t, w.do(w.renewed(1, "600")), "renewed/1")
	after := w.lease(1)
	if after.LeaseID != before.LeaseID || after.Fingerprint != before.Fingerprint || after.Guard != before.Guard || after.GuardTTL != before.GuardTTL {
		t.Fatalf("%+v\nwas\n%+v", after, before)
	}
	if !after.GrantedAt.Equal(w.now) {
		t.Fatal("its life does not count anew")
	}
	if !after.AcquiredAt.Equal(before.GrantedAt) {
		t.Fatalf("it is said to be from %s, and was acquired at %s", after.AcquiredAt, before.GrantedAt)
	}
}

// TestL32_ANewLeaseIDIsANewOwnership: it is a candidate, and the old one goes
// after its commit.
func TestL32_ANewLeaseIDIsANewOwnership(t *testing.T) {
	w := underway(t, consumed)
	d := w.renewed(1, "600")
	d.Anew = true
	says(t, w.do(d), "renewed/1 requested/2")
	if r, _ := last[*events.Requested](w); r.Reason != events.ReasonAnew {
		t.Fatalf("requested because of %q", r.Reason)
	}
	w.do(w.grant(2, id("L1-anew")))
	w.is(1, "active")
	w.do(w.answer("A", true))
	w.active(2)
	w.is(1, "grace")
	w.confirm("A")
	says(t, w.pass(5*time.Second), "retired/1 revoking/1")
	w.owes("revoke/1")
}

// TestL33_ChangedValuesAreAnInstall like any other: proof, commit or roll back.
func TestL33_ChangedValuesAreAnInstall(t *testing.T) {
	for _, yes := range []bool{true, false} {
		w := underway(t, consumed, verified)
		d := w.renewed(1, "600")
		d.Anew = true
		w.do(d)
		says(t, w.do(w.grant(2, id("L1"))), "acquired/2")
		w.owes("verify/2")
		says(t, w.do(w.proven(2)), "verified/2 handover-started/2")
		w.active(1)
		w.do(w.answer("A", yes))
		w.confirm("A")
		if yes {
			w.active(2)
		} else {
			w.active(1)
			w.is(2, "")
		}
	}
}

// TestL34_RefusedOrNot: after a refusal a successor is acquired in the same
// decision; what may pass is tried again, without a second call (D6).
func TestL34_RefusedOrNot(t *testing.T) {
	for what, c := range map[string]struct {
		err  *leasecore.Failed
		says string
	}{
		"400":         {refusedBy("bad-request"), "renew-failed/1 requested/2"},
		"403":         {refusedBy("permission"), "renew-failed/1 requested/2"},
		"404":         {gone(), "expired/1 requested/2"},
		"malformed":   {refusedBy("malformed"), "renew-failed/1 requested/2"},
		"timed out":   {went("timeout"), "renew-failed/1"},
		"unreachable": {went("unreachable"), "renew-failed/1"},
		"429":         {went("quota"), "renew-failed/1"},
		"503":         {went("unavailable"), "renew-failed/1"},
	} {
		t.Run(what, func(t *testing.T) {
			w := underway(t)
			w.pass(300 * time.Second)
			says(t, w.do(w.notRenewed(1, c.err)), c.says)
			if c.err.Gone {
				w.active(0)
				return
			}
			w.active(1) // readers keep it for as long as it lives
			if c.err.Refused {
				w.owes("acquire/2")
			} else {
				w.owes("")
				w.wakes(time.Second)
			}
		})
	}
}

// TestL34_RetriesCloseUpAtTheEnd: with little life left a renewal is tried more
// often, at most once a second.
func TestL34_RetriesCloseUpAtTheEnd(t *testing.T) {
	w := underway(t)
	w.pass(300 * time.Second)
	tries := 0
	for w.name().Committed(w.now) != nil {
		if w.owed() == "renew/1" {
			w.do(w.notRenewed(1, went("timeout")))
			w.owes("")
			tries++
		}
		at, ok := w.state.Wake(orders, w.now)
		if wait := at.Sub(w.now); !ok || wait < time.Second && w.name().Committed(at) != nil || wait > leasecore.MaxBackoff {
			t.Fatalf("try %d: next look in %v", tries, wait)
		}
		w.pass(at.Sub(w.now))
	}
	if tries < 15 || tries > 40 {
		t.Fatalf("%d tries in the last 300 s", tries)
	}
}

// TestL37_AShortGrantIsTheEnd: a successor is acquired while the old one lives,
// and the old one is not renewed any more.
func TestL37_AShortGrantIsTheEnd(t *testing.T) {
	w := underway(t)
	w.pass(300 * time.Second)
	says(t, w.do(w.renewed(1, "599.999999999")), "renewed/1 requested/2")
	if r, _ := last[*events.Requested](w); r.Reason != events.ReasonShortGrant {
		t.Fatalf("requested because of %q", r.Reason)
	}
	w.active(1)
	w.owes("acquire/2")
	w.pass(400 * time.Second)
	w.owes("acquire/2")
	w.active(1)

	w = underway(t)
	w.pass(300 * time.Second)
	says(t, w.do(w.renewed(1, "600")), "renewed/1")
	says(t, w.do(w.renewed(1, "601")), "renewed/1")
}

// TestC23_TheEndOfOurTokenIsNoMaxTTL: a lease that is bounded by our own token is
// renewed again before that, and no successor is asked for, which would hang on it too.
func TestC23_TheEndOfOurTokenIsNoMaxTTL(t *testing.T) {
	w := underway(t)
	w.pass(300 * time.Second)
	bound := w.renewed(1, "400")
	bound.BoundByToken = true
	says(t, w.do(bound), "renewed/1")
	w.owes("")
	w.pass(200 * time.Second)
	w.owes("renew/1")
	says(t, w.do(w.renewed(1, "600")), "renewed/1") // our token was renewed
	w.owes("")
	w.pass(300 * time.Second)
	says(t, w.do(w.renewed(1, "399")), "renewed/1 requested/2")
}

// TestL37_AGuardThatFallsShort ends the lease as surely as its own max TTL: a
// successor is acquired while it lives.
func TestL37_AGuardThatFallsShort(t *testing.T) {
	w := begin(t)
	w.activate(1, guarded, ttl("3600"))
	w.pass(1800 * time.Second)
	d := w.renewed(1, "3600")
	d.Renewed.GuardTTL = events.WholeSeconds(900) // its token is at its max TTL
	w.do(d)
	for range 20 { // each extension grants what is left
		if w.name().Candidate != 0 {
			w.active(1)
			return
		}
		at, ok := w.state.Wake(orders, w.now)
		if !ok {
			t.Fatal("nothing is due any more")
		}
		left := 900*time.Second - at.Sub(d.Renewed.SentAt)
		w.pass(at.Sub(w.now))
		if w.owed() == "renew/1" {
			r := w.renewed(1, "3600")
			r.Renewed.GuardTTL = events.FromDuration(left)
			w.do(r)
		}
	}
	t.Fatalf("renewed to the end of its guard, and no successor:\n%s", w.state.Print())
}

// TestL38_PolledAndUnchanged: every 5 s, a spread earlier, and nothing happens.
func TestL38_PolledAndUnchanged(t *testing.T) {
	w := begin(t, kind(events.KindKV))
	w.activate(1, secret)
	before := len(w.log)
	for range 10 {
		at, ok := w.state.Wake(orders, w.now)
		if wait := at.Sub(w.now); !ok || wait < 4500*time.Millisecond || wait > 5*time.Second {
			t.Fatalf("read again in %v", wait)
		}
		w.owes("")
		w.pass(at.Sub(w.now))
		w.owes("poll/1")
		w.state.Polled(orders, w.now, false, 0)
		says(t, w.do(leasecore.PollDone{Name: orders, Lease: 1, Fingerprint: "f1"}), "")
	}
	if len(w.log) != before {
		t.Fatal("unchanged readings are in the log")
	}
}

// TestL38_ChangedIsAnInstall like any other.
func TestL38_ChangedIsAnInstall(t *testing.T) {
	w := begin(t, kind(events.KindKV), consumed)
	w.register("A")
	w.activate(1, secret)
	says(t, w.do(leasecore.PollDone{Name: orders, Lease: 1, Fingerprint: "f2"}), "changed/1 requested/2")
	says(t, w.do(w.grant(2, secret)), "acquired/2 handover-started/2")
	w.owes("prepare/2->A")
	w.do(w.answer("A", false))
	w.active(1)
	w.confirm("A")
	w.active(1)
}

// TestL38_AFailingReadingIsPaced.
func TestL38_AFailingReadingIsPaced(t *testing.T) {
	w := begin(t, kind(events.KindKV))
	w.activate(1, secret)
	for _, seconds := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		w.state.Polled(orders, w.now, true, 0)
		w.wakes(seconds * time.Second)
		w.pass(seconds * time.Second)
		w.owes("poll/1")
	}
	w.active(1)
}

// TestL38_ItNeverExpires, whatever duration came with it (a KV mount of version
// 1 sends one of 32 days), and is not read in a loop.
func TestL38_ItNeverExpires(t *testing.T) {
	w := begin(t, kind(events.KindKV))
	w.do(w.grant(1, secret, ttl("2764800")))
	w.active(1)
	w.pass(20 * 24 * time.Hour)
	if n := w.name(); n.Candidate != 0 {
		t.Errorf("after 20 days it is acquired anew:\n%s", w.state.Print())
		w.do(w.grant(2, secret, fingerprint("f1")))
		if n.Candidate != 0 {
			t.Errorf("unchanged, and acquired at once again, as fast as Vault answers:\n%s", w.state.Print())
		}
	}
	w.pass(20 * 24 * time.Hour)
	w.active(1)
}

// TestL38_TheGuardOfAReadingDoesNotEndIt.
func TestL38_TheGuardOfAReadingDoesNotEndIt(t *testing.T) {
	w := begin(t, kind(events.KindKV))
	w.activate(1, guarded, secret)
	w.owes("")
	says(t, w.pass(24*time.Hour), "")
	w.active(1)
}

// TestL39_ItsOwnClockDrivesTheNextRead: once it has turned, not every 5 s.
func TestL39_ItsOwnClockDrivesTheNextRead(t *testing.T) {
	w := begin(t, consumed)
	w.register("A")
	w.activate(1, secret, rereadIn("3600"))
	w.wakes(3601 * time.Second)
	w.pass(3601*time.Second - 1)
	w.owes("")
	w.pass(1)
	w.owes("poll/1")
	w.state.Polled(orders, w.now, false, 100*time.Second) // what its clock says now
	w.owes("")
	w.wakes(101 * time.Second)
	w.state.Polled(orders, w.now, false, 2*time.Second) // sooner than it would be polled
	w.wakes(3 * time.Second)
	// What was before is dead: there is no way back, so nobody is asked.
	says(t, w.do(leasecore.PollDone{Name: orders, Lease: 1, Fingerprint: "f2"}), "changed/1 requested/2")
	says(t, w.do(w.grant(2, secret, rereadIn("3600"))), "acquired/2 handover-started/2 installed/2")
	if i, _ := last[*events.Installed](w); i.Proof != events.ProofForward {
		t.Fatalf("proof %q", i.Proof)
	}
	w.owes("tell/2->A")
}
