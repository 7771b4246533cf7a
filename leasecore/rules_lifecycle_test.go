package leasecore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
)

// Lifecycle, adoption, readers: L47 to L55.

// TestL47_TheWorkOfAnEarlierEpochIsOver: what it intended is not owed, and what
// it asked for is not waited for.
func TestL47_TheWorkOfAnEarlierEpochIsOver(t *testing.T) {
	w := underway(t, consumed)
	w.rotate()
	w.offer(2)
	asked := w.answer("A", true)
	w.owes("prepare/2->A")
	w.open(20, "b")
	w.owes("") // before anything is decided: nobody is asked under the old n
	w.settle()
	w.refuses(asked, leasecore.ErrStale)
	if got := w.state.Confirmed(orders, "A"); got != 0 {
		t.Fatalf("n=%d is still confirmed", got)
	}
}

// TestL48_EverythingOwnedIsRevoked, whatever it is to its name.
func TestL48_EverythingOwnedIsRevoked(t *testing.T) {
	w := unsafe(t, unrenewable)
	w.pass(580 * time.Second)
	w.offer(3) // active, kept and handing over
	w.draining = true
	says(t, w.do(leasecore.Shutdown{}), "retired/1 retired/2 retired/3 revoking/1 revoking/2 revoking/3")
	w.owes("revoke/1 revoke/2 revoke/3 tell/0->A")
	w.active(0)
	if n := w.name(); n.Candidate != 0 || n.Handover != nil {
		t.Fatalf("something is in flight:\n%s", w.state.Print())
	}
	says(t, w.pass(time.Hour), "")
	// What could not be revoked stays on record for the next start.
	w.do(w.revoked(1))
	w.do(w.revoked(2))
	w.do(leasecore.RevokeDone{Name: orders, Lease: 3, Err: went("down")})
	says(t, w.do(leasecore.Release{Holder: "a", Shutdown: true}), "released")
	w.draining = false
	w.open(20, "b")
	w.pass(time.Second)
	w.is(3, "revoking")
	if got := w.owed(); got != "revoke/3 acquire/4 tell/0->A" && got != "revoke/3 tell/0->A" {
		t.Fatalf("owed is %q", got)
	}
}

// TestL48_IgnoresBackOff: what failed to be revoked is tried again at once.
func TestL48_IgnoresBackOff(t *testing.T) {
	w := underway(t)
	w.do(leasecore.RevokeActive{Name: orders})
	for range 7 {
		w.do(leasecore.RevokeDone{Name: orders, Lease: 1, Err: went("down")})
	}
	w.activate(2)
	w.owes("")
	w.draining = true
	w.do(leasecore.Shutdown{})
	w.owes("revoke/1 revoke/2")
}

// TestL50_AResetForgetsWithoutRevoking: a state is memory. Dropping it intends
// and owes nothing, and the log brings everything back.
func TestL50_AResetForgetsWithoutRevoking(t *testing.T) {
	w := unsafe(t)
	before := w.state.Print()
	fresh := leasecore.NewState("prod")
	if fresh.Len() != 0 || len(fresh.Owed(orders, w.now)) != 0 {
		t.Fatal("an empty state owes something")
	}
	evs, err := leasecore.Decide(leasecore.NewDraft(fresh), leasecore.At{Now: w.now, ID: "x"}, leasecore.Tick{Name: orders})
	if err != nil || len(evs) > 0 {
		t.Fatalf("an empty state decides %s, %v", said(evs), err)
	}
	for i := range w.log {
		if err := fresh.Apply(&w.log[i]); err != nil {
			t.Fatal(err)
		}
	}
	if after := fresh.Print(); after != before {
		t.Fatalf("the log gives\n%s\nwhat was forgotten is\n%s", after, before)
	}
}

// TestL51_AdoptedIsTrackedThenHandedOver to everybody; what fails is retired and
// its retry planned.
func TestL51_AdoptedIsTrackedThenHandedOver(t *testing.T) {
	w := underway(t, consumed)
	a := adoption(w, "X")
	a.Lease-- // its values would be under another lease's number
	w.refuses(a, leasecore.ErrNumber)
	a = adoption(w, "X")
	a.Adopted.Keys = []string{"username"}
	w.refuses(a, leasecore.ErrUnfit)
	a = adoption(w, "X")
	a.Adopted.Vault = "second" // the definition was changed meanwhile
	w.refuses(a, leasecore.ErrUnfit)
	a = adoption(w, "X")
	a.Name = "nobody"
	w.refuses(a, leasecore.ErrUnknownName)

	says(t, w.do(adoption(w, "X")), "adopted/2 handover-started/2")
	if l := w.lease(2); l.LeaseID != "X" || l.Guard != "" || l.Vault != "main" || l.Path != "database/creds/orders" {
		t.Fatalf("tracked is %+v", l)
	}
	says(t, w.do(w.answer("A", false)), "prepared/2 rollback-started/2")
	says(t, w.confirm("A"), "rolled-back/2 revoking/2")
	w.owes("revoke/2")
	if w.name().Pending == nil {
		t.Fatal("no retry is planned")
	}
	w.do(w.revoked(2))
	w.do(adoption(w, "Y"))
	w.do(w.answer("A", true))
	w.active(3)
	w.confirm("A")
	says(t, w.pass(5*time.Second), "retired/1 revoking/1")
}

