package document

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/leasesvc/leasesvc/secret"
)

var (
	// ErrNoDocument says that a store has no such document.
	ErrNoDocument = errors.New("no such document")
	// ErrVanished says that a place that was assigned or is registered is not
	// there any more, or not for a reference.
	ErrVanished = errors.New("the destination has vanished")
	// ErrUnresolved says that a place of a document has no value yet.
	ErrUnresolved = errors.New("the place has no value yet")
)

// Store holds the documents of a scope for one lifecycle, and what their
// references stand for. Who changes it waits for its turn, as long as the
// context given lasts; readers don't wait.
type Store struct {
	gate *Gate
	turn chan struct{} // holds a token while somebody changes the store

	mu        sync.RWMutex // written under only by who has the turn
	documents map[string]*held
	registry  registry
	installs  map[*Install]struct{} // neither committed nor restored
}

// held is a document and what stands at its places now, candidates included.
type held struct {
	doc    Document
	values map[Path]Value // by place; one that is not there is unresolved
}

// NewStore makes an empty store for the lifecycle that the gate stands for.
func NewStore(gate *Gate) *Store {
	return &Store{
		gate:      gate,
		turn:      make(chan struct{}, 1),
		documents: map[string]*held{},
		registry:  newRegistry(),
		installs:  map[*Install]struct{}{},
	}
}

// take waits for the turn. A nil patience never ends.
func (s *Store) take(ctx context.Context, patience <-chan time.Time) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-patience:
		return fmt.Errorf("waiting for another change of the documents: %w", ErrBusy)
	case <-ctx.Done():
		return fmt.Errorf("waiting for another change of the documents: %w", context.Cause(ctx))
	}
}

func (s *Store) give() { <-s.turn }

// takeCurrent waits for the turn and gives it back when the lifecycle is over
// (L47).
func (s *Store) takeCurrent(ctx context.Context) error {
	if err := s.take(ctx, nil); err != nil {
		return err
	}
	if s.gate.Ended() {
		s.give()
		return ErrLifecycleEnded
	}
	return nil
}

// Load puts a revision that the log holds into the store, as a replay does; a
// revision that is not above the one there is a [RevisionError]. What no
// reference of a place gives a value for yet is no error: these places are
// returned, and are filled by the next [Store.Install], [Store.Push] or
// [Store.Update] that can.
func (s *Store) Load(ctx context.Context, doc Document, r Reader) (unresolved []Path, err error) {
	if err := s.takeCurrent(ctx); err != nil {
		return nil, fmt.Errorf("loading %v: %w", doc, err)
	}
	defer s.give()
	if was, ok := s.documents[doc.Name()]; ok && doc.Revision() <= was.doc.Revision() {
		return nil, &RevisionError{Document: doc.Name(), Expected: doc.Revision() - 1, Actual: was.doc.Revision()}
	}
	var misses *UnresolvedError
	d, err := draw(doc, r, func(p Path, err error) error {
		if !errors.As(err, &misses) {
			return err
		}
		unresolved = append(unresolved, p)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("loading %v: %w", doc, err)
	}
	s.swap(d)
	return unresolved, nil
}

// draft is a document with its references resolved, not yet in the store.
type draft struct {
	held
	winners map[Path]Reference
}

// draw resolves each place of a document. What can't be is refused or let pass
// by onMiss.
func draw(doc Document, r Reader, onMiss func(Path, error) error) (draft, error) {
	d := draft{held: held{doc, map[Path]Value{}}, winners: map[Path]Reference{}}
	for _, p := range doc.paths() {
		ref, v, err := resolve(r, doc.at.chains[p])
		if err != nil {
			if err := onMiss(p, err); err != nil {
				return draft{}, fmt.Errorf("resolving %s: %w", p, err)
			}
			continue
		}
		d.winners[p], d.values[p] = ref, v
	}
	return d, nil
}

// tree gives the content with values at its places, null where there is none,
// and the texts that are no references as they are meant.
func (h *held) tree() Value { return h.fill(nil, h.doc.Content()) }

func (h *held) fill(at *trail, v Value) Value {
	if isChain(v) {
		return h.values[at.path()]
	}
	switch v.Kind() {
	case Text:
		if s := v.at.text.Reveal(); literal(s) != s {
			return Value{&node{kind: Text, text: secret.New(literal(s))}}
		}
	case List:
		n := &node{kind: List, items: make([]Value, len(v.at.items))}
		for i, item := range v.at.items {
			n.items[i] = h.fill(at.index(i), item)
		}
		return Value{n}
	case Map:
		n := &node{kind: Map, fields: make(map[string]Value, len(v.at.fields))}
		for k, field := range v.at.fields {
			n.fields[k] = h.fill(at.key(k), field)
		}
		return Value{n}
	default:
	}
	return v
}

// swap makes a draft the document. Only the winners are registered (L45).
func (s *Store) swap(d draft) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := d.doc.Name()
	if was, ok := s.documents[name]; ok {
		for p := range was.doc.at.chains {
			s.registry.unregister(Place{name, p})
		}
	}
	for p, ref := range d.winners {
		s.registry.register(ref, Place{name, p})
	}
	s.documents[name] = &d.held
}

// target resolves a place (L41): what stands there, and whether anything does.
// Called with mu held.
func (s *Store) target(at Place) (v Value, filled bool, err error) {
	h, ok := s.documents[at.Document]
	if !ok {
		return Value{}, false, fmt.Errorf("%s: %w: %w", at, ErrVanished, ErrNoDocument)
	}
	if _, err := h.doc.slot(at.Path); err != nil {
		return Value{}, false, fmt.Errorf("%s: %w: %w", at, ErrVanished, err)
	}
	if h.doc.at.chains[at.Path] == nil {
		return Value{}, false, fmt.Errorf("%s: %w: no reference stands there", at, ErrVanished)
	}
	v, filled = h.values[at.Path]
	return v, filled, nil
}

// put writes a value at a place that is known to exist, filled by a reference
// that is registered as such (L40).
func (s *Store) put(at Place, v Value, by Reference) {
	s.documents[at.Document].values[at.Path] = v
	s.registry.register(by, at)
}

// empty makes a place unresolved.
func (s *Store) empty(at Place) {
	delete(s.documents[at.Document].values, at.Path)
	s.registry.unregister(at)
}

// Names gives the names of the documents, sorted.
func (s *Store) Names() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Sorted(maps.Keys(s.documents))
}

// Document gives a document as it was written, or [ErrNoDocument].
func (s *Store) Document(name string) (Document, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	h, ok := s.documents[name]
	if !ok {
		return Document{}, fmt.Errorf("document %s: %w", name, ErrNoDocument)
	}
	return h.doc, nil
}

// Places gives the places that a lease fills now (L40), in order. One further
// down in a fallback chain fills none (L45).
func (s *Store) Places(lease string) []Place {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.registry.of(source{Lease, lease})
}

// FilledBy gives the one reference that fills a place now; ok is false when
// there is none.
func (s *Store) FilledBy(at Place) (ref Reference, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	ref, ok = s.registry.filledBy[at]
	return ref, ok
}
