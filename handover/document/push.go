package document

import (
	"context"
	"fmt"
)

// Pushed is what a push did.
type Pushed struct {
	// Written counts the places that hold the lease's value through this push,
	// those that held it already included.
	Written int
	// Changes are the places that hold another value than before.
	Changes []Change
	// Bad are the places that could not be written, and why. They did not stop
	// the others.
	Bad []Bad
}

// Push writes a lease's values, as r reads them, at all places that it fills,
// without a hand-over (L46). It counts as a write of somebody else for an
// install in flight (L19). The error is [ErrLifecycleEnded] or that ctx ended,
// with nothing written.
func (s *Store) Push(ctx context.Context, lease string, r Reader) (Pushed, error) {
	return s.push(ctx, source{Lease, lease}, r)
}

// PushSecret is [Store.Push] for a secret of Vault's that documents refer to by
// its path.
func (s *Store) PushSecret(ctx context.Context, path string, r Reader) (Pushed, error) {
	return s.push(ctx, source{Vault, path}, r)
}

func (s *Store) push(ctx context.Context, from source, r Reader) (Pushed, error) {
	if err := s.takeCurrent(ctx); err != nil {
		return Pushed{}, fmt.Errorf("pushing %s to the documents: %w", from.name, err)
	}
	defer s.give()
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.destinations(from, func(ref Reference) (Value, error) {
		v, err := r.Read(ref)
		if err != nil {
			return Value{}, fmt.Errorf("reading %s: %w", ref, err)
		}
		return v, nil
	})
	for _, snap := range found.differ {
		s.put(snap.at, snap.after, snap.by)
	}
	return Pushed{
		Written: len(found.differ) + len(found.same),
		Changes: s.changes(found.differ),
		Bad:     found.bad,
	}, nil
}
