package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// A shape says what may stand at a key: it reads it, and it describes itself
// for the messages and for the test that compares docs/configuration.md with
// what is really read.
type shape interface {
	// read takes n, which stands at p, or says to d what is wrong with it.
	read(d *decoder, n *node, p place)
	// typ names the type in docs/configuration.md.
	typ() string
	// children calls visit for each key below, "[]" and "NAME" standing for an
	// item and a chosen name.
	children(visit func(name string, f field))
}

// field is a key of an object.
type field struct {
	name string
	shape
	required bool
	// def is the default as the documentation prints it; "" is none.
	def string
}

// place is where a value stands: the path of its key and the key's position.
type place struct {
	key string
	Position
}

// below gives the place of a key in the mapping at p.
func (p place) below(e entry) place {
	key := e.name
	if p.key != "" {
		key = p.key + "." + e.name
	}
	return place{key, e.Position}
}

// decoder collects what is wrong while shapes read a tree.
type decoder struct {
	file string
	dir  string // relative paths count from here
	errs []*Error
	// places are the positions of all keys that were read; nil where nobody
	// will ask for them.
	places map[string]Position
}

// fail records an error at n, or at its key where n is no value.
func (d *decoder) fail(n *node, p place, format string, args ...any) {
	at := p.Position
	if n != nil && n.kind != nothing {
		at = n.Position
	}
	d.failAt(at, p.key, format, args...)
}

func (d *decoder) failAt(at Position, key, format string, args ...any) {
	d.errs = append(d.errs, &Error{File: d.file, Line: at.Line, Column: at.Column, Key: key, Message: fmt.Sprintf(format, args...)})
}

// describe names what a node is, never its text.
func (n *node) describe() string {
	switch {
	case n.kind == mapping:
		return "a mapping"
	case n.kind == list:
		return "a list"
	case n.kind == nothing:
		return "nothing"
	case n.isText():
		return "a text"
	case n.isBool():
		return "a truth value"
	case n.typ == pem:
		return "a certificate"
	default:
		return "a number"
	}
}

// object is a mapping with the keys it lists and no others.
type object struct {
	fields []field
	// check looks at how the values stand to each other. It is called even
	// when some were refused; it asks [found.ok] for what it needs.
	check func(d *decoder, f *found)
}

// found is what an object's check can ask.
type found struct {
	place
	entries map[string]entry
	bad     map[string]bool
}

// has tells whether the key stands there with a value.
func (f *found) has(name string) bool {
	e, ok := f.entries[name]
	return ok && e.value.kind != nothing
}

// ok tells that none of the keys was refused (left out is ok).
func (f *found) ok(names ...string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return f.bad[name] })
}

// fail records an error at the first of the keys that is there, else at the
// object itself.
func (f *found) fail(d *decoder, names []string, format string, args ...any) {
	for _, name := range names {
		if e, ok := f.entries[name]; ok {
			d.fail(e.value, f.below(e), format, args...)
			return
		}
	}
	d.failAt(f.Position, f.key, format, args...)
}

// exclusive checks that at most one of the keys is there, exactly one if one
// is needed.
func (f *found) exclusive(d *decoder, needed bool, names ...string) {
	var there []string
	for _, name := range names {
		if f.has(name) {
			there = append(there, name)
		}
	}
	switch {
	case len(there) > 1:
		f.fail(d, there[1:], "stands beside %s; only one of %s is allowed", there[0], strings.Join(names, ", "))
	case len(there) == 0 && needed:
		d.failAt(f.Position, f.key, "one of %s is required", strings.Join(names, ", "))
	}
}

