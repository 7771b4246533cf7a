package events

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
)

// Chain is the chain of MACs of one scope: it seals the events that a holder
// writes and judges those that anybody reads. It is a value: copy it before an
// attempt that may fail, keep the copy that came true.
//
// Each MAC covers its event and the MAC before it. An opened event begins a
// segment, because events of the holder before may still land ahead of it; the
// first event after it carries the last MAC of the segment before as well.
type Chain struct {
	key      *macKey // nil: MACs are not checked
	last     string  // MAC of the last admitted event
	segment  string  // last MAC of the segment before, owed by the next event
	atOpened bool    // the last admitted event is an opened
}

// NewChain begins a chain under a key; nil: MACs are not checked, which is for
// auditors who don't have the key.
func NewChain(key []byte) Chain {
	if key == nil {
		return Chain{}
	}
	return Chain{key: newMACKey(key)}
}

// Last gives the MAC of the last admitted event.
func (c *Chain) Last() string { return c.last }

// Resume puts a chain where a snapshot left it.
func (c *Chain) Resume(last, segment string, atOpened bool) {
	c.last, c.segment, c.atOpened = last, segment, atOpened
}

// State gives what [Chain.Resume] needs.
func (c *Chain) State() (last, segment string, atOpened bool) { return c.last, c.segment, c.atOpened }

// Seal encodes e as the next event of the chain and moves the chain on.
func (c *Chain) Seal(e *Event) ([]byte, error) {
	if c.key == nil {
		return nil, errors.New("sealing an event: this chain has no key")
	}
	prev, segment := c.expect(e.Type())
	b, err := encode(e, prev, segment)
	if err != nil {
		return nil, err
	}
	sum := c.key.sum(b)
	mac := string(sum[:])
	c.advance(e.Type(), mac)
	b = append(b[:len(b)-1], macField...)
	b = append(b, mac...)
	return append(b, `"}`...), nil
}

func (c *Chain) expect(t Type) (prev, segment string) {
	if t == TypeOpened {
		return "", ""
	}
	if c.atOpened {
		return c.last, c.segment
	}
	return c.last, ""
}

func (c *Chain) advance(t Type, mac string) {
	if t == TypeOpened {
		if c.atOpened {
			// Two opened in a row have no event between them that could carry
			// what the first one owed: the second one owes both.
			sum := sha256.Sum256([]byte(c.segment + c.last))
			c.segment = base64.RawURLEncoding.EncodeToString(sum[:macBytes])
		} else {
			c.segment = c.last
		}
		c.last, c.atOpened = mac, true
		return
	}
	c.last, c.segment, c.atOpened = mac, "", false
}

// The ways in which an event is not the next of its chain.
var (
	// ErrForged: the event's own MAC does not hold. Somebody without the key
	// wrote or edited it; it is skipped.
	ErrForged = errors.New("its MAC does not hold")
	// ErrBroken: the event is genuine, but does not follow the one before it:
	// something between them was removed, edited or moved. The log must not be
	// led from.
	ErrBroken = errors.New("it does not follow the event before it")
)

// Admit decodes a stored event and judges its place in the chain. The chain
// moves on only when the error is nil.
func (c *Chain) Admit(payload []byte, seq uint64) (Event, error) {
	e, link, err := decode(payload, seq)
	if err != nil {
		// What a later release wrote is told from what a stranger wrote.
		var future *FutureError
		if errors.As(err, &future) && c.key != nil && !c.key.genuine(payload) {
			return Event{}, fmt.Errorf("event at sequence %d: %w", seq, ErrForged)
		}
		return Event{}, err
	}
	if c.key != nil && !c.key.genuine(payload) {
		return e, fmt.Errorf("%s at sequence %d: %w", e.Type(), seq, ErrForged)
	}
	if prev, segment := c.expect(e.Type()); string(link.prev) != prev || string(link.segment) != segment {
		return e, fmt.Errorf("%s at sequence %d: %w", e.Type(), seq, ErrBroken)
	}
	c.advance(e.Type(), string(link.mac))
	return e, nil
}
