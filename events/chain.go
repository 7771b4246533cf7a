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
//
// An opened event may begin its epoch under another key of the ring than the one
// before it; it names the seal key that its own is derived from.
type Chain struct {
	ring     *Keyring // nil: MACs are not checked
	key      *macKey  // of the epoch in force; nil: there is none, or its key is not known
	sealKey  string   // the id of the seal key that key is derived from
	last     string   // MAC of the last admitted event
	segment  string   // last MAC of the segment before, owed by the next event
	atOpened bool     // the last admitted event is an opened
}

// NewChain begins a chain under a key; nil: MACs are not checked, which is for
// auditors who don't have the key.
func NewChain(key []byte) Chain {
	if key == nil {
		return Chain{}
	}
	one := newMACKey(key)
	return Chain{ring: &Keyring{any: one}, key: one}
}

// NewChainUnder begins a chain whose epochs may be under any key of a ring.
func NewChainUnder(ring *Keyring) Chain { return Chain{ring: ring} }

// Rering has the chain go on under another ring.
func (c *Chain) Rering(ring *Keyring) {
	c.ring = ring
	c.Under(c.sealKey)
}

// SealKey gives the id of the seal key in force, as the last opened event named it.
func (c *Chain) SealKey() string { return c.sealKey }

// Under says which seal key is in force, after [Chain.Resume].
func (c *Chain) Under(sealKey string) {
	c.sealKey = sealKey
	if c.ring != nil {
		c.key = c.ring.of(sealKey)
	}
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
	key, sealKey := c.key, c.sealKey
	if o, ok := e.Data.(*Opened); ok && c.ring != nil {
		key, sealKey = c.ring.of(o.SealKey), o.SealKey
	}
	if key == nil {
		return nil, errors.New("sealing an event: this chain has no key for it")
	}
	prev, segment := c.expect(e.Type())
	b, err := encode(e, prev, segment)
	if err != nil {
		return nil, err
	}
	sum := key.sum(b)
	mac := string(sum[:])
	c.advance(e.Type(), mac)
	c.key, c.sealKey = key, sealKey
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
		if errors.As(err, &future) && c.ring != nil && !c.ring.genuine(payload) {
			return Event{}, fmt.Errorf("event at sequence %d: %w", seq, ErrForged)
		}
		return Event{}, err
	}
	key, sealKey := c.key, c.sealKey
	if o, ok := e.Data.(*Opened); ok {
		sealKey = o.SealKey
		if c.ring != nil {
			if key, err = c.opens(&e, o, seq); err != nil {
				return e, err
			}
		}
	}
	if c.ring != nil && (key == nil || !key.genuine(payload)) {
		return e, fmt.Errorf("%s at sequence %d: %w", e.Type(), seq, ErrForged)
	}
	if prev, segment := c.expect(e.Type()); string(link.prev) != prev || string(link.segment) != segment {
		return e, fmt.Errorf("%s at sequence %d: %w", e.Type(), seq, ErrBroken)
	}
	c.advance(e.Type(), string(link.mac))
	c.key, c.sealKey = key, sealKey
	return e, nil
}
