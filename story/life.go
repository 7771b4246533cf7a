package story

import (
	"fmt"
	"time"

	"github.com/leasesvc/leasesvc/events"
)

// Line is one step of a name's story.
type Line struct {
	// Seq and Time are those of the first event that the line tells.
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
	// Lease is the lease that it is about; 0: the name.
	Lease uint64 `json:"lease,omitempty"`
	// Type is the event's.
	Type events.Type `json:"type"`
	Says string      `json:"says"`
	// Times is how often it happened, Until when last; 1 and zero for most.
	Times int       `json:"times"`
	Until time.Time `json:"until,omitzero"`
	// Actor is who wanted it, where that was not leasesvc itself.
	Actor string `json:"actor,omitempty"`

	short bool // a renewal that granted less than was asked for
}

// maxLines bounds how much of a life is kept: its end.
const maxLines = 2000

// Life collects a name's story. The zero value is not usable: [NewLife].
type Life struct {
	name    string
	lines   []Line
	dropped int
}

// NewLife begins the story of a name.
func NewLife(name string) *Life { return &Life{name: name} }

// See takes the next event of the scope.
func (l *Life) See(e *events.Event) {
	if e.Name != l.name && !takeover(e) {
		return
	}
	line := Line{Seq: e.Seq, Time: e.Time, Lease: e.Lease, Type: e.Type(), Says: sentence(e), Times: 1}
	if e.Actor.Claimed || e.Actor.Key != "" {
		line.Actor = e.Actor.Name
	}
	if d, ok := e.Data.(*events.Renewed); ok {
		line.short = d.Short
	}
	if n := len(l.lines); n > 0 && repeats(&l.lines[n-1], &line) {
		last := &l.lines[n-1]
		last.Times, last.Until, last.Says = last.Times+1, e.Time, line.Says
		return
	}
	l.lines = append(l.lines, line)
	if len(l.lines) > maxLines {
		l.lines = append(l.lines[:0], l.lines[maxLines/2:]...)
		l.dropped += maxLines / 2
	}
}

// takeover tells whether an event of the scope belongs into the story of a name.
func takeover(e *events.Event) bool {
	d, ok := e.Data.(*events.Opened)
	return ok && d.How != events.HowReopened
}

// repeats tells whether an event tells the same again: renewals, failures.
func repeats(last, next *Line) bool {
	switch next.Type {
	case events.TypeRenewed, events.TypeRenewFailed, events.TypeRevokeFailed, events.TypeOpened, events.TypeReleased, events.TypeRegistered:
		return last.Type == next.Type && last.Lease == next.Lease && last.Actor == next.Actor && last.short == next.short
	default:
		return false
	}
}

// sentence is the event's own, with what only a story needs.
func sentence(e *events.Event) string {
	switch d := e.Data.(type) {
	case *events.Opened:
		return fmt.Sprintf("%s leads the scope from here on, as epoch %d%s", d.Holder, e.Epoch, how[d.How])
	case *events.Requested:
		return fmt.Sprintf("lease %d is asked for at %s/%s, because %s", e.Lease, d.Vault, d.Path, reason(d.Reason))
	case *events.Retired:
		return fmt.Sprintf("lease %d is retired: %s%s", e.Lease, retired(d.Reason), cut(d.CutOff))
	default:
		return events.Sentence(e)
	}
}

var how = map[string]string{
	events.HowFresh:    ": it is the first",
	events.HowOwn:      ", after its own restart",
	events.HowReleased: ", which its predecessor gave back",
	events.HowQuiet:    ", since its predecessor was silent",

	events.HowRecovered: ": an operator decided to go on with a log that had lost something",
}

var reasons = map[string]string{
	events.ReasonFirst:         "the name has no usable lease",
	events.ReasonDue:           "the active one can't be renewed and its time is running out",
	events.ReasonShortGrant:    "the active one's last renewal granted less than was asked for: its max TTL is near",
	events.ReasonRefused:       "Vault refused to renew the active one",
	events.ReasonRotate:        "an operator asked for a rotation",
	events.ReasonDefinition:    "the definition names another path",
	events.ReasonExpired:       "the active one came to its end",
	events.ReasonRevokedByHand: "an operator revoked the active one",
	events.ReasonChanged:       "the secret has new values",
	events.ReasonAnew:          "a renewal gave another lease, or other values",
	events.ReasonReissue:       "an operator had all leases issued anew",
}

func reason(r string) string {
	if says := reasons[r]; says != "" {
		return says
	}
	return r
}

var retirements = map[string]string{
	events.RetiredReplaced:   "a later one replaced it and everybody follows that",
	events.RetiredOverdue:    "a later one replaced it, and the time for everybody to follow has passed",
	events.RetiredRolledBack: "it was rolled back and nobody is on it any more",
	events.RetiredUnproven:   "nobody was asked about it",
	events.RetiredByHand:     "an operator revoked it",
	events.RetiredRemoved:    "its definition was removed",
	events.RetiredExpired:    "its time is up",
	events.RetiredUnchanged:  "the secret is what it was",
	events.RetiredShutdown:   "the scope is being shut down",
}

func retired(r string) string {
	if says := retirements[r]; says != "" {
		return says
	}
	return r
}

func cut(off []string) string {
	if len(off) == 0 {
		return ""
	}
	return fmt.Sprintf("; cut off: %v", off)
}

// Lines gives the story so far; dropped counts the lines at its beginning that
// were too many to keep.
func (l *Life) Lines() (lines []Line, dropped int) { return l.lines, l.dropped }
