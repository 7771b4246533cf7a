package events

import (
	"crypto/hmac"
	"fmt"
)

// Keyring has the MAC keys of a log by the id of the seal key that each is
// derived from: the key changes where an opened event names another one. It is
// not changed any more once a [Chain] uses it, and may then be used by many.
type Keyring struct {
	keys map[string]ringKey
	// any counts for every epoch: of who has one key and does not ask for its id.
	any *macKey
}

type ringKey struct {
	mac *macKey
	// until is the sequence from which on the key opens no epoch; 0: none.
	until uint64
}

// NewKeyring makes an empty ring, under which nothing counts.
func NewKeyring() *Keyring { return &Keyring{keys: map[string]ringKey{}} }

// Add adds the MAC key of a seal key.
func (r *Keyring) Add(sealKey string, key []byte) { r.keys[sealKey] = ringKey{mac: newMACKey(key)} }

// AddUntil adds the MAC key of a seal key that was replaced, and opens no epoch
// at or behind the sequence until: what was written under it counts, and who
// comes by it later can write nothing that does. A key that is there stays.
func (r *Keyring) AddUntil(sealKey string, key []byte, until uint64) {
	if _, there := r.keys[sealKey]; !there {
		r.keys[sealKey] = ringKey{mac: newMACKey(key), until: until}
	}
}

// at gives the key that may open an epoch at a sequence; nil: there is none.
func (r *Keyring) at(sealKey string, seq uint64) *macKey {
	if r.any != nil {
		return r.any
	}
	if k, ok := r.keys[sealKey]; ok && (k.until == 0 || seq < k.until) {
		return k.mac
	}
	return nil
}

// of gives the key of a seal key that is in force already; nil: there is none.
func (r *Keyring) of(sealKey string) *macKey {
	if r.any != nil {
		return r.any
	}
	return r.keys[sealKey].mac
}

// genuine tells whether a payload was written under any of the keys.
func (r *Keyring) genuine(payload []byte) bool {
	if r.any != nil {
		return r.any.genuine(payload)
	}
	for _, k := range r.keys {
		if k.mac.genuine(payload) {
			return true
		}
	}
	return false
}

// Endorse notes in an opened event that who has the key in force before it goes
// on under another one. So who knows the old key only can tell that from an event
// that somebody made up: see [UnknownKeyError].
func (r *Keyring) Endorse(e *Event, before string) {
	o, ok := e.Data.(*Opened)
	key := r.of(before)
	if !ok || key == nil || before == "" || o.SealKey == before {
		return
	}
	o.KeyProof = keyProof(key, e, o)
}

func keyProof(key *macKey, e *Event, o *Opened) string {
	sum := key.sum(fmt.Appendf(nil, "leasesvc seal key change v1\n%s\n%d\n%s\n%s", e.Scope, e.Epoch, o.Attempt, o.SealKey))
	return string(sum[:])
}

// UnknownKeyError says that an epoch was opened under a seal key whose MAC key is
// not in the ring. What is written in it can't be told from what anybody wrote:
// who meets it must not claim.
type UnknownKeyError struct {
	SealKey    string
	Epoch, Seq uint64
}

// Error implements error.
func (e *UnknownKeyError) Error() string {
	return fmt.Sprintf("epoch %d was opened at sequence %d under the seal key %s, which is not known here", e.Epoch, e.Seq, e.SealKey)
}

// opens gives the key under which an opened event begins its epoch; nil: none
// that counts. The error is an [*UnknownKeyError]: of an event that who had the
// key before it endorsed, or of one before which there is none to be held to.
func (c *Chain) opens(e *Event, o *Opened, seq uint64) (*macKey, error) {
	if key := c.ring.at(o.SealKey, seq); key != nil {
		return key, nil
	}
	if c.key == nil || o.KeyProof != "" && hmac.Equal([]byte(o.KeyProof), []byte(keyProof(c.key, e, o))) {
		return nil, &UnknownKeyError{SealKey: o.SealKey, Epoch: e.Epoch, Seq: seq}
	}
	return nil, nil
}
