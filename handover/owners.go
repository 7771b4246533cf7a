package handover

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// ErrOwned: the lease id belongs to another scope.
var ErrOwned = errors.New("the lease id belongs to another scope")

// ownerKey is where a lease id's owner stands; an underscore can't begin a
// scope's name.
func ownerKey(vault, leaseID string) string {
	sum := sha256.Sum256([]byte(vault + "\x00" + leaseID))
	return "_owner." + hex.EncodeToString(sum[:16])
}

// Own makes a lease id a scope's own, for as long as a lease of the scope goes
// by it (D8). It may be repeated. [ErrOwned]: another scope has it. Without a
// lease id there is nothing to own.
func (b *Blobs) Own(ctx context.Context, vault, leaseID, scope string) error {
	if leaseID == "" {
		return nil
	}
	key := ownerKey(vault, leaseID)
	_, err := b.kv.Create(ctx, key, []byte(scope))
	if err == nil {
		return nil
	}
	entry, readErr := b.kv.Get(ctx, key)
	switch {
	case readErr == nil && string(entry.Value()) == scope:
		return nil
	case readErr == nil:
		return fmt.Errorf("taking a lease id for scope %s: %w: %s", scope, ErrOwned, entry.Value())
	}
	return fmt.Errorf("taking a lease id for scope %s: %w", scope, err)
}

// Disown gives a lease id up. It is no error when the scope did not have it.
func (b *Blobs) Disown(ctx context.Context, vault, leaseID, scope string) error {
	if leaseID == "" {
		return nil
	}
	key := ownerKey(vault, leaseID)
	entry, err := b.kv.Get(ctx, key)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("giving a lease id up: %w", err)
	case string(entry.Value()) != scope:
		return nil
	}
	var opts []jetstream.KVDeleteOpt
	if b.markersEnd {
		opts = append(opts, jetstream.PurgeTTL(purgeMarkerTTL))
	}
	if err := b.kv.Purge(ctx, key, append(opts, jetstream.LastRevision(entry.Revision()))...); err != nil {
		return fmt.Errorf("giving a lease id up: %w", err)
	}
	return nil
}
