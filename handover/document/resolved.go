package document

import (
	"encoding/json"
	"fmt"
	"maps"
)

// Resolved is a document with values in place of its references, for the
// application that it is for. It prints without any value.
type Resolved struct{ at *rendering }

type rendering struct {
	doc  Document
	tree Value
}

// Resolve gives a document as its readers may see it: committed values only
// (D1), each still readable through r, which sees unexpired data only (L44,
// L53). A place without a value is [ErrUnresolved], one whose lease has expired
// [ErrExpired]; [ErrNoDocument].
func (s *Store) Resolve(name string, r Reader) (Resolved, error) { return s.resolved(name, r, nil) }

// Resolve gives a document with the candidate's values, for the consumers of
// this hand-over and nobody else (D1). The candidate's own values are not read
// through r. After the install is settled it gives what [Store.Resolve] does.
func (in *Install) Resolve(name string, r Reader) (Resolved, error) {
	return in.store.resolved(name, r, in)
}

func (s *Store) resolved(name string, r Reader, own *Install) (Resolved, error) {
	h, winners, candidate, err := s.view(name, own)
	if err != nil {
		return Resolved{}, fmt.Errorf("resolving document %s: %w", name, err)
	}
	for _, p := range h.doc.paths() {
		ref, ok := winners[p]
		if !ok {
			return Resolved{}, fmt.Errorf("resolving %s of document %s: %w", p, name, ErrUnresolved)
		}
		if candidate && ref.source() == (source{Lease, own.lease}) {
			continue
		}
		if _, err := r.Read(ref); err != nil {
			return Resolved{}, fmt.Errorf("resolving %s of document %s: %s: %w", p, name, ref, err)
		}
	}
	return Resolved{&rendering{h.doc, h.tree()}}, nil
}

// view gives a document as it would be if all installs in flight but one's own
// were restored, and what fills its places; candidate tells whether that one is
// in flight.
func (s *Store) view(name string, own *Install) (h *held, winners map[Path]Reference, candidate bool, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	now, ok := s.documents[name]
	if !ok {
		return nil, nil, false, ErrNoDocument
	}
	h = &held{now.doc, maps.Clone(now.values)}
	winners = map[Path]Reference{}
	for p := range h.doc.at.chains {
		if ref, ok := s.registry.filledBy[Place{name, p}]; ok {
			winners[p] = ref
		}
	}
	for in := range maps.Keys(s.installs) {
		if in == own {
			candidate = true
			continue
		}
		for _, snap := range in.snapshots {
			if snap.at.Document != name || !s.untouched(snap) {
				continue
			}
			if h.values[snap.at.Path] = snap.before; !snap.filled {
				delete(h.values, snap.at.Path)
				delete(winners, snap.at.Path)
			}
		}
	}
	return h, winners, candidate, nil
}

// Name gives the document's name.
func (r Resolved) Name() string { return r.at.doc.Name() }

// Revision gives the revision that was resolved.
func (r Resolved) Revision() uint64 { return r.at.doc.Revision() }

// Value gives the tree.
func (r Resolved) Value() Value { return r.at.tree }

// At gives the value at a path; unlike [Document.At] it leads into what a
// reference stands for, too. [ErrNoPlace].
func (r Resolved) At(p Path) (Value, error) {
	v, err := r.at.tree.At(p)
	if err != nil {
		return Value{}, fmt.Errorf("document %s: %w", r.Name(), err)
	}
	return v, nil
}

// Reveal gives the tree as [Value.Reveal] does, for a template or an encoder.
func (r Resolved) Reveal() any { return r.at.tree.Reveal() }

// Encode gives the tree as JSON, as [Value.Encode] does. Seal it before it
// leaves.
func (r Resolved) Encode() []byte { return r.at.tree.Encode() }

// Redacted gives what [Document.Redacted] does: where each value comes from.
func (r Resolved) Redacted() []byte { return r.at.doc.Redacted() }

// String names the document and its revision.
func (r Resolved) String() string {
	if r.at == nil {
		return "no document"
	}
	return fmt.Sprintf("document %s, revision %d, resolved", r.Name(), r.Revision())
}

// GoString implements fmt.GoStringer.
func (r Resolved) GoString() string { return r.String() }

// MarshalJSON implements json.Marshaler with what [Resolved.String] says.
func (r Resolved) MarshalJSON() ([]byte, error) { return json.Marshal(r.String()) }
