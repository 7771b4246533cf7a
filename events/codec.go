package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// MaxEncoded bounds an encoded event, in bytes. What does not fit is a bug of
// ours or somebody else's message.
const MaxEncoded = 256 << 10

// ErrEvent is wrapped by every refusal to decode that is no [*FutureError].
var ErrEvent = errors.New("not an event")

// FutureError says that an event was written by a later release. Whoever meets
// one stays up, says so, and does not claim.
type FutureError struct {
	Seq     uint64 // 0: not stored
	Type    Type
	Version int
	Known   int // the latest version known here, 0: the type is not known
	// Format: it is no such event yet, but the format that lets it be written.
	Format bool
}

// Error implements error.
func (e *FutureError) Error() string {
	if e.Format {
		return fmt.Sprintf("the format at sequence %d lets %s be written in version %d, this release knows up to %d: run a release that does",
			e.Seq, e.Type, e.Version, e.Known)
	}
	if e.Known == 0 {
		return fmt.Sprintf("event at sequence %d has type %q, which this release does not know: run a release that does", e.Seq, e.Type)
	}
	return fmt.Sprintf("event %s at sequence %d has version %d, this release knows up to %d: run a release that does",
		e.Type, e.Seq, e.Version, e.Known)
}

// envelope is the wire form. Field order is the order on the wire; the MAC
// follows as the last field (see [Chain]).
type envelope struct {
	ID      string          `json:"id"`
	Type    Type            `json:"type"`
	Version int             `json:"version"`
	Scope   string          `json:"scope"`
	Name    string          `json:"name"`
	Lease   uint64          `json:"lease,omitempty"`
	Epoch   uint64          `json:"epoch"`
	Time    time.Time       `json:"time"`
	Cause   string          `json:"cause,omitempty"`
	Actor   Actor           `json:"actor,omitzero"`
	Prev    string          `json:"prev,omitempty"`
	Segment string          `json:"segment,omitempty"`
	Data    json.RawMessage `json:"data"`
	MAC     string          `json:"mac,omitempty"`
}

// Encode gives the event's JSON without a MAC. The same event always gives the
// same bytes.
func Encode(e *Event) ([]byte, error) { return encode(e, "", "") }

func encode(e *Event, prev, segment string) ([]byte, error) {
	b, ok := write(e, prev, segment)
	if !ok {
		var err error
		if b, err = marshal(e, prev, segment); err != nil {
			return nil, err
		}
	}
	if len(b) > MaxEncoded {
		return nil, fmt.Errorf("encoding a %s event of %s/%s: %d bytes, at most %d are allowed", e.Type(), e.Scope, e.Name, len(b), MaxEncoded)
	}
	return b, nil
}

// marshal is the reference of [write], by reflection.
func marshal(e *Event, prev, segment string) ([]byte, error) {
	version, err := versionOf(e)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(Fit(e.Data, version))
	if err != nil {
		return nil, fmt.Errorf("encoding the data of a %s event: %w", e.Type(), err)
	}
	b, err := json.Marshal(envelope{
		ID: e.ID, Type: e.Type(), Version: version, Scope: e.Scope, Name: e.Name,
		Lease: e.Lease, Epoch: e.Epoch, Time: e.Time.UTC(), Cause: e.Cause, Actor: e.Actor,
		Prev: prev, Segment: segment, Data: data,
	})
	if err != nil {
		return nil, fmt.Errorf("encoding a %s event: %w", e.Type(), err)
	}
	return b, nil
}

// Decode reads an event that was stored at seq (0: not stored). It checks the
// form, not the MAC (see [Chain.Admit]). A later version or an unknown type
// gives a [*FutureError], anything else that is wrong wraps [ErrEvent].
func Decode(payload []byte, seq uint64) (Event, error) {
	e, _, err := decode(payload, seq)
	return e, err
}

// links are what a payload says of its place in the chain of MACs.
type links struct{ prev, segment, mac []byte }

// decode reads an event as it was written, without reflection, or by reflection
// what is anything else: only the latter refuses.
func decode(payload []byte, seq uint64) (Event, links, error) {
	if len(payload) > MaxEncoded+macFieldLen {
		return Event{}, links{}, fmt.Errorf("%w: sequence %d has %d bytes", ErrEvent, seq, len(payload))
	}
	if !utf8.Valid(payload) {
		return Event{}, links{}, fmt.Errorf("%w: sequence %d is not UTF-8", ErrEvent, seq)
	}
	e := Event{Seq: seq}
	if l, ok := scan(payload, &e); ok {
		return e, l, nil
	}
	return unmarshal(payload, seq)
}

// unmarshal is the reference of [scan], by reflection.
func unmarshal(payload []byte, seq uint64) (Event, links, error) {
	var env envelope
	if err := strict(payload, &env); err != nil {
		// A later release may have added a field to the envelope of an event
		// whose version says so: that is no garbage.
		var head struct {
			Type    Type `json:"type"`
			Version int  `json:"version"`
		}
		if json.Unmarshal(payload, &head) == nil && head.Type != "" {
			if future := checkVersion(head.Type, head.Version, seq); future != nil {
				return Event{}, links{}, future
			}
		}
		return Event{}, links{}, fmt.Errorf("%w: sequence %d: %w", ErrEvent, seq, err)
	}
	if env.ID == "" || env.Type == "" || env.Version < 1 || env.Scope == "" || env.Name == "" {
		return Event{}, links{}, fmt.Errorf("%w: sequence %d has an incomplete envelope", ErrEvent, seq)
	}
	if future := checkVersion(env.Type, env.Version, seq); future != nil {
		return Event{}, links{}, future
	}
	data := newData(env.Type)
	if err := strict(env.Data, data); err != nil {
		return Event{}, links{}, fmt.Errorf("%w: the data of the %s at sequence %d: %w", ErrEvent, env.Type, seq, err)
	}
	if !fits(data, env.Version) {
		return Event{}, links{}, fmt.Errorf("%w: the data of the %s at sequence %d has what came after its version %d", ErrEvent, env.Type, seq, env.Version)
	}
	return Event{
		ID: env.ID, Scope: env.Scope, Name: env.Name, Lease: env.Lease, Epoch: env.Epoch,
		Time: env.Time.UTC(), Cause: env.Cause, Actor: env.Actor, Data: data, Version: env.Version, Seq: seq,
	}, links{prev: []byte(env.Prev), segment: []byte(env.Segment), mac: []byte(env.MAC)}, nil
}

// checkVersion gives the *FutureError for what a later release wrote, as an
// untyped nil-able error.
func checkVersion(t Type, version int, seq uint64) error {
	if known := latest(t); version > known {
		return &FutureError{Seq: seq, Type: t, Version: version, Known: known}
	}
	return nil
}

// strict decodes one JSON value with known fields only and nothing behind it:
// a field that is not known is a version that was not raised.
func strict(b []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if d.More() {
		return errors.New("something follows the JSON value")
	}
	return nil
}
