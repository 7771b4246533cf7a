package events

import (
	"errors"
	"testing"
	"time"
)

// keyed writes a log whose epochs are under several keys.
type keyed struct {
	t     *testing.T
	ring  *Keyring
	chain Chain
	log   [][]byte
	epoch uint64
}

func ringOf(ids ...string) *Keyring {
	r := NewKeyring()
	for _, id := range ids {
		r.Add(id, []byte("mac key "+id))
	}
	return r
}

func newKeyed(t *testing.T, ids ...string) *keyed {
	r := ringOf(ids...)
	return &keyed{t: t, ring: r, chain: NewChainUnder(r)}
}

func (k *keyed) seal(name string, d Data) {
	k.t.Helper()
	k.append(k.event(name, d))
}

func (k *keyed) event(name string, d Data) Event {
	return Event{ID: "i", Scope: "prod", Name: name, Epoch: k.epoch, Time: time.Unix(1, 0).UTC(), Data: d}
}

func (k *keyed) append(e Event) {
	k.t.Helper()
	b, err := k.chain.Seal(&e)
	if err != nil {
		k.t.Fatal(err)
	}
	k.log = append(k.log, b)
}

// open opens an epoch under a key, as who has the one before endorses it.
func (k *keyed) open(id string) {
	k.t.Helper()
	k.epoch++
	e := k.event(EpochName, &Opened{Holder: "h", How: HowReleased, Attempt: "a", SealKey: id})
	k.ring.Endorse(&e, k.chain.SealKey())
	k.append(e)
}

// read gives how many events count under a ring, and what ended the reading.
func (k *keyed) read(ring *Keyring) (n int, err error) {
	c := NewChainUnder(ring)
	for i, b := range k.log {
		if _, err := c.Admit(b, uint64(i+1)); errors.Is(err, ErrForged) {
			continue
		} else if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func TestAKeyChangesAtAnOpened(t *testing.T) {
	k := newKeyed(t, "old", "new")
	k.open("old")
	k.seal("a", &Removed{})
	k.open("new")
	k.seal("a", &Removed{})
	k.seal("a", &Removed{})
	k.open("old") // and back
	k.seal("a", &Removed{})
	for _, ring := range []*Keyring{ringOf("old", "new"), ringOf("new", "old", "other")} {
		if n, err := k.read(ring); n != len(k.log) || err != nil {
			t.Errorf("%d of %d: %v", n, len(k.log), err)
		}
	}
	for id, want := range map[string]int{"old": 2, "new": 0, "other": 0} {
		n, err := k.read(ringOf(id))
		var unknown *UnknownKeyError
		if n != want || !errors.As(err, &unknown) {
			t.Errorf("with %s alone %d events count, and then: %v", id, n, err)
		}
	}
}

// TestAnUnendorsedKeyIsNobodys: who has none of the keys can't stop those who read.
func TestAnUnendorsedKeyIsNobodys(t *testing.T) {
	k := newKeyed(t, "old", "foreign")
	k.open("old")
	k.seal("a", &Removed{})
	was := k.chain
	stranger := newKeyed(t, "foreign")
	stranger.epoch = k.epoch
	stranger.open("foreign") // endorsed by nobody
	e := stranger.event(EpochName, &Opened{Holder: "h", How: HowQuiet, Attempt: "a", SealKey: "foreign", KeyProof: "AAAAAAAAAAAAAAAAAAAAAA"})
	stranger.append(e)
	k.log = append(k.log, stranger.log...)
	k.chain = was
	k.seal("a", &Removed{})
	if n, err := k.read(ringOf("old")); n != 3 || err != nil {
		t.Errorf("%d: %v", n, err)
	}
}

// TestAReplacedKeyOpensNothing: what was written under it counts, what is written
// under it later does not.
func TestAReplacedKeyOpensNothing(t *testing.T) {
	k := newKeyed(t, "old", "new")
	k.open("old")
	k.seal("a", &Removed{})
	k.open("new") // sequence 3
	k.seal("a", &Removed{})
	was := k.chain
	k.epoch++ // by who came by the old key, and has no other
	k.append(k.event(EpochName, &Opened{Holder: "h", How: HowQuiet, Attempt: "b", SealKey: "old"}))
	k.seal("a", &Removed{})
	k.chain, k.epoch = was, 2
	k.seal("a", &Removed{})
	ring := ringOf("new")
	ring.AddUntil("old", []byte("mac key old"), 3)
	if n, err := k.read(ring); n != 5 || err != nil {
		t.Errorf("%d: %v", n, err)
	}
	// Whoever has the key on purpose goes on with it.
	both := ringOf("new", "old")
	both.AddUntil("old", []byte("mac key old"), 3)
	if n, _ := k.read(both); n != 6 {
		t.Errorf("%d events count under both", n)
	}
}

func TestAnEventUnderAnotherKeyThanItsEpochsIsForged(t *testing.T) {
	k := newKeyed(t, "old", "new")
	k.open("old")
	k.open("new")
	k.chain.Under("old")
	k.seal("a", &Removed{})
	if n, err := k.read(ringOf("old", "new")); n != 2 || err != nil {
		t.Errorf("%d: %v", n, err)
	}
}

func TestAChainGoesOnUnderAnotherRing(t *testing.T) {
	k := newKeyed(t, "old", "new")
	k.open("old")
	c := NewChainUnder(ringOf("old"))
	if _, err := c.Admit(k.log[0], 1); err != nil {
		t.Fatal(err)
	}
	k.open("new")
	c.Rering(ringOf("new", "old"))
	if _, err := c.Admit(k.log[1], 2); err != nil || c.SealKey() != "new" {
		t.Error(err, c.SealKey())
	}
	if _, err := (&Chain{ring: NewKeyring()}).Seal(&Event{Scope: "prod", Name: "a", Data: &Removed{}}); err == nil {
		t.Error("sealed without a key")
	}
}
