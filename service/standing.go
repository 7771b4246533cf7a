package service

import (
	"time"

	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/service/metrics"
)

// standingOf gives how a name stands, for the metrics; next is when it is looked
// at next, zero: never.
func standingOf(s *leasecore.State, n *leasecore.Name, next time.Time) *metrics.Standing {
	st := &metrics.Standing{Next: unixNanos(next)}
	if p := n.Pending; p != nil {
		st.Failed = int32(min(p.Attempt, leasecore.MaxAttempt))
	}
	for i := range n.Leases {
		l := &n.Leases[i]
		st.Failed = max(st.Failed, int32(min(l.Retry.Attempt, leasecore.MaxAttempt)))
		if int(l.State) < metrics.MaxStates {
			st.Leases[l.State]++
		}
	}
	if l := n.Lease(n.Active); l != nil {
		end, _ := l.Expires()
		st.Committed, st.Expires, st.Granted = true, unixNanos(end), unixNanos(l.GrantedAt)
		if n.Definition != nil {
			due, _ := l.RenewalDue(n.Definition.RenewAt)
			st.Due = unixNanos(due)
		}
	}
	st.Registered = int32(len(n.Consumers))
	for i := range n.Consumers {
		if s.Confirmed(n.Name, n.Consumers[i].ID) < n.N {
			st.Behind++
		}
	}
	if n.Definition != nil {
		for i := range n.Definition.Consumers {
			if c := &n.Definition.Consumers[i]; !c.Optional && !registered(n, c.Name) {
				st.Absent++
			}
		}
	}
	return st
}

// registered tells whether an instance of a consumer is registered.
func registered(n *leasecore.Name, consumer string) bool {
	for i := range n.Consumers {
		if n.Consumers[i].Consumer == consumer {
			return true
		}
	}
	return false
}

// unixNanos gives nanoseconds since 1970; 0 for no time, and for one after 2262,
// which counts as never.
func unixNanos(t time.Time) int64 {
	if t.IsZero() || t.Year() >= 2262 {
		return 0
	}
	return t.UnixNano()
}

// leaseStates are the words of a lease's states, in the order of their numbers.
func leaseStates() []string {
	out := make([]string, metrics.MaxStates)
	for i := range out {
		out[i] = leasecore.LeaseState(i).String()
	}
	return out
}
