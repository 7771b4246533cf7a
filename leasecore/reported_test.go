package leasecore_test

import (
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
)

// What a consumer's report of a refused credential does (C58).

func report(lease uint64) leasecore.Reported {
	return leasecore.Reported{Name: orders, Lease: lease}
}

func TestC58_AReportHasASuccessorAskedFor(t *testing.T) {
	w := underway(t, consumed)
	says(t, w.do(report(1)), "requested/2")
	if r, _ := last[*events.Requested](w); r.Reason != events.ReasonReported || r.Replaces != 1 {
		t.Fatalf("%+v", r)
	}
	says(t, w.do(report(1)), "") // many may say so: one is on its way
	says(t, w.do(w.grant(2)), "acquired/2 handover-started/2")
	says(t, w.do(report(1)), "")
	says(t, w.do(w.answer("A", true)), "prepared/2 installed/2")
	w.active(2)
}

func TestC58_OnlyTheActiveLeaseIsReported(t *testing.T) {
	w := underway(t, consumed)
	w.rotate()
	w.offer(2)
	w.do(w.answer("A", true))
	w.refuses(report(1), leasecore.ErrStale)
	w.refuses(report(0), leasecore.ErrStale)
	w.refuses(leasecore.Reported{Name: "unheard-of", Lease: 1}, leasecore.ErrUnknownName)
}

// TestC58_ReportsCoolDown: a consumer that asks the wrong server would report
// each credential that it gets.
func TestC58_ReportsCoolDown(t *testing.T) {
	w := underway(t, consumed)
	w.do(report(1))
	w.offer(2)
	w.do(w.answer("A", true))
	w.refuses(report(2), leasecore.ErrWaiting)
	w.pass(leasecore.ReportCooldown - time.Nanosecond)
	w.refuses(report(2), leasecore.ErrWaiting)
	w.pass(time.Nanosecond)
	says(t, w.do(report(2)), "requested/3")
}

// TestC58_TheCooldownOutlivesItsHolder: it is in the log.
func TestC58_TheCooldownOutlivesItsHolder(t *testing.T) {
	w := underway(t, consumed)
	w.do(report(1))
	w.offer(2)
	w.do(w.answer("A", true))
	w.takeOver()
	w.refuses(report(2), leasecore.ErrWaiting)
}

// TestC58_ItIsAskedForUntilThereIsOne: an attempt that comes to nothing is made
// again, in its back-off.
func TestC58_ItIsAskedForUntilThereIsOne(t *testing.T) {
	w := underway(t, consumed)
	w.do(report(1))
	says(t, w.do(leasecore.AcquireDone{Name: orders, Lease: 2, Err: went("transient")}), "acquire-failed/2")
	w.refuses(report(1), nil)
	says(t, w.pass(time.Second), "requested/3")
	if r, _ := last[*events.Requested](w); r.Reason != events.ReasonReported || r.Attempt != 2 {
		t.Fatalf("%+v", r)
	}
}

// TestC58_AKeptCandidateIsNotWaitedFor: what is waited for with L22 is that the
// active lease comes to its end, and that is what the report says.
func TestC58_AKeptCandidateIsNotWaitedFor(t *testing.T) {
	w := unsafe(t)
	w.pass(time.Second)
	w.refuses(leasecore.Rotate{Name: orders}, leasecore.ErrWaiting)
	says(t, w.do(report(1)), "requested/3")
	w.is(2, "kept")
}
