package main

import (
	"context"
	"fmt"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/story"
)

type explainCmd struct {
	logSource
	output
	Name string `arg:"" help:"The name."`
	All  bool   `help:"Tell the whole story, not only its last 40 lines."`
	As   string `name:"at" placeholder:"TIME" help:"Explain how it stood then."`
}

// toldLines is how much of a story is told without --all.
const toldLines = 40

// explanation is what explain prints.
type explanation struct {
	Scope string `json:"scope"`
	Name  string `json:"name"`
	// Time is the moment that it is told for.
	Time  time.Time    `json:"time"`
	Now   string       `json:"now"`
	Next  []story.Step `json:"next"`
	Lines []story.Line `json:"story"`
	// Left counts the lines before those.
	Left int `json:"lines_left_out,omitempty"`
}

func (c explainCmd) Run(ctx context.Context) error {
	until := moment{Time: time.Now()}
	if c.As != "" {
		var err error
		if until, err = parseMoment(c.As, time.Now()); err != nil {
			return usageError{fmt.Errorf("--at: %w", err)}
		}
	}
	l, err := c.open(ctx, true)
	if err != nil {
		return err
	}
	defer l.close()
	life, names, last := story.NewLife(c.Name), map[string]bool{}, time.Time{}
	p, err := c.fold(ctx, l, func(e *events.Event) bool {
		if c.As != "" && until.before(e.Time, e.Seq) {
			return false
		}
		if names[e.Name], last = true, e.Time; e.Name != "" {
			life.See(e)
		}
		return true
	})
	if err != nil {
		return err
	}
	delete(names, events.EpochName)
	delete(names, events.DefinitionsName)
	if !names[c.Name] {
		return noSuchName(c.Name, c.Scope, names)
	}
	if until.Time.IsZero() || c.File != "" && c.As == "" { // a sequence was asked for; an export ends when it was made
		until.Time = last
	}
	out := explain(p.State(), c.Name, until.Time, life)
	if cut := len(out.Lines) - toldLines; cut > 0 && !c.All {
		out.Lines, out.Left = out.Lines[cut:], out.Left+cut
	}
	return c.print(out, out.table)
}

func explain(s *leasecore.State, name string, now time.Time, life *story.Life) explanation {
	lines, dropped := life.Lines()
	out := explanation{
		Scope: s.Scope, Name: name, Time: now.UTC().Truncate(time.Second), Lines: lines, Left: dropped, Now: s.Story(name, now), Next: story.Next(s, name, now),
	}
	if s.Name(name) == nil {
		out.Now = "it is not there any more: its definition was removed and its leases are gone"
	}
	if s.Released {
		out.Now += "; the scope has been given back and nobody leads it"
	}
	if out.Next == nil {
		out.Next = []story.Step{}
	}
	if out.Lines == nil {
		out.Lines = []story.Line{}
	}
	return out
}

func (x explanation) table(p *page) {
	p.line(bold, "%s of scope %s", x.Name, x.Scope)
	if x.Left > 0 {
		p.line(plain, "  ... %s before (--all)", events.Counted(x.Left, "line"))
	}
	day := ""
	for _, line := range x.Lines {
		if d := line.Time.UTC().Format("2006-01-02"); d != day {
			day = d
			p.line(plain, "%s (UTC)", d)
		}
		says := line.Says
		if line.Times > 1 {
			says += fmt.Sprintf(" (%d times, the last at %s)", line.Times, line.Until.UTC().Format(eventStamp[:8]))
		}
		if line.Actor != "" {
			says += " [by " + line.Actor + "]"
		}
		p.row(storyColour(line.Type), "  "+line.Time.UTC().Format(eventStamp[:8]), line.Seq, says)
	}
	p.line(bold, "Now: %s.", x.Now)
	for _, step := range x.Next {
		when := "as soon as it comes"
		if !step.At.IsZero() {
			when = fmt.Sprintf("%s (in %s)", step.At.UTC().Format("2006-01-02 15:04:05"), short(step.At.Sub(x.Time)))
			if !step.At.After(x.Time) {
				when = "now"
			}
		}
		p.row(plain, "  next", when, step.Says)
	}
}

func storyColour(t events.Type) colour {
	switch t {
	case events.TypeInstalled:
		return green
	case events.TypeRollbackStarted, events.TypeVerifyFailed, events.TypeAcquireFailed, events.TypeRevokeFailed, events.TypeExpired, events.TypeOrphaned:
		return red
	case events.TypeRenewFailed:
		return yellow
	default:
		return plain
	}
}
