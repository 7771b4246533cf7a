package document

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

var (
	// ErrSlotTwice says that an update assigns a place twice.
	ErrSlotTwice = errors.New("the update assigns a place twice")
	// ErrRevision is what [RevisionError] unwraps to.
	ErrRevision = errors.New("the document has another revision than expected")
)

// RevisionError says that a document has changed since it was read: read it
// again and decide anew.
type RevisionError struct {
	Document         string
	Expected, Actual uint64
}

// Error implements error.
func (e *RevisionError) Error() string {
	return fmt.Sprintf("document %s has revision %d, expected was %d; read it again", e.Document, e.Actual, e.Expected)
}

// Unwrap gives [ErrRevision].
func (*RevisionError) Unwrap() error { return ErrRevision }

// Assignment puts a value at a place that is there already. The value may hold
// references, or be one.
type Assignment struct {
	Path  Path
	Value Value
}

// Update is a change of one document. With neither Content nor Assign the
// document stays as it was written and its references are resolved again, which
// lets a fallback chain choose anew.
type Update struct {
	Document string
	// Expected is the revision that the document must have; 0 for one that must
	// not be there yet.
	Expected uint64
	// Content replaces the whole tree. Nil leaves it.
	Content *Value
	// Assign changes places one by one, in this order, each at most once.
	Assign []Assignment
	// Consumer tells who asks when it may be a consumer of a hand-over, by the
	// name it joined with (see [Install.Join]); empty for everybody else.
	Consumer string
}

// Change is what a change of a document comes to: for the event, which names
// paths and never values.
type Change struct {
	Document Document
	// Paths are the places that differ from before, at most [MaxPaths]: when
	// there are more, what stands above them is named instead. None means that
	// nothing changed.
	Paths []Path
}

// Publish makes a change known before it counts: it seals the content and
// appends the event. An error means that it did not happen and never will; an
// unknown outcome must be cleared up first. It is called with the store's turn
// held: it may read the store and must not change it.
type Publish func(context.Context, Change) error

// Update changes a document in one transaction (L42): everything is validated,
// then assigned, then every reference of the document is resolved through r
// (L44, L45), then the change is published, and only then it is seen. An error
// at any step leaves everything as it was: [RevisionError], [ErrDocument],
// [ErrNoPlace] and [ErrUnwritable] (L41), [ErrSlotTwice], [ErrVanished] (an
// assignment does not stand, because another one replaced what it is in),
// [UnresolvedError] (but not where a lease of the chain is [ErrPending]: such a
// place has no value yet), what r and publish return.
//
// While an install of a lease that the new revision refers to is in flight it
// waits, see [Gate.Wait] for how long and for its errors (L43).
//
// When nothing differs there is no new revision and publish is not called.
func (s *Store) Update(ctx context.Context, u Update, r Reader, publish Publish) (Change, error) {
	change, err := s.update(ctx, u, r, publish)
	if err != nil {
		return Change{}, fmt.Errorf("updating document %s: %w", u.Document, err)
	}
	return change, nil
}

func (s *Store) update(ctx context.Context, u Update, r Reader, publish Publish) (Change, error) {
	was, next, err := s.enter(ctx, u)
	if err != nil {
		return Change{}, err
	}
	defer s.give()
	d, err := draw(next, r, func(_ Path, err error) error {
		if errors.Is(err, ErrPending) {
			return nil // the lease's first install gives it a value
		}
		return err
	})
	if err != nil {
		return Change{}, err
	}
	change := Change{Document: next, Paths: s.differing(was, d)}
	if len(change.Paths) == 0 {
		return Change{Document: was.doc}, nil
	}
	if publish != nil {
		if err := publish(ctx, change); err != nil {
			return Change{}, fmt.Errorf("publishing revision %d: %w", next.Revision(), err)
		}
	}
	s.swap(d)
	return change, nil
}

// enter waits until the update has its turn and no install is in its way. On
// success the caller has the turn. The proposal is made anew each time, since
// the document may have changed meanwhile.
func (s *Store) enter(ctx context.Context, u Update) (was *held, next Document, err error) {
	patience := time.NewTimer(s.gate.wait)
	defer patience.Stop()
	for {
		if err := s.take(ctx, patience.C); err != nil {
			return nil, Document{}, err
		}
		was, next, open, err := s.propose(u)
		if err == nil && open {
			return was, next, nil
		}
		s.give()
		if err != nil {
			return nil, Document{}, err
		}
		if err := s.gate.waitFor(ctx, patience.C, u.Consumer, next.Leases()); err != nil {
			return nil, Document{}, err
		}
	}
}

