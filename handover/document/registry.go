package document

import (
	"cmp"
	"maps"
	"slices"
)

// Place is a place in one of the documents of a store.
type Place struct {
	Document string
	Path     Path
}

// String implements fmt.Stringer.
func (p Place) String() string { return p.Path.String() + " of document " + p.Document }

func (p Place) compare(o Place) int {
	return cmp.Or(cmp.Compare(p.Document, o.Document), p.Path.compare(o.Path))
}

// source is a lease, a secret in Vault or a variable, whatever the key.
type source struct {
	scheme Scheme
	name   string
}

func (r Reference) source() source { return source{r.Scheme, r.Name} }

// registry knows which reference fills which place (L40): a place has at most
// one, a reference can have many places.
type registry struct {
	filledBy map[Place]Reference
	places   map[source]map[Place]struct{}
}

func newRegistry() registry {
	return registry{map[Place]Reference{}, map[source]map[Place]struct{}{}}
}

// register makes ref the one reference of a place, instead of any other.
func (r registry) register(ref Reference, at Place) {
	r.unregister(at)
	r.filledBy[at] = ref
	if r.places[ref.source()] == nil {
		r.places[ref.source()] = map[Place]struct{}{}
	}
	r.places[ref.source()][at] = struct{}{}
}

func (r registry) unregister(at Place) {
	ref, ok := r.filledBy[at]
	if !ok {
		return
	}
	delete(r.filledBy, at)
	delete(r.places[ref.source()], at)
	if len(r.places[ref.source()]) == 0 {
		delete(r.places, ref.source())
	}
}

// of gives the places that a lease or a secret fills, in order.
func (r registry) of(from source) []Place {
	return slices.SortedFunc(maps.Keys(r.places[from]), Place.compare)
}
