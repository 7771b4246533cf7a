package web

import (
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/story"
)

// Line is one step of a name's story, as explain tells it.
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

// tell tells the life of a name from its events and its scope's.
func tell(name string, log []events.Event) []Line {
	life := story.NewLife(name)
	for i := range log {
		life.See(&log[i])
	}
	all, _ := life.Lines()
	lines := make([]Line, 0, len(all))
	for _, l := range all {
		line := Line{Seq: l.Seq, At: l.Time.UnixMilli(), Lease: l.Lease, Type: string(l.Type), Says: l.Says, Times: l.Times, Actor: l.Actor}
		if l.Times > 1 {
			line.Until = l.Until.UnixMilli()
		}
		lines = append(lines, line)
	}
	return lines
}

// next gives what comes next for a name at a moment: what it does in a few words,
// then each step.
func next(s *leasecore.State, name string, now time.Time) []Step {
	steps := []Step{}
	if s.Name(name) == nil {
		return steps
	}
	for _, n := range story.Next(s, name, now) {
		step := Step{Says: n.Says}
		if !n.At.IsZero() {
			step.At = n.At.UnixMilli()
		}
		steps = append(steps, step)
	}
	if len(steps) == 0 {
		steps = append(steps, Step{Says: s.Story(name, now)})
	}
	return steps
}