// Draw gives the revision that an update would make of a document as it is now,
// unpublished and unseen: so that what it refers to can be fetched before
// [Store.Update] reads it.
func (s *Store) Draw(u Update) (Document, error) {
	s.mu.RLock()
	was := s.documents[u.Document]
	s.mu.RUnlock()
	content, err := u.apply(was)
	if err != nil {
		return Document{}, fmt.Errorf("updating document %s: %w", u.Document, err)
	}
	return New(u.Document, u.Expected+1, content)
}

// propose validates the update against what is there and looks at the gate.
// With the turn held, an open gate stays open: installs need the turn too.
func (s *Store) propose(u Update) (was *held, next Document, open bool, err error) {
	if s.gate.Ended() {
		return nil, Document{}, false, ErrLifecycleEnded
	}
	was = s.documents[u.Document] // reading needs no lock with the turn held
	if actual := was.revision(); actual != u.Expected {
		return nil, Document{}, false, &RevisionError{u.Document, u.Expected, actual}
	}
	content, err := u.apply(was)
	if err != nil {
		return nil, Document{}, false, err
	}
	if next, err = New(u.Document, u.Expected+1, content); err != nil {
		return nil, Document{}, false, err
	}
	// A reference as a list's only item makes a fallback list of it, in which it
	// is no place of its own.
	for _, a := range u.Assign {
		if _, err := next.slot(a.Path); err != nil {
			return nil, Document{}, false, fmt.Errorf("assigning %s: %w: %w", a.Path, ErrVanished, err)
		}
	}
	blocked, _, err := s.gate.look(u.Consumer, next.Leases())
	return was, next, blocked == nil, err
}

func (h *held) revision() uint64 {
	if h == nil {
		return 0
	}
	return h.doc.Revision()
}

// apply gives the content that the update asks for.
func (u Update) apply(was *held) (Value, error) {
	switch {
	case u.Content != nil && len(u.Assign) > 0:
		return Value{}, fmt.Errorf("%w: an update replaces the content or assigns places, not both", ErrDocument)
	case u.Content != nil:
		return fromAny(*u.Content, nil, 0) // for the depth
	case was == nil:
		return Value{}, fmt.Errorf("%w: a new document needs a content", ErrNoDocument)
	}
	if err := u.validate(was.doc); err != nil {
		return Value{}, err
	}
	content := was.doc.Content()
	for _, a := range u.Assign {
		var err error
		if content, err = content.assign(a.Path.Steps(), a.Value); err != nil {
			return Value{}, fmt.Errorf("assigning %s: %w: %w", a.Path, ErrVanished, err)
		}
	}
	return u.standing(content)
}

// validate looks at all assignments before the first is done.
func (u Update) validate(doc Document) error {
	seen := map[Path]bool{}
	for _, a := range u.Assign {
		if _, err := doc.slot(a.Path); err != nil {
			return fmt.Errorf("assigning %s: %w", a.Path, err)
		}
		if seen[a.Path] {
			return fmt.Errorf("assigning %s: %w", a.Path, ErrSlotTwice)
		}
		seen[a.Path] = true
	}
	return nil
}

// standing looks at all assignments after the last is done: one that stands
// within another may be gone again.
func (u Update) standing(content Value) (Value, error) {
	for _, a := range u.Assign {
		v := content
		var err error
		for _, step := range a.Path.Steps() {
			if v, err = v.step(step); err != nil {
				return Value{}, fmt.Errorf("assigning %s: %w: %w", a.Path, ErrVanished, err)
			}
		}
		if !v.Equal(a.Value) {
			return Value{}, fmt.Errorf("assigning %s: %w: another assignment writes within or above it", a.Path, ErrVanished)
		}
	}
	return fromAny(content, nil, 0) // for the depth
}

func (v Value) assign(steps []Step, to Value) (Value, error) {
	at := v
	for _, step := range steps {
		var err error
		if at, err = at.step(step); err != nil {
			return Value{}, err
		}
	}
	return v.with(steps, to), nil
}

// with gives the tree with another value at a place that is known to exist. Only
// the containers on the way are made anew.
func (v Value) with(steps []Step, to Value) Value {
	if len(steps) == 0 {
		return to
	}
	n := *v.at
	if s := steps[0]; s.IsIndex {
		n.items = slices.Clone(n.items)
		n.items[s.Index] = n.items[s.Index].with(steps[1:], to)
	} else {
		n.fields = maps.Clone(n.fields)
		n.fields[s.Key] = n.fields[s.Key].with(steps[1:], to)
	}
	return Value{&n}
}
