package config

import (
	"fmt"
	"strings"
)

// maxDepth is how deep mappings and lists may stand in each other. Our files
// need five; the bound keeps the stack small whatever the file holds.
const maxDepth = 16

// kind is what a node of the tree is.
type kind uint8

const (
	nothing kind = iota
	scalar
	mapping
	list
)

// node is a value in a file.
type node struct {
	kind
	Position
	typ     token   // of a scalar
	text    string  // of a scalar
	entries []entry // of a mapping, in the order of the file, keys unique
	items   []*node // of a list
}

// entry is a key of a mapping and its value.
type entry struct {
	name string
	Position
	value *node
}

// parseTree reads YAML as a tree: block and flow mappings, lists and scalars,
// one document. What it refuses: anchors, aliases, merge keys, tags, complex
// keys, directives, a key that stands twice in a mapping. The tree is nil only
// after a mistake in syntax; a doubled key leaves the first of the two.
func parseTree(file string, src []byte) (*node, []*Error) {
	text, errs := checkText(file, src)
	if len(errs) > 0 {
		return nil, errs
	}
	toks, failed := tokenize(file, text)
	if failed != nil {
		return nil, []*Error{failed}
	}
	b := &builder{file: file, toks: toks}
	root, failed := b.document()
	if failed != nil {
		return nil, append(b.errs, failed)
	}
	return root, b.errs
}

// builder makes the tree from the tokens.
type builder struct {
	file  string
	toks  []tok
	next  int
	depth int
	errs  []*Error // doubled keys: the reading goes on after them
}

// peek gives the next token; ok is false at the end.
func (b *builder) peek() (t tok, ok bool) {
	if b.next >= len(b.toks) {
		return tok{}, false
	}
	return b.toks[b.next], true
}

// peekIs tells whether the next token has the type.
func (b *builder) peekIs(typ token) bool {
	t, ok := b.peek()
	return ok && t.typ == typ
}

// last gives the token that was read last.
func (b *builder) last() tok {
	if b.next == 0 || len(b.toks) == 0 {
		return tok{line: 1, col: 1}
	}
	return b.toks[b.next-1]
}

func (b *builder) document() (*node, *Error) {
	if b.peekIs(documentHead) {
		b.next++
	}
	root := &node{Position: Position{1, 1}}
	if t, ok := b.peek(); ok && t.typ != documentEnd {
		value, err := b.value(t, false)
		if err != nil {
			return nil, err
		}
		root = value
	}
	if b.peekIs(documentEnd) && b.next == len(b.toks)-1 {
		b.next++
	}
	if t, ok := b.peek(); ok {
		return nil, b.misplaced(t)
	}
	return root, nil
}

// misplaced says why t can't stand where it stands.
func (b *builder) misplaced(t tok) *Error {
	if why := t.refused(); why != "" {
		return t.at(b.file, "%s", why)
	}
	if before := b.last(); before.line == t.line && b.next > 0 {
		return t.at(b.file, "%s is not expected after the value before it; a value with special characters needs quotes", t.describe())
	}
	return t.at(b.file, `%s is not expected here; check the indentation: keys of one mapping begin in the same column`, t.describe())
}

// value reads a node that begins at t, the next token. inline says that it
// stands on the line of its key, where no block mapping or list may begin.
func (b *builder) value(t tok, inline bool) (*node, *Error) {
	if b.depth++; b.depth > maxDepth {
		return nil, t.at(b.file, "more than %d levels deep; no key of ours is that deep", maxDepth)
	}
	defer func() { b.depth-- }()
	switch {
	case t.typ == dash:
		if inline {
			return nil, t.at(b.file, `a list ("- ...") begins on a line of its own; within a line write [a, b]`)
		}
		return b.blockList(t.col)
	case t.typ == openMapping:
		return b.flowMapping()
	case t.typ == openList:
		return b.flowList()
	case t.isScalar():
		if b.isKey() {
			if inline {
				return nil, t.at(b.file, `a second "key: value" on one line; put a value that holds ": " in quotes`)
			}
			return b.blockMapping(t.col)
		}
		b.next++
		return leaf(t), nil
	default:
		return nil, b.misplaced(t)
	}
}

// leaf makes the node of a scalar token.
func leaf(t tok) *node {
	n := &node{kind: scalar, Position: t.position(), typ: t.typ, text: t.text}
	if t.typ == null {
		n.kind = nothing
	}
	return n
}

// isKey tells whether the next token is a scalar with a ":" after it on its
// line.
func (b *builder) isKey() bool {
	if b.next+1 >= len(b.toks) {
		return false
	}
	key, after := b.toks[b.next], b.toks[b.next+1]
	return key.isScalar() && after.typ == colon && after.line == key.line
}

// key takes a key and its colon.
func (b *builder) key(t tok) *Error {
	if t.typ == plainText && strings.Contains(t.text, ":") {
		// Parsers differ on it, and nobody means it.
		return t.at(b.file, `a key with ":" in it; put a space after the colon, or the key in quotes`)
	}
	b.next += 2
	return nil
}

// blockMapping reads "key: value" lines that begin in column col.
func (b *builder) blockMapping(col int32) (*node, *Error) {
	first, _ := b.peek()
	n := &node{kind: mapping, Position: first.position()}
	names := newNames(b, n)
	for line := int32(0); ; {
		t, ok := b.peek()
		if !ok || t.col < col || t.typ == documentHead || t.typ == documentEnd {
			return n, nil
		}
		if t.line == line || t.col != col || t.refused() != "" {
			return nil, b.misplaced(t)
		}
		if !b.isKey() {
			return nil, t.at(b.file, `%s without ": " after it; expected "key: value"`, t.describe())
		}
		if err := b.key(t); err != nil {
			return nil, err
		}
		value, err := b.blockValue(t, col, true)
		if err != nil {
			return nil, err
		}
		names.add(t, value)
		line = b.last().line
	}
}

