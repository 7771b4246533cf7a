package web

import (
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
)

// Line is one step of a name's story.
type Line struct {
	Seq   uint64 `json:"seq"`
	At    int64  `json:"at"`
	Lease uint64 `json:"lease,omitempty"`
	Type  string `json:"type"`
	Says  string `json:"says"`
	// Times is how often it happened, Until when last.
	Times int    `json:"times"`
	Until int64  `json:"until,omitempty"`
	Actor string `json:"actor,omitempty"`
}

// Step is something that comes next if nothing else does; without At it waits
// for somebody.
type Step struct {
	At   int64  `json:"at,omitempty"`
	Says string `json:"says"`
}

// sentence says one event.
func sentence(e *events.Event) string { return events.Sentence(e) }

// tell tells the events of a name, in the order of the log, what repeats once.
func tell(log []events.Event) []Line {
	lines := []Line{}
	for i := range log {
		e := &log[i]
		l := Line{Seq: e.Seq, At: e.Time.UnixMilli(), Lease: e.Lease, Type: string(e.Type()), Says: sentence(e), Times: 1}
		if e.Actor.Claimed || e.Actor.Key != "" {
			l.Actor = e.Actor.Name
		}
		if n := len(lines); n > 0 && repeats(&lines[n-1], &l) {
			last := &lines[n-1]
			last.Times, last.Until, last.Says = last.Times+1, l.At, l.Says
			continue
		}
		lines = append(lines, l)
	}
	return lines
}

func repeats(last, next *Line) bool {
	switch events.Type(next.Type) {
	case events.TypeRenewed, events.TypeRenewFailed, events.TypeRevokeFailed, events.TypeOpened:
		return last.Type == next.Type && last.Lease == next.Lease && last.Actor == next.Actor
	default:
		return false
	}
}

// next gives what comes next for a name at a moment.
func next(s *leasecore.State, name string, now time.Time) []Step {
	n := s.Name(name)
	if n == nil {
		return []Step{}
	}
	steps := []Step{{Says: s.Story(name, now)}}
	if p := n.Pending; p != nil && p.At.After(now) {
		steps = append(steps, Step{At: p.At.UnixMilli(), Says: "a lease is asked for again"})
	}
	for i := range n.Leases {
		l := &n.Leases[i]
		if l.State == leasecore.Active && n.Definition != nil {
			if due, ok := l.RenewalDue(n.Definition.RenewAt); ok {
				steps = append(steps, Step{At: due.UnixMilli(), Says: "the active lease is renewed, or a successor is asked for"})
			}
		}
		if l.State == leasecore.Grace {
			steps = append(steps, Step{At: l.RetireAt.UnixMilli(), Says: "the replaced lease is revoked at the latest"})
		}
		if end, ok := l.Expires(); ok && l.State != leasecore.Revoking && l.State != leasecore.Retired {
			steps = append(steps, Step{At: end.UnixMilli(), Says: "the lease (" + l.State.String() + ") ends unless it is renewed or replaced"})
		}
	}
	return steps
}
