package document

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

var (
	// ErrMissingKey says that a lease does not have a key that a document refers
	// to (L10, L12).
	ErrMissingKey = errors.New("the lease does not have a key that a document refers to")
	// ErrSettled says that an install was committed or restored before.
	ErrSettled = errors.New("the install is settled already")
)

// Install is a candidate's values in the documents of a store, not yet
// committed: see [Store.Install].
type Install struct {
	store     *Store
	running   *Running
	lease     string
	snapshots []snapshot
	settled   bool // guarded by store.mu
}

// snapshot is one destination that an install writes.
type snapshot struct {
	at     Place
	by     Reference
	before Value
	filled bool // there was a value, of the same reference, before
	after  Value
}

// Bad is a destination that could not be written.
type Bad struct {
	Place Place
	Err   error
}

// Install writes a candidate's values at all places that its lease fills, and
// at those without a value yet whose reference or fallback chain it is in. Every
// destination is resolved and snapshotted before the first is written (L12): a
// key that is missing ([ErrMissingKey]) or a destination that vanished
// ([ErrVanished]) is an error with nothing changed. Destinations that hold the
// value already are skipped.
//
// Until [Install.Commit], [Store.Resolve] goes on giving what was there before
// (D1), and [Install.Resolve] gives the candidate to the hand-over's consumers.
// From here to [Install.End] updates that refer to the lease wait (L43). The
// caller must call End, and End restores what was not committed (L17).
//
// [ErrInFlight] when there is one for the lease already; [ErrLifecycleEnded].
func (s *Store) Install(ctx context.Context, lease string, values Values) (*Install, error) {
	if err := s.takeCurrent(ctx); err != nil {
		return nil, fmt.Errorf("installing %s in the documents: %w", lease, err)
	}
	defer s.give()
	running, err := s.gate.Begin(lease)
	if err != nil {
		return nil, fmt.Errorf("installing in the documents: %w", err)
	}
	in := &Install{store: s, running: running, lease: lease}
	if err := in.stage(values); err != nil {
		running.End()
		return nil, fmt.Errorf("installing %s in the documents: %w", lease, err)
	}
	return in, nil
}

func (in *Install) stage(values Values) error {
	s := in.store
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.destinations(source{Lease, in.lease}, func(ref Reference) (Value, error) {
		v, ok := values[ref.Key]
		if !ok {
			return Value{}, fmt.Errorf("%s: %w", ref, ErrMissingKey)
		}
		return v, nil
	})
	if len(found.bad) > 0 {
		return fmt.Errorf("%s: %w", found.bad[0].Place, found.bad[0].Err)
	}
	in.snapshots = found.differ
	for _, snap := range in.snapshots {
		s.put(snap.at, snap.after, snap.by)
	}
	s.installs[in] = struct{}{}
	return nil
}

// destinations is what a lease's values have to be written to.
type destinations struct {
	differ []snapshot
	same   []Place // hold the value already
	bad    []Bad
}

// destinations resolves all places of a lease, or a secret, without writing any.
// Called with mu held.
func (s *Store) destinations(from source, read func(Reference) (Value, error)) destinations {
	var found destinations
	for _, at := range s.registry.of(from) {
		found.add(s, at, []Reference{s.registry.filledBy[at]}, read)
	}
	for _, name := range slices.Sorted(maps.Keys(s.documents)) {
		h := s.documents[name]
		for _, p := range h.unresolved() {
			chain := h.doc.at.chains[p]
			ours := slices.DeleteFunc(slices.Clone(chain), func(r Reference) bool { return r.source() != from })
			if len(ours) == 0 {
				continue
			}
			was := len(found.bad)
			found.add(s, Place{name, p}, ours, read)
			if len(ours) < len(chain) {
				found.bad = found.bad[:was] // another reference of the chain may still give it a value
			}
		}
	}
	return found
}

// unresolved gives the places without a value, in order.
func (h *held) unresolved() (paths []Path) {
	if len(h.values) == len(h.doc.at.chains) {
		return nil
	}
	for p := range h.doc.at.chains {
		if _, ok := h.values[p]; !ok {
			paths = append(paths, p)
		}
	}
	slices.SortFunc(paths, Path.compare)
	return paths
}

