package document

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/leasesvc/leasesvc/secret"
)

// MaxReferences bounds the places of a document that references fill.
const MaxReferences = 4096

var (
	// ErrDocument is wrapped when a tree is no settings document.
	ErrDocument = errors.New("not a settings document")
	// ErrNoPlace says that a path leads nowhere in a document: a key that the
	// map does not have, an index out of range, a step into what is neither.
	ErrNoPlace = errors.New("no such place in the document")
	// ErrUnwritable says that a path leads into what a reference stands for:
	// that belongs to the reference.
	ErrUnwritable = errors.New("the place can't be written")
)

// Document is one revision of a settings document as it was written, references
// included. It is immutable.
type Document struct{ at *written }

type written struct {
	name     string
	revision uint64
	content  Value
	chains   map[Path][]Reference
}

// New checks a tree and makes it a revision of a document. The name is one as
// scopes and leases have (1 to 64 letters, digits and hyphens). The root must
// be a map, or a list that is no fallback list; every text that begins as a
// reference must be one, at [MaxReferences] places at most. Anything else is an
// [ErrDocument].
func New(name string, revision uint64, content Value) (Document, error) {
	if err := checkName(name); err != nil {
		return Document{}, fmt.Errorf("%w: its name: %w", ErrDocument, err)
	}
	if k := content.Kind(); k != Map && k != List {
		return Document{}, fmt.Errorf("document %s: %w: its root is a %s; a map or a list is needed", name, ErrDocument, k)
	}
	if n := len(content.Encode()); n > MaxBytes {
		return Document{}, fmt.Errorf("document %s: %w: it has %d bytes as JSON, at most %d are allowed", name, ErrDocument, n, MaxBytes)
	}
	d := &written{name: name, revision: revision, content: content, chains: map[Path][]Reference{}}
	if err := d.find(nil, content); err != nil {
		return Document{}, fmt.Errorf("document %s: %w: %w", name, ErrDocument, err)
	}
	if d.chains[Path{}] != nil {
		return Document{}, fmt.Errorf("document %s: %w: its root is a fallback list; a map is needed around it", name, ErrDocument)
	}
	return Document{d}, nil
}

// find gathers the references at and below a place.
func (d *written) find(at *trail, v Value) error {
	if at.long() {
		return fmt.Errorf("a path in it has more than %d bytes", MaxPath)
	}
	chain, err := chainOf(v)
	if err != nil {
		return fmt.Errorf("at %s: %w", at, err)
	}
	if chain != nil {
		if d.chains[at.path()] = chain; len(d.chains) > MaxReferences {
			return fmt.Errorf("references fill more than %d places", MaxReferences)
		}
		return nil
	}
	switch v.Kind() {
	case List:
		for i, item := range v.at.items {
			if err := d.find(at.index(i), item); err != nil {
				return err
			}
		}
	case Map:
		for _, k := range v.keys() {
			if err := d.find(at.key(k), v.at.fields[k]); err != nil {
				return err
			}
		}
	default:
	}
	return nil
}

// Name gives the document's name.
func (d Document) Name() string { return d.at.name }

// Revision gives its revision, the first being 1.
func (d Document) Revision() uint64 { return d.at.revision }

// Content gives the tree as it was written, references unresolved.
func (d Document) Content() Value { return d.at.content }

// Use is one place of a document and what may stand there, in order of
// preference: more than one reference is a fallback chain (L45).
type Use struct {
	Path  Path
	Chain []Reference
}

// References gives all places that references fill, by path.
func (d Document) References() []Use {
	uses := make([]Use, 0, len(d.at.chains))
	for _, at := range d.paths() {
		uses = append(uses, Use{at, slices.Clone(d.at.chains[at])})
	}
	return uses
}

func (d Document) paths() []Path {
	return slices.SortedFunc(maps.Keys(d.at.chains), Path.compare)
}

// Leases gives the names of all leases that the document refers to, those
// further down in a fallback chain too, sorted.
func (d Document) Leases() []string { return d.names(Lease) }

// Secrets gives the paths of all secrets in Vault that it refers to, likewise.
func (d Document) Secrets() []string { return d.names(Vault) }

func (d Document) names(scheme Scheme) []string {
	names := map[string]bool{}
	for _, chain := range d.at.chains {
		for _, ref := range chain {
			if ref.Scheme == scheme {
				names[ref.Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// At gives what was written at a place. [ErrNoPlace] and [ErrUnwritable] are as
// for writing (L41): every key and index on the way must exist, and none may
// lie within what a reference stands for. The root is no place.
func (d Document) At(p Path) (Value, error) {
	v, err := d.slot(p)
	if err != nil {
		return Value{}, fmt.Errorf("%s of document %s: %w", p, d.at.name, err)
	}
	return v, nil
}

func (d Document) slot(p Path) (Value, error) {
	if p.IsRoot() {
		return Value{}, fmt.Errorf("%w: the root can't be replaced by itself; replace the whole content", ErrNoPlace)
	}
	v, at := d.at.content, Path{}
	for _, step := range p.Steps() {
		if d.at.chains[at] != nil {
			return Value{}, fmt.Errorf("%w: it lies within what the reference at %s stands for", ErrUnwritable, at)
		}
		next, err := v.step(step)
		if err != nil {
			return Value{}, fmt.Errorf("%w: at %s %w", ErrNoPlace, at, err)
		}
		v, at = next, join([]Step{step}).under(at)
	}
	return v, nil
}

// step goes down by one step (L41).
func (v Value) step(s Step) (Value, error) {
	switch k := v.Kind(); {
	case s.IsIndex && k != List:
		return Value{}, fmt.Errorf("there is a %s, not a list", k)
	case !s.IsIndex && k != Map:
		return Value{}, fmt.Errorf("there is a %s, not a map", k)
	case s.IsIndex && s.Index >= len(v.at.items):
		return Value{}, fmt.Errorf("the list has %d items", len(v.at.items))
	case s.IsIndex:
		return v.at.items[s.Index], nil
	}
	field, ok := v.at.fields[s.Key]
	if !ok {
		return Value{}, errors.New("the map does not have the key")
	}
	return field, nil
}

// Encode gives the content as JSON, as [Value.Encode] does. Seal it before it
// leaves: what is no reference can be secret too.
func (d Document) Encode() []byte { return d.at.content.Encode() }

// Redacted gives the content as JSON with the references as they were written
// and "[redacted]" in place of all other texts, numbers and booleans: what may
// be shown to an operator.
func (d Document) Redacted() []byte { return redacted(d.at.content).Encode() }

func redacted(v Value) Value {
	if isChain(v) {
		return v
	}
	switch v.Kind() {
	case List:
		n := &node{kind: List, items: make([]Value, len(v.at.items))}
		for i, item := range v.at.items {
			n.items[i] = redacted(item)
		}
		return Value{n}
	case Map:
		n := &node{kind: Map, fields: make(map[string]Value, len(v.at.fields))}
		for k, field := range v.at.fields {
			n.fields[k] = redacted(field)
		}
		return Value{n}
	case Null:
		return v
	default:
		return Value{&node{kind: Text, text: secret.New(secret.Redacted)}}
	}
}

// String names the document, its revision and how many places references fill.
func (d Document) String() string {
	if d.at == nil {
		return "no document"
	}
	return fmt.Sprintf("document %s, revision %d, %d references", d.at.name, d.at.revision, len(d.at.chains))
}

// GoString implements fmt.GoStringer.
func (d Document) GoString() string { return d.String() }

// MarshalJSON implements json.Marshaler with what [Document.String] says;
// [Document.Encode] gives the content.
func (d Document) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }
