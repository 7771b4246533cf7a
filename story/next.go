package story

import (
	"fmt"
	"slices"
	"time"

	"github.com/leasesvc/leasesvc/leasecore"
)

// Step is something that will happen to a name if nothing else does.
type Step struct {
	// At is when; zero: it waits for somebody, not for a time.
	At   time.Time `json:"at,omitzero"`
	Says string    `json:"says"`
}

// Next tells what a name waits for at now, in the order of time; what waits for
// an answer comes first.
func Next(s *leasecore.State, name string, now time.Time) []Step {
	n := s.Name(name)
	if n == nil {
		return nil
	}
	var steps []Step
	add := func(at time.Time, format string, args ...any) {
		steps = append(steps, Step{At: at, Says: fmt.Sprintf(format, args...)})
	}
	if p := n.Pending; p != nil && n.Candidate == 0 && p.At.After(now) {
		add(p.At, "a lease is asked for again; the last attempt failed (%s): %s", p.Failure.Kind, p.Failure.Message)
	}
	handover(n, add)
	for i := range n.Leases {
		lease(n, &n.Leases[i], add)
	}
	slices.SortStableFunc(steps, func(a, b Step) int { return a.At.Compare(b.At) })
	return steps
}

func handover(n *leasecore.Name, add func(time.Time, string, ...any)) {
	h := n.Handover
	switch {
	case h == nil:
	case h.RollingBack:
		add(h.RollbackAt.Add(h.RollbackBudget), "lease %d is kept unless everybody has said that they are back from it", h.Lease)
	default:
		waiting := 0
		for _, c := range n.Consumers {
			if _, answered := h.Answers[c.ID]; !answered {
				waiting++
			}
		}
		add(h.Started.Add(h.Budget), "lease %d is rolled back unless everybody has said yes; %d of %d have not answered", h.Lease, waiting, len(n.Consumers))
	}
}

func lease(n *leasecore.Name, l *leasecore.Lease, add func(time.Time, string, ...any)) {
	what := fmt.Sprintf("lease %d", l.No)
	end, ends := l.Expires()
	switch l.State {
	case leasecore.Requested:
		add(time.Time{}, "Vault's answer to the request for %s is awaited", what)
		return
	case leasecore.Acquired:
		switch {
		case l.Guard != "" && l.LeaseID != "" && !l.GuardExtended:
			add(l.Retry.At, "the guard of %s is extended", what)
		case n.Definition != nil && n.Definition.Verifier != nil && !l.Verified:
			add(time.Time{}, "a login with %s is tried", what)
		default:
			add(time.Time{}, "%s is handed over", what)
		}
	case leasecore.Grace:
		add(l.Replaced.RetireAt, "%s, which was replaced, is revoked at the latest; sooner once everybody has confirmed that they follow, and the last promise to readers has passed", what)
	case leasecore.Kept:
		add(time.Time{}, "%s was rolled back and is kept until everybody has confirmed that they are back", what)
	case leasecore.Retired, leasecore.Revoking:
		add(l.Retry.At, "%s is revoked", what)
		return
	}
	if ends && l.State == leasecore.Active && n.Definition != nil {
		if due, ok := l.RenewalDue(n.Definition.RenewAt); ok {
			if l.Retry.Attempt > 0 && l.Retry.At.After(due) {
				due = l.Retry.At
			}
			if l.Renewable && !l.Short && l.LeaseID != "" {
				add(due, "%s is renewed", what)
			} else {
				add(due, "a successor of %s is asked for", what)
			}
		}
	}
	if ends {
		add(end, "%s ends unless it is renewed or replaced", what)
	}
}