// blockList reads "- value" lines that begin in column col.
func (b *builder) blockList(col int32) (*node, *Error) {
	first, _ := b.peek()
	n := &node{kind: list, Position: first.position()}
	for line := int32(0); ; {
		t, ok := b.peek()
		if !ok || t.typ != dash || t.col < col {
			return n, nil
		}
		if t.line == line || t.col != col {
			return nil, b.misplaced(t)
		}
		b.next++
		value, err := b.blockValue(t, col, false)
		if err != nil {
			return nil, err
		}
		n.items = append(n.items, value)
		line = b.last().line
	}
}

// blockValue reads what belongs to the key or dash before, which stands in
// column col: on the same line, or deeper below, or nothing.
func (b *builder) blockValue(before tok, col int32, key bool) (*node, *Error) {
	t, ok := b.peek()
	ends := ok && (t.typ == documentHead || t.typ == documentEnd)
	switch {
	case ok && t.line == before.line:
		return b.value(t, key)
	case ok && !ends && t.col > col:
		return b.value(t, false)
	case ok && key && t.col == col && t.typ == dash:
		// The dashes of a list may stand under the first letter of its key.
		return b.value(t, false)
	default:
		return &node{Position: before.position()}, nil
	}
}

// flowMapping reads {a: b, c: d}.
func (b *builder) flowMapping() (*node, *Error) {
	open, _ := b.peek()
	b.next++
	n := &node{kind: mapping, Position: open.position()}
	names := newNames(b, n)
	for {
		t, ok := b.peek()
		switch {
		case !ok:
			return nil, open.at(b.file, `"{" without a closing "}"`)
		case t.typ == shutMapping:
			b.next++
			return n, nil
		case t.typ == openMapping && len(n.entries) == 0:
			return nil, open.at(b.file, `"{{" outside of quotes; put a template such as "{{username}}" in quotes`)
		case t.refused() != "":
			return nil, b.misplaced(t)
		case !b.isKey():
			return nil, t.at(b.file, `%s within { }; expected "key: value" pairs with "," between them`, t.describe())
		}
		if err := b.key(t); err != nil {
			return nil, err
		}
		value, err := b.flowValue(open, t.position(), shutMapping)
		if err != nil {
			return nil, err
		}
		names.add(t, value)
		if err := b.flowNext(open, shutMapping); err != nil {
			return nil, err
		}
	}
}

// flowList reads [a, b].
func (b *builder) flowList() (*node, *Error) {
	open, _ := b.peek()
	b.next++
	n := &node{kind: list, Position: open.position()}
	for {
		t, ok := b.peek()
		switch {
		case !ok:
			return nil, open.at(b.file, `"[" without a closing "]"`)
		case t.typ == shutList:
			b.next++
			return n, nil
		case t.typ == comma:
			return nil, t.at(b.file, `"," without a value before it`)
		}
		value, err := b.flowValue(open, t.position(), shutList)
		if err != nil {
			return nil, err
		}
		n.items = append(n.items, value)
		if err := b.flowNext(open, shutList); err != nil {
			return nil, err
		}
	}
}

// flowValue reads a value within { } or [ ]; nothing before "," or the end.
func (b *builder) flowValue(open tok, at Position, end token) (*node, *Error) {
	t, ok := b.peek()
	if !ok {
		return nil, open.at(b.file, "%s is never closed", open.describe())
	}
	if t.typ == end || t.typ == comma {
		return &node{Position: at}, nil
	}
	if t.typ == dash {
		return nil, t.at(b.file, "a list with dashes can't stand within { } or [ ]; write [a, b]")
	}
	return b.value(t, true)
}

// flowNext takes the "," after a value, or leaves the end for the caller.
func (b *builder) flowNext(open tok, end token) *Error {
	t, ok := b.peek()
	switch {
	case !ok:
		return open.at(b.file, "%s is never closed", open.describe())
	case t.typ == end:
		return nil
	case t.typ == comma:
		b.next++
		return nil
	case t.refused() != "":
		return b.misplaced(t)
	default:
		return t.at(b.file, `%s where "," or the closing bracket of the %s at %d:%d is expected`, t.describe(), open.describe(), open.line, open.col)
	}
}

// names keeps the keys of a mapping unique.
type names struct {
	b    *builder
	n    *node
	seen map[string]Position
}

func newNames(b *builder, n *node) *names { return &names{b: b, n: n, seen: map[string]Position{}} }

func (s *names) add(key tok, value *node) {
	at := key.position()
	if first, doubled := s.seen[key.text]; doubled {
		s.b.errs = append(s.b.errs, &Error{File: s.b.file, Line: at.Line, Column: at.Column, Message: fmt.Sprintf(
			"key %s stands twice in this mapping, first at %d:%d; remove one of them", shownKey(key.text), first.Line, first.Column)})
		return
	}
	s.seen[key.text] = at
	s.n.entries = append(s.n.entries, entry{name: key.text, Position: at, value: value})
}

// shownKey gives a key that stands twice for a message, unless it is nothing
// like a key or name.
func shownKey(text string) string {
	if len(text) == 0 || len(text) > 40 {
		return fmt.Sprintf("(%d characters)", len(text))
	}
	for _, r := range text {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
		default:
			return fmt.Sprintf("(%d characters, some of which no key has)", len(text))
		}
	}
	return fmt.Sprintf("%q", text)
}
