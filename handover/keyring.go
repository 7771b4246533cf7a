package handover

import (
	"errors"
	"fmt"
	"slices"

	"github.com/leasesvc/leasesvc/handover/wire"
)

// Keyring is the seal keys that an instance has. What it seals at rest is under
// the first of them, the current one; it opens what is under any. So a key is
// replaced step by step, and nothing is closed in between.
type Keyring struct {
	*Keys // the current one
	all   []*Keys
}

// ErrSameKey says that one seal key was given twice.
var ErrSameKey = errors.New("it is the same seal key as another one")

// NewKeyring makes a ring of the current key and others.
func NewKeyring(current *Keys, others ...*Keys) (*Keyring, error) {
	r := &Keyring{Keys: current, all: []*Keys{current}}
	for _, k := range others {
		if r.Has(k.ID()) {
			return nil, fmt.Errorf("%s: %w", k, ErrSameKey)
		}
		r.all = append(r.all, k)
	}
	return r, nil
}

// All gives the keys, the current one first.
func (r *Keyring) All() []*Keys { return r.all }

// IDs gives the ids of the keys, that of the current one first.
func (r *Keyring) IDs() (ids []string) {
	for _, k := range r.all {
		ids = append(ids, k.ID())
	}
	return ids
}

// ByID gives the key with an id; nil: it is not in the ring.
func (r *Keyring) ByID(id string) *Keys {
	for _, k := range r.all {
		if k.ID() == id {
			return k
		}
	}
	return nil
}

// Has tells whether a key is in the ring.
func (r *Keyring) Has(id string) bool { return r.ByID(id) != nil }

// OpenAtRest is [Keys.OpenAtRest] with whichever key opens it.
func (r *Keyring) OpenAtRest(scope, name string, lease uint64, sealed []byte) ([]byte, error) {
	rest, _, err := r.openAtRest(scope, name, lease, sealed)
	if err != nil {
		return nil, err
	}
	return rest.Values, nil
}

// OriginAtRest gives where the values came from; nil: they don't say.
func (r *Keyring) OriginAtRest(scope, name string, lease uint64, sealed []byte) (*Origin, error) {
	rest, _, err := r.openAtRest(scope, name, lease, sealed)
	if err != nil {
		return nil, err
	}
	return rest.Origin, nil
}

// openAtRest tells also which key opened it.
func (r *Keyring) openAtRest(scope, name string, lease uint64, sealed []byte) (rest *atRest, by *Keys, err error) {
	for _, k := range r.all {
		if rest, err = k.openAtRest(scope, name, lease, sealed); err == nil || !errors.Is(err, wire.ErrSeal) {
			return rest, k, err
		}
	}
	return nil, nil, err
}

// Open opens what from sealed to the service, under whichever of its keys. Its
// errors wrap [wire.ErrSeal].
func (r *Keyring) Open(from string, sealed []byte) (message []byte, err error) {
	for _, k := range r.all {
		if message, err = k.Open(from, sealed); err == nil || !errors.Is(err, wire.ErrSeal) {
			return message, err
		}
	}
	return nil, err
}

// SealFor seals a message to a consumer that takes what is under these public
// keys: once, under the first of ours that is among them. Where it did not say
// which it takes, or takes none of ours, it is sealed under each of ours, the one
// that has been there longest first: who can't open one ignores it.
func (r *Keyring) SealFor(to string, pinned []string, body wire.Body) ([][]byte, error) {
	data, err := wire.Encode(body)
	if err != nil {
		return nil, err
	}
	return r.SealEncodedFor(to, pinned, data)
}

// SealEncodedFor is [Keyring.SealFor] for a message that is encoded.
func (r *Keyring) SealEncodedFor(to string, pinned []string, data []byte) ([][]byte, error) {
	for _, k := range r.all {
		if len(r.all) == 1 || slices.Contains(pinned, k.Public()) {
			sealed, err := k.Seal(to, data)
			return [][]byte{sealed}, err
		}
	}
	out := make([][]byte, 0, len(r.all))
	for _, k := range slices.Backward(r.all) {
		sealed, err := k.Seal(to, data)
		if err != nil {
			return nil, err
		}
		out = append(out, sealed)
	}
	return out, nil
}

// SealFor is [Keyring.SealFor] of who has one key.
func (k *Keys) SealFor(to string, _ []string, body wire.Body) ([][]byte, error) {
	sealed, err := k.SealBody(to, body)
	return [][]byte{sealed}, err
}