// TestL52_ReissueAll asks for successors of the active leases; what waits or is
// on its way goes on.
func TestL52_ReissueAll(t *testing.T) {
	w := newWorld(t)
	w.open(10, "a")
	names := []string{"a", "b", "c", "d"}
	defs := map[string]events.Definition{}
	for _, n := range names {
		defs[n] = definition(n)
	}
	w.defineAll(defs)
	for i, n := range names[:3] {
		d := w.grant(uint64(i + 1))
		d.Name = n
		w.do(d)
	}
	w.do(leasecore.Rotate{Name: "b"}) // on its way
	w.do(leasecore.Rotate{Name: "c"})
	w.do(leasecore.AcquireDone{Name: "c", Lease: 6, Err: went("down")}) // waits
	says(t, w.do(leasecore.Reissue{}), "a:requested/7")
	if r, _ := last[*events.Requested](w); r.Reason != events.ReasonReissue || r.Replaces != 1 {
		t.Fatalf("%+v", r)
	}
	if l := w.state.Name("a").Committed(w.now); l == nil || l.No != 1 {
		t.Fatal("the lease before is gone already")
	}
	if over := w.state.PassedOver(w.now); len(over) != 1 || !strings.HasPrefix(over[0], "c: the last attempt failed (down)") {
		t.Fatalf("passed over is %q", over)
	}
}

// TestL52_ItIsAskedForUntilThereIsOne: an attempt that comes to nothing is made
// again, one that the consumers refuse is not.
func TestL52_ItIsAskedForUntilThereIsOne(t *testing.T) {
	for reason, c := range map[string]leasecore.Command{
		events.ReasonReissue: leasecore.Reissue{}, events.ReasonRotate: leasecore.Rotate{Name: orders},
	} {
		w := underway(t, consumed)
		says(t, w.do(c), "requested/2")
		says(t, w.do(leasecore.AcquireDone{Name: orders, Lease: 2, Err: went("transient")}), "acquire-failed/2")
		says(t, w.takeOver(), "")
		says(t, w.pass(time.Second), "requested/3")
		if r, _ := last[*events.Requested](w); r.Reason != reason || r.Replaces != 1 {
			t.Fatalf("%+v", r)
		}
		w.offer(3)
		w.do(w.answer("A", false))
		says(t, w.confirm("A"), "rolled-back/3 revoking/3")
		says(t, w.pass(time.Minute), "")
		w.active(1)
	}
}

// TestL52_ReissueOne is a rotation; without an active lease to replace nothing is
// different.
func TestL52_ReissueOne(t *testing.T) {
	w := underway(t)
	says(t, w.do(leasecore.Rotate{Name: orders}), "requested/2")
	if r, _ := last[*events.Requested](w); r.Replaces != 1 {
		t.Fatalf("replaces %d", r.Replaces)
	}
	w.refuses(leasecore.Rotate{Name: "nobody"}, leasecore.ErrUnknownName)
}

// TestL53_ExpiredIsNeverHandedOut: not for an instant, by lease or by guard.
func TestL53_ExpiredIsNeverHandedOut(t *testing.T) {
	w := underway(t)
	w.now = w.now.Add(600*time.Second - 1)
	w.active(1)
	w.now = w.now.Add(1)
	w.active(0) // before anybody has decided anything

	w = begin(t)
	w.do(w.grant(1, guarded))
	x := w.extended(1)
	x.Granted = events.WholeSeconds(100)
	w.do(x)
	w.now = w.now.Add(100*time.Second - 1)
	w.active(1)
	w.now = w.now.Add(1)
	w.active(0)
}

// TestL53_ATermCountsFromBeforeTheRequest: what the answer took is not life.
func TestL53_ATermCountsFromBeforeTheRequest(t *testing.T) {
	w := begin(t)
	d := w.grant(1)
	w.pass(8 * time.Second)
	w.do(d)
	w.pass(592*time.Second - 1)
	w.active(1)
	w.now = w.now.Add(1)
	w.active(0)
}

// TestL55_TheCountIsOfUsableOnes.
func TestL55_TheCountIsOfUsableOnes(t *testing.T) {
	w := newWorld(t)
	w.open(10, "a")
	w.defineAll(map[string]events.Definition{"a": definition("a"), "b": definition("b"), "c": definition("c")})
	for i, n := range []string{"a", "b"} {
		d := w.grant(uint64(i+1), ttl([]string{"600", "60"}[i]), unrenewable)
		d.Name = n
		w.do(d)
	}
	count := func() (usable int) {
		for n := range w.state.Names() {
			if n.Committed(w.now) != nil {
				usable++
			}
		}
		return usable
	}
	if got := count(); got != 2 || w.state.Len() != 3 {
		t.Fatalf("%d of %d are usable, want 2 of 3", got, w.state.Len())
	}
	w.now = w.now.Add(60 * time.Second)
	if got := count(); got != 1 {
		t.Fatalf("%d are usable, want 1", got)
	}
}