// add resolves one place and takes the first reference that has a value for it.
func (d *destinations) add(s *Store, at Place, refs []Reference, read func(Reference) (Value, error)) {
	before, filled, err := s.target(at)
	if err != nil {
		d.bad = append(d.bad, Bad{at, err})
		return
	}
	var first error
	for _, ref := range refs {
		after, err := read(ref)
		switch {
		case err != nil && first == nil:
			first = err
		case err != nil:
		case filled && before.Equal(after):
			d.same = append(d.same, at)
			return
		default:
			d.differ = append(d.differ, snapshot{at, ref, before, filled, after})
			return
		}
	}
	d.bad = append(d.bad, Bad{at, first})
}

// Lease gives the name of the lease that is installed.
func (in *Install) Lease() string { return in.lease }

// Changed tells whether any destination changed, one of the reasons to ask
// consumers to reconnect (L13).
func (in *Install) Changed() bool { return len(in.snapshots) > 0 }

// Changes tells which places of which documents the install changed.
func (in *Install) Changes() []Change {
	in.store.mu.RLock()
	defer in.store.mu.RUnlock()
	return in.store.changes(in.snapshots)
}

// changes orders what was written by document. Called with mu held.
func (s *Store) changes(written []snapshot) []Change {
	byDocument := map[string]map[Path]bool{}
	for _, snap := range written {
		if byDocument[snap.at.Document] == nil {
			byDocument[snap.at.Document] = map[Path]bool{}
		}
		byDocument[snap.at.Document][snap.at.Path] = true
	}
	var changes []Change
	for _, name := range slices.Sorted(maps.Keys(byDocument)) {
		changes = append(changes, Change{s.documents[name].doc, bounded(outermost(byDocument[name]))})
	}
	return changes
}

// Join says that a consumer takes part in the hand-over, before it is asked: an
// update that comes from it is refused instead of waiting for itself (L43).
func (in *Install) Join(consumer string) { in.running.Join(consumer) }

// Commit makes the candidate's values those that readers see. It fails with
// [ErrSettled] after a restore (L15) and with [ErrLifecycleEnded]; then nothing
// has changed.
func (in *Install) Commit(ctx context.Context) error {
	if err := in.settle(ctx, func() {}); err != nil {
		return fmt.Errorf("committing %s in the documents: %w", in.lease, err)
	}
	return nil
}

// Restored is what a restore did.
type Restored struct {
	// Changes are the places that went back.
	Changes []Change
	// Kept are the places that the install wrote and that hold something else
	// by now, which survives.
	Kept []Place
}

// Restore puts back what the install wrote (L19): each destination only if it
// still holds the candidate's value by the candidate's reference. What somebody
// else wrote there since survives. A place that had no value before has none
// again (L20). Fails as [Install.Commit] does.
func (in *Install) Restore(ctx context.Context) (Restored, error) {
	var done Restored
	err := in.settle(ctx, func() { done = in.restore() })
	if err != nil {
		return Restored{}, fmt.Errorf("restoring the documents after %s: %w", in.lease, err)
	}
	return done, nil
}

func (in *Install) restore() (done Restored) {
	s := in.store
	var back []snapshot
	for _, snap := range slices.Backward(in.snapshots) {
		switch {
		case !s.untouched(snap):
			done.Kept = append(done.Kept, snap.at)
			continue
		case snap.filled:
			s.put(snap.at, snap.before, snap.by)
		default:
			s.empty(snap.at)
		}
		back = append(back, snap)
	}
	slices.SortFunc(done.Kept, Place.compare)
	done.Changes = s.changes(back)
	return done
}

// untouched tells whether a destination still is as its install left it. The
// value alone would not do: somebody may have written the same one (true, say)
// as a text of the document's own. Called with mu held.
func (s *Store) untouched(snap snapshot) bool {
	v, filled, err := s.target(snap.at)
	return err == nil && filled && s.registry.filledBy[snap.at] == snap.by && v.Equal(snap.after)
}

func (in *Install) settle(ctx context.Context, how func()) error {
	s := in.store
	if err := s.takeCurrent(ctx); err != nil {
		return err
	}
	defer s.give()
	s.mu.Lock()
	defer s.mu.Unlock()
	if in.settled {
		return ErrSettled
	}
	how()
	in.settled = true
	delete(s.installs, in)
	return nil
}

// End says that the hand-over is over, consumers gone back after a restore
// included (L21): updates that waited go on. What was not committed is restored
// first (L17), except after the lifecycle's end. An error says that the turn
// did not come before ctx ended: readers still see the value before and updates
// still wait; call it again. Else it may be called more than once.
func (in *Install) End(ctx context.Context) error {
	_, err := in.Restore(ctx)
	if err != nil && !errors.Is(err, ErrSettled) && !errors.Is(err, ErrLifecycleEnded) {
		return err
	}
	in.running.End()
	return nil
}