func (o object) read(d *decoder, n *node, p place) {
	if n.kind != mapping {
		d.fail(n, p, "%s where a mapping is expected; allowed keys: %s", n.describe(), o.names())
		return
	}
	f := &found{place: p, entries: make(map[string]entry, len(n.entries)), bad: map[string]bool{}}
	for _, e := range n.entries {
		i := slices.IndexFunc(o.fields, func(f field) bool { return f.name == e.name })
		if i < 0 {
			d.failAt(e.Position, p.key, "unknown key %s; allowed here: %s", o.unknown(e.name, n), o.names())
			continue
		}
		f.entries[e.name] = e
		at := p.below(e)
		if d.places != nil {
			d.places[at.key] = e.Position
		}
		before := len(d.errs)
		switch {
		case e.value.kind != nothing:
			o.fields[i].read(d, e.value, at)
		case o.fields[i].required:
			d.failAt(e.Position, at.key, "has no value, and is required")
		}
		f.bad[e.name] = len(d.errs) > before
	}
	for _, want := range o.fields {
		if _, there := f.entries[want.name]; want.required && !there {
			f.bad[want.name] = true
			d.failAt(p.Position, p.below(entry{name: want.name}).key, "is missing, and is required (%s)", want.typ())
		}
	}
	if o.check != nil {
		o.check(d, f)
	}
}

func (o object) names() string {
	all := make([]string, len(o.fields))
	for i, f := range o.fields {
		all[i] = f.name
	}
	return strings.Join(all, ", ")
}

var keyLike = regexp.MustCompile(`^[a-z][a-z_-]{0,31}$`)

// unknown gives an unknown key for a message, and a known one that is near and
// not yet there. What is near none and does not look like a key of ours is not
// repeated: with a slip of the indentation a token stands where a key should.
func (o object) unknown(name string, n *node) string {
	var free []string
	for _, f := range o.fields {
		if !slices.ContainsFunc(n.entries, func(e entry) bool { return e.name == f.name }) {
			free = append(free, f.name)
		}
	}
	if best := nearest(name, free); best != "" {
		return fmt.Sprintf("%q, did you mean %q?", name, best)
	}
	if !keyLike.MatchString(name) {
		return fmt.Sprintf("(%d characters, none of the keys here)", utf8.RuneCountInString(name))
	}
	return fmt.Sprintf("%q", name)
}

func (o object) typ() string { return "mapping" }

func (o object) children(visit func(string, field)) {
	for _, f := range o.fields {
		visit(f.name, f)
	}
}

// named is a mapping whose keys are names of the user's choice.
type named struct {
	what string // what is named, such as "scope"
	elem func(name string) shape
	min  int
}

func (m named) read(d *decoder, n *node, p place) {
	if n.kind != mapping {
		d.fail(n, p, "%s where a mapping of names is expected, as in \"%s: ...\"", n.describe(), m.what+"-1")
		return
	}
	for _, e := range n.entries {
		at := p.below(e)
		if err := checkName(e.name); err != nil {
			d.failAt(e.Position, p.key, "%s name: %v", m.what, err)
			continue
		}
		if d.places != nil {
			d.places[at.key] = e.Position
		}
		if e.value.kind == nothing {
			d.failAt(e.Position, at.key, "has no value; expected a mapping")
			continue
		}
		m.elem(e.name).read(d, e.value, at)
	}
	if len(n.entries) < m.min {
		d.fail(n, p, "names no %s; at least one is required", m.what)
	}
}

func (m named) typ() string { return "mapping of names" }

func (m named) children(visit func(string, field)) {
	visit("NAME", field{name: "NAME", shape: m.elem("NAME")})
}

// sequence is a list.
type sequence struct {
	max  int
	elem func() shape
	// check looks at the whole list after its items.
	check func(d *decoder, n *node, p place)
}

func (s sequence) read(d *decoder, n *node, p place) {
	if n.kind != list {
		d.fail(n, p, "%s where a list is expected, as in [a, b]", n.describe())
		return
	}
	if len(n.items) > s.max {
		d.fail(n, p, "has %d items; at most %d are allowed", len(n.items), s.max)
		return
	}
	before := len(d.errs)
	for i, item := range n.items {
		at := place{fmt.Sprintf("%s[%d]", p.key, i), item.Position}
		elem := s.elem()
		if item.kind == nothing {
			d.failAt(item.Position, at.key, "has no value (%s)", elem.typ())
			continue
		}
		elem.read(d, item, at)
	}
	if s.check != nil && len(d.errs) == before {
		s.check(d, n, p)
	}
}

func (s sequence) typ() string { return "list" }

func (s sequence) children(visit func(string, field)) {
	visit("[]", field{name: "[]", shape: s.elem()})
}
