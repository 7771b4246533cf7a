package audit

import (
	"fmt"

	"github.com/leasesvc/leasesvc/events"
)

// Kind says what kind of thing is wrong.
type Kind string

// The kinds of findings. All but the first group are events that stand in the
// log as genuine ones.
const (
	// Foreign is no event: somebody else wrote under the log's subjects.
	Foreign Kind = "not-an-event"
	// Unsigned is an event without a MAC: published by hand.
	Unsigned Kind = "unsigned"
	// Forged has a MAC that does not hold: edited, or written without the key.
	Forged Kind = "forged"
	// Edited is a forged event that the event after it follows: it was changed
	// where it stood.
	Edited Kind = "edited"

	// Missing events stood between two that are there.
	Missing Kind = "missing"
	// Moved: the event stands before the one that it follows.
	Moved Kind = "moved"
	// Inserted: the event stands between two that follow each other.
	Inserted Kind = "inserted"
	// Gap: the stream has no message under these sequences.
	Gap Kind = "gap"
	// Truncated: the log does not have what an earlier audit saw.
	Truncated Kind = "truncated"
	// Key: the MACs of an epoch can't be checked, its seal key was not given.
	Key Kind = "key"

	// Future is of a later release.
	Future Kind = "future"
	// Envelope: what is around the event contradicts it.
	Envelope Kind = "envelope"
	// Epoch is of another epoch than the one in force.
	Epoch Kind = "epoch"
	// Story does not fit what the events before it say.
	Story Kind = "story"
	// Proof: a commit without the proof that it names.
	Proof Kind = "proof"
	// Use: a lease was taken away that somebody used or may have used.
	Use Kind = "use"
	// Format: its version may not be written yet.
	Format Kind = "format"
	// Number: lease numbers are left out.
	Number Kind = "number"
)

// Finding is one thing that is wrong with the log.
type Finding struct {
	// Seq is the sequence it shows at.
	Seq  uint64 `json:"seq"`
	Kind Kind   `json:"kind"`
	// Rule is the invariant or rule that is broken; empty: the log's form.
	Rule  string      `json:"rule,omitempty"`
	Scope string      `json:"scope,omitempty"`
	Name  string      `json:"name,omitempty"`
	Lease uint64      `json:"lease,omitempty"`
	Type  events.Type `json:"type,omitempty"`
	// Says tells it to people. It holds nothing of an event's data but names,
	// numbers and states.
	Says string `json:"says"`
}

// String gives the finding as one line.
func (f *Finding) String() string {
	rule := ""
	if f.Rule != "" {
		rule = " (" + f.Rule + ")"
	}
	return fmt.Sprintf("sequence %d: %s%s: %s", f.Seq, f.Kind, rule, f.Says)
}

// about gives a finding about an event.
func about(e *events.Event, kind Kind, rule, format string, args ...any) Finding {
	return Finding{
		Seq: e.Seq, Kind: kind, Rule: rule, Scope: e.Scope, Name: e.Name, Lease: e.Lease, Type: e.Type(), Says: fmt.Sprintf(format, args...),
	}
}
