package leasecore_test

import (
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
)

// A hand-over near the active lease's end.

// TestTheActiveOneIsRenewedFirst, if it would not live until the hand-over has
// been rolled back; tried once, whatever comes of it.
func TestTheActiveOneIsRenewedFirst(t *testing.T) {
	for what, renewed := range map[string]func(*world) leasecore.Command{
		"renewed": func(w *world) leasecore.Command { return w.renewed(1, "600") },
		"not":     func(w *world) leasecore.Command { return w.notRenewed(1, went("timeout")) },
	} {
		t.Run(what, func(t *testing.T) {
			w := underway(t, consumed)
			w.pass(586 * time.Second) // prepare and roll back take 15
			w.do(w.notRenewed(1, went("timeout")))
			w.rotate()
			says(t, w.do(w.grant(2)), "acquired/2")
			w.pass(time.Second)
			w.owes("renew/1")
			evs := w.do(renewed(w))
			if got := said(evs); got != "renewed/1 handover-started/2" && got != "renew-failed/1 handover-started/2" {
				t.Fatalf("decided was %q", got)
			}
		})
	}
	// With time enough nothing is renewed before.
	w := underway(t, consumed)
	w.pass(200 * time.Second)
	w.rotate()
	says(t, w.do(w.grant(2)), "acquired/2 handover-started/2")
}

// TestRatherThanNone: with the active lease at its end, silence does not lose
// both: somebody's yes or our own login is enough. A no is still a no.
func TestRatherThanNone(t *testing.T) {
	asked := func(t *testing.T, set ...setting) *world {
		w := begin(t, append(set, consumed)...)
		w.register("A")
		w.register("B")
		w.activate(1, ttl("100"), unrenewable)
		w.pass(50 * time.Second)
		w.pass(38 * time.Second)
		w.offer(2)
		return w
	}
	w := asked(t, verified)
	says(t, w.pass(10*time.Second), "installed/2")
	if i, _ := last[*events.Installed](w); i.Proof != events.ProofRather {
		t.Fatalf("proof %q", i.Proof)
	}
	w = asked(t)
	w.do(w.answer("A", true))
	says(t, w.pass(10*time.Second), "installed/2")

	says(t, asked(t).pass(10*time.Second), "rollback-started/2")

	w = asked(t, verified)
	says(t, w.do(w.answer("A", false)), "prepared/2 rollback-started/2")

	// Without a lease before none is lost.
	w = begin(t, consumed, verified)
	w.register("A")
	w.offer(1)
	says(t, w.pass(10*time.Second), "rollback-started/1")
}

// TestC34_TheBudgetOfAcquisitions that come to nothing: per name and per scope;
// what is installed costs nothing.
func TestC34_TheBudgetOfAcquisitions(t *testing.T) {
	few := func(d *events.Definition) { d.AcquisitionsPerHour = 3 }
	w := begin(t, few)
	for no := uint64(1); no <= 3; no++ {
		w.do(leasecore.AcquireDone{Name: orders, Lease: no, Err: went("down")})
		w.pass(60 * time.Second)
	}
	if w.state.LastLease != 3 {
		t.Fatalf("%d acquisitions", w.state.LastLease)
	}
	w.refuses(leasecore.Rotate{Name: orders}, leasecore.ErrWaiting)
	w.wakes(20*time.Minute - 180*time.Second)
	says(t, w.pass(20*time.Minute-180*time.Second), "requested/4")

	w = begin(t, few)
	w.activate(1)
	for range 20 {
		w.activate(w.rotate())
		w.pass(6 * time.Second)
	}
}
