package events

import "time"

// Type is an event type's name, as it stands in the subject and the envelope.
type Type string

// Event is one fact with its envelope.
type Event struct {
	// ID is unique: the command's id and the event's place among its events.
	ID string
	// Scope and Name say whose event it is; Name is [EpochName] for the scope
	// itself.
	Scope, Name string
	// Lease is our number of the lease, unique in its scope; 0: none.
	Lease uint64
	// Epoch is the fencing token under which the event was appended.
	Epoch uint64
	// Time is the holder's clock when it decided, in UTC.
	Time time.Time
	// Cause is the id of the event or command that this one follows from.
	Cause string
	// Actor is who wanted it.
	Actor Actor
	// Data is the fact itself; it also names the type.
	Data Data
	// Version is the one that the event is written in, or was; 0: the lowest.
	// Higher ones may be written only where the log's [Format] allows it.
	Version int

	// Seq is the event's sequence in the stream; 0 until it is stored. It is
	// not part of the encoding.
	Seq uint64
}

// Type gives the event's type.
func (e *Event) Type() Type { return e.Data.EventType() }

// Subject gives the subject the event is stored under.
func (e *Event) Subject() string { return Subject(e.Scope, e.Name, e.Type()) }

// Actor is who caused an event. A verified actor has a key whose signature was
// checked; a claimed one is only what somebody said.
type Actor struct {
	Name    string `json:"name,omitempty"`
	Key     string `json:"key,omitempty"`
	Claimed bool   `json:"claimed,omitempty"`
}

// Service is the actor of what the holder decides by itself.
func Service(holder string) Actor { return Actor{Name: "leasesvc/" + holder} }

// Data is the payload of one event type, in every version that this release
// reads.
type Data interface {
	EventType() Type
	// EventVersion is the highest of those versions.
	EventVersion() int
}
