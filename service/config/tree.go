package config

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"
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

// scalarType is what YAML takes a scalar for.
type scalarType uint8

const (
	plainText  scalarType = iota // a text without quotes
	quotedText                   // a text with quotes, or after | or >
	number
	truth // true or false
	pem   // certificates, the one text that may have lines
)

// node is a value in a file. The shapes read this tree and not the library's,
// so that they know nothing of tags, styles, aliases and keys of any type.
type node struct {
	kind
	Position
	typ     scalarType // of a scalar
	text    string     // of a scalar
	entries []entry    // of a mapping, in the order of the file, keys unique
	items   []*node    // of a list
}

// entry is a key of a mapping and its value.
type entry struct {
	name string
	Position
	value *node
}

// parseTree reads YAML as a tree: block and flow mappings, lists and scalars,
// one document. What it refuses: anchors, aliases, merge keys, tags, keys that
// are no scalars, directives, a key that stands twice in a mapping. The tree is
// nil after any of them but the last; a doubled key leaves the first of the two.
func parseTree(file string, src []byte) (*node, []*Error) {
	text, errs := checkText(file, src)
	if len(errs) > 0 {
		return nil, errs
	}
	if err := checkMarks(file, text); err != nil {
		return nil, []*Error{err}
	}
	d, failed := readDocument(file, text)
	if failed != nil {
		return nil, []*Error{failed}
	}
	b := &builder{document: d}
	root := &node{Position: Position{1, 1}}
	if d.root != nil {
		root = b.value(d.root, Position{1, 1}, 1)
	}
	if b.refused {
		return nil, b.errs
	}
	return root, b.errs
}

// builder makes the tree from the library's nodes.
type builder struct {
	*document
	errs    []*Error
	refused bool // something is not allowed; the tree is of no use
}

// refuse records a construct that YAML has and we don't.
func (b *builder) refuse(n *yaml.Node, format string, args ...any) {
	b.refused = true
	b.errs = append(b.errs, b.errorAt(b.position(n.Line, n.Column), format, args...))
}

// value gives the node for n. before is where its key or list stands, which is
// the place of a value that is left out.
func (b *builder) value(n *yaml.Node, before Position, depth int) *node {
	made := &node{Position: b.position(n.Line, n.Column)}
	switch {
	case depth > maxDepth:
		b.refuse(n, "%v", errTooDeep)
		return made
	case n.Kind == yaml.AliasNode:
		b.refuse(n, "an alias (*name); aliases are not allowed, write the value out (a text that begins with * needs quotes)")
		return made
	case n.Anchor != "":
		b.refuse(n, "an anchor (&name); anchors are not allowed, write the value out, or use defaults in a definitions file (a text that begins with & needs quotes)")
	case isTagged(n):
		b.refuse(n, "a tag (!...); tags are not allowed (a text that begins with ! needs quotes)")
	}
	switch n.Kind {
	case yaml.MappingNode:
		made.kind = mapping
		b.mapping(n, made, depth)
	case yaml.SequenceNode:
		made.kind = list
		for _, item := range n.Content {
			made.items = append(made.items, b.value(item, b.position(item.Line, item.Column), depth+1))
		}
	case yaml.ScalarNode:
		b.scalar(n, made, before)
	}
	return made
}

// isTagged tells whether a tag is written out: the library keeps a lone "!" as
// the tag, and marks the others by the style.
func isTagged(n *yaml.Node) bool { return n.Style&yaml.TaggedStyle != 0 || n.Tag == "!" }

// scalar fills in a scalar, or nothing.
func (b *builder) scalar(n *yaml.Node, made *node, before Position) {
	switch n.Tag {
	case "!!null":
		if n.Value == "" {
			made.Position = before
		}
		return // nothing, whatever way it is written
	case "!!bool":
		made.typ = truth
	case "!!int", "!!float":
		made.typ = number
	default:
		// A date too: it is a type of YAML 1.1 only.
		if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
			made.typ = quotedText
		}
	}
	made.kind, made.text = scalar, n.Value
	if isPEM(n.Value) {
		made.typ = pem
		return
	}
	if strings.ContainsFunc(n.Value, isControl) {
		b.refuse(n, `a text with a line break, tab or control character in it, which no key takes; write it on one line, or over several after ">-", which joins them with spaces`)
	}
}

// isPEM tells whether a text is a certificate over several lines.
func isPEM(text string) bool {
	return strings.HasPrefix(text, "-----BEGIN CERTIFICATE-----\n") && !strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && isControl(r) })
}

// mapping fills in the entries. The names are those that stand in the file.
func (b *builder) mapping(n *yaml.Node, made *node, depth int) {
	seen := make(map[string]Position, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if !b.isKey(n, key) {
			continue
		}
		at := b.position(key.Line, key.Column)
		value := b.value(n.Content[i+1], at, depth+1)
		if first, doubled := seen[key.Value]; doubled {
			b.errs = append(b.errs, b.errorAt(at, "key %s stands twice in this mapping, first at %d:%d; remove one of them",
				shownKey(key.Value), first.Line, first.Column))
			continue
		}
		seen[key.Value] = at
		made.entries = append(made.entries, entry{name: key.Value, Position: at, value: value})
	}
}

// isKey tells whether key can be one in the mapping n; if not, it has said why.
func (b *builder) isKey(n, key *yaml.Node) bool {
	switch {
	case key.Kind == yaml.MappingNode && n.Style&yaml.FlowStyle != 0 && key.Line == n.Line && key.Column == n.Column+1:
		b.refuse(n, `"{{" outside of quotes; put a template such as "{{username}}" in quotes`)
	case key.Kind == yaml.AliasNode:
		b.refuse(key, "an alias (*name) for a key; aliases are not allowed, write the key out")
	case key.Kind != yaml.ScalarNode:
		b.refuse(key, `a mapping or list where a key is expected; write "key: value"`)
	case key.Anchor != "":
		b.refuse(key, "an anchor (&name); anchors are not allowed")
	case isTagged(key):
		b.refuse(key, "a tag (!...); tags are not allowed")
	case key.Tag == "!!merge":
		b.refuse(key, "a merge key (<<); merging is not allowed, write the keys out, or use defaults in a definitions file")
	case key.Tag == "!!null" && key.Value == "":
		b.refuse(key, `":" without a key before it; expected "key: value"`)
	case strings.ContainsFunc(key.Value, isControl):
		b.refuse(key, "a key with a line break, tab or control character in it")
	case key.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) == 0 && strings.Contains(key.Value, ":"):
		// {a:1} is the key "a:1", and nobody means it.
		b.refuse(key, `a key with ":" in it; put a space after the colon, or the key in quotes`)
	default:
		return true
	}
	return false
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
