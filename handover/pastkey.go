package handover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// PastKey is what is kept of a seal key that another one took the place of: what
// was derived from it, not the key. With it the log can be read from its beginning
// and values compared, and nothing can be opened.
type PastKey struct {
	ID string `json:"id"`
	// MACKey and FingerprintKey are those of [Keys].
	MACKey         []byte `json:"mac_key"`
	FingerprintKey []byte `json:"fingerprint_key"`
	// Until is the sequence of the log from which on it opens no epoch; 0: it is
	// just being replaced.
	Until uint64 `json:"until,omitempty"`
	// Needed: values may still be sealed under it.
	Needed bool `json:"needed,omitempty"`
}

// String gives the id, so that printing it prints nothing secret.
func (p PastKey) String() string { return "past seal key " + p.ID }

// GoString implements fmt.GoStringer like [PastKey.String].
func (p PastKey) GoString() string { return p.String() }

// PastOf gives what is to be kept of a key.
func PastOf(k *Keys) PastKey {
	return PastKey{ID: k.ID(), MACKey: k.MACKey(), FingerprintKey: k.FingerprintKey(), Needed: true}
}

// pastName cannot begin a name; the prefix of the id keeps it from being taken for
// a lease's number.
const (
	pastName   = "_past"
	pastPrefix = "k"
)

func pastKey(scope, id string) string { return scope + "." + pastName + "." + pastPrefix + id }

// KeepPast stores a past key of a scope under the current one of the ring, in the
// place of what was kept of it before.
func (b *Blobs) KeepPast(ctx context.Context, r *Keyring, scope string, p PastKey) error {
	plain, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("keeping what is needed of the seal key %s: %w", p.ID, err)
	}
	sealed, err := r.SealAtRest(scope, pastName+p.ID, 0, plain)
	if err == nil {
		_, err = b.kv.Put(ctx, pastKey(scope, p.ID), sealed)
	}
	if err != nil {
		return fmt.Errorf("keeping what is needed of the seal key %s: %w", p.ID, err)
	}
	return nil
}

// DropPast forgets a past key that is in force again.
func (b *Blobs) DropPast(ctx context.Context, scope, id string) error {
	if err := b.kv.Purge(ctx, pastKey(scope, id)); err != nil {
		return fmt.Errorf("forgetting the past seal key %s: %w", id, err)
	}
	return nil
}

// Past gives a scope's past keys, as far as the ring opens them; closed counts the
// others, which a key took the place of that is not in it.
func (b *Blobs) Past(ctx context.Context, r *Keyring, scope string) (past []PastKey, closed int, err error) {
	watch, err := b.kv.Watch(ctx, scope+"."+pastName+".*", jetstream.IgnoreDeletes())
	if err != nil {
		return nil, 0, fmt.Errorf("reading the past seal keys of %s: %w", scope, err)
	}
	defer func() { _ = watch.Stop() }()
	for {
		select {
		case <-ctx.Done():
			return nil, 0, fmt.Errorf("reading the past seal keys of %s: %w", scope, ctx.Err())
		case entry := <-watch.Updates():
			if entry == nil {
				return past, closed, nil
			}
			id := entry.Key()[len(pastKey(scope, "")):]
			plain, err := r.OpenAtRest(scope, pastName+id, 0, entry.Value())
			if err != nil {
				closed++
				continue
			}
			var p PastKey
			if err := json.Unmarshal(plain, &p); err != nil || p.ID != id {
				closed++ // somebody's with the key, and none of ours
				continue
			}
			past = append(past, p)
		}
	}
}

// resealTries bounds how often an entry is sealed anew that is written meanwhile.
const resealTries = 3

// Reseal has the values of a lease sealed under the ring's current key, in one
// write on the condition that they are as they were read: at each moment either
// the one or the other stands there. It is no error when there are none. changed
// tells whether it was under another key before; the error wraps [wire.ErrSeal]
// where no key of the ring opens it.
func (b *Blobs) Reseal(ctx context.Context, r *Keyring, scope, name string, lease uint64) (changed bool, err error) {
	return b.reseal(ctx, r, blobKey(scope, name, lease), scope, name, lease)
}

// ResealProbe is [Blobs.Reseal] for the scope's probe, after all values: from then
// on who has only the key before can't claim.
func (b *Blobs) ResealProbe(ctx context.Context, r *Keyring, scope string) (changed bool, err error) {
	return b.reseal(ctx, r, scope+"."+probe, scope, probe, 0)
}

func (b *Blobs) reseal(ctx context.Context, r *Keyring, key, scope, name string, lease uint64) (changed bool, err error) {
	for range resealTries {
		var entry jetstream.KeyValueEntry
		entry, err = b.kv.Get(ctx, key)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			return changed, nil
		}
		if err != nil {
			return changed, fmt.Errorf("reading sealed values %s: %w", key, err)
		}
		rest, by, openErr := r.openAtRest(scope, name, lease, entry.Value())
		if openErr != nil || by == r.Keys {
			return changed, openErr
		}
		sealed, sealErr := r.SealWithOrigin(scope, name, lease, rest.Values, rest.Origin)
		if sealErr != nil {
			return changed, sealErr
		}
		if _, err = b.kv.Update(ctx, key, sealed, entry.Revision()); err == nil {
			return true, nil
		}
		changed = true // perhaps: the answer may be what was lost
	}
	return changed, fmt.Errorf("sealing %s anew: %w", key, err)
}

// opener is who can open and seal values at rest: [Keys], [Keyring].
type opener interface {
	SealAtRest(scope, name string, lease uint64, values []byte) ([]byte, error)
	OpenAtRest(scope, name string, lease uint64, sealed []byte) ([]byte, error)
	String() string
}
