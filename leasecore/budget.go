package leasecore

import (
	"time"

	"github.com/leasesvc/leasesvc/events"
)

// Acquisitions that come to nothing are budgeted per name and per scope, so that
// a consumer which says no for ever does not cost thousands of credentials
// (C34). The budget is a bucket that fills evenly: Spent is when it would be
// full again. What is installed in the end costs nothing.

// scopeAcquisitionsPerHour is the scope's budget.
const scopeAcquisitionsPerHour = 3600

// interval is how long one acquisition takes to be earned back.
func interval(perHour int) time.Duration { return time.Hour / time.Duration(max(perHour, 1)) }

// spend takes one acquisition from both budgets.
func spend(h *Head, n *Name, now time.Time) {
	h.Spent = spent(h.Spent, now, interval(scopeAcquisitionsPerHour))
	if n.Definition != nil {
		n.Spent = spent(n.Spent, now, interval(n.Definition.AcquisitionsPerHour))
	}
}

func spent(until, now time.Time, each time.Duration) time.Time {
	if until.Before(now) {
		until = now
	}
	return until.Add(each)
}

// unspend gives back what an acquisition took that Vault was not asked for.
func unspend(h *Head, n *Name) {
	h.Spent = h.Spent.Add(-interval(scopeAcquisitionsPerHour))
	if n.Definition != nil {
		n.Spent = n.Spent.Add(-interval(n.Definition.AcquisitionsPerHour))
	}
}

// refund gives back what an installed lease has cost: the name's budget is
// whole again, since something worked.
func refund(h *Head, n *Name) {
	n.Spent = time.Time{}
	h.Spent = h.Spent.Add(-interval(scopeAcquisitionsPerHour))
}

// afford gives when the budgets allow the next acquisition; not after now:
// they do.
func afford(h *Head, def *events.Definition, n *Name, now time.Time) (at time.Time, whose string) {
	if at = affordable(n.Spent, def.AcquisitionsPerHour); at.After(now) {
		return at, "the name"
	}
	return affordable(h.Spent, scopeAcquisitionsPerHour), "the scope"
}

// affordable gives when a bucket holds one again: a whole hour's worth can be
// spent at once.
func affordable(until time.Time, perHour int) time.Time {
	if until.IsZero() {
		return until
	}
	return until.Add(interval(perHour)).Add(-time.Hour)
}
