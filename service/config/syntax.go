package config

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

const (
	noDirectives = "a directive (%...); directives are not allowed"
	panicked     = "the YAML library gave up on this file without saying why; report the file's shape, without its secrets"
	otherSyntax  = "is not YAML from here on; check the indentation and the quotes, a value with special characters needs quotes"
)

// syntaxMistake is a mistake that the library finds, in our words. The library's
// own are for those who know its grammar, and may hold what the file has.
type syntaxMistake struct {
	within  string // begins what the library was doing; "" is anything
	message string // begins what it says is wrong
	begin   bool   // the mistake is where within began, not where it showed
	bracket bool   // within begins with a bracket
	ours    string
}

// syntaxMistakes are looked through in order; TestSyntaxMistakes has a file for
// each.
var syntaxMistakes = []syntaxMistake{
	{"", errTooDeep.Error(), false, false, errTooDeep.Error()},
	{"while scanning a quoted scalar", "found unexpected", true, false, "a text that begins with a quote has no closing quote"},
	{"while scanning a quoted scalar", "", false, false, `an escape that is not allowed between double quotes; write \\ for a backslash, or use single quotes, which have no escapes`},
	{"while scanning a simple key", "could not find expected ':'", true, false, `a text without ": " after it; expected "key: value"`},
	{"while scanning a directive", "", true, false, noDirectives},
	{"while scanning a %", "", true, false, noDirectives},
	{"while parsing a %", "", true, false, noDirectives},
	{"", "found incompatible YAML document", false, false, noDirectives},
	{"", "found duplicate %", false, false, noDirectives},
	{"while scanning an anchor", "", true, false, "an anchor (&name); anchors are not allowed (a text that begins with & needs quotes)"},
	{"while scanning an alias", "", true, false, "an alias (*name); aliases are not allowed (a text that begins with * needs quotes)"},
	{"", "unknown anchor", false, false, "an alias (*name); aliases are not allowed, write the value out (a text that begins with * needs quotes)"},
	{"while scanning a tag", "", true, false, "a tag (!...); tags are not allowed (a text that begins with ! needs quotes)"},
	{"while parsing a tag", "", true, false, "a tag (!...); tags are not allowed (a text that begins with ! needs quotes)"},
	{"while parsing a node", "found undefined tag handle", true, false, "a tag (!...); tags are not allowed (a text that begins with ! needs quotes)"},
	{"while scanning a block scalar", "", true, false, `"|" or ">" begins a text over several lines, which does not follow; a text that begins with | or > needs quotes`},
	{"", "found a comment without preceding whitespace", false, false, `"#" right after a value; put a space before a comment, or quotes around a text`},
	{"", "found a tab", false, false, "a tab where only spaces are allowed"},
	{"", "found character that cannot start any token", false, false, "a text that begins with @, ` or %, or with a tab; put it in quotes"},
	{"", "mapping values are not allowed", false, false, `": " is not expected here; put a value that holds ": " in quotes, and begin the keys of one mapping in the same column`},
	{"", "mapping keys are not allowed", false, false, `"?" is not expected here; write "key: value"`},
	{"", "block sequence entries are not allowed", false, false, `a list ("- ...") begins on a line of its own; within a line write [a, b]`},
	{"while parsing a flow mapping", "", false, true, `"," or "}" is expected here; a value with special characters needs quotes`},
	{"while parsing a flow sequence", "", false, true, `"," or "]" is expected here; a value with special characters needs quotes`},
	{"while parsing a flow node", "", false, false, `a value is expected here, before the next "," or bracket`},
	{"while parsing a block mapping", "", false, false, `a "key: value" is expected here; keys of one mapping begin in the same column, and a value with special characters needs quotes`},
	{"while parsing a block collection", "", false, false, `a "- value" is expected here; check the indentation: the dashes of a list begin in the same column`},
	{"while parsing a block node", "", false, false, "a value is expected here"},
	{"", "did not find expected <document start>", false, false, "is not expected after the value before it; check the indentation, a file has one document"},
	{"", "found unexpected content after document-end", false, false, `text after the document's end ("...")`},
}

// syntaxError gives what the library found in our words. Nothing of its message
// gets through: it can quote the file.
func (d *document) syntaxError(err error) *Error {
	var e *yaml.LoadError
	if !errors.As(err, &e) {
		return d.errorAt(Position{1, 1}, "%s", otherSyntax)
	}
	at := d.position(e.Mark.Line, e.Mark.Column)
	i := mistake(e)
	if i < 0 {
		return d.errorAt(at, "%s", otherSyntax)
	}
	m, begin := syntaxMistakes[i], d.position(e.ContextMark.Line, e.ContextMark.Column)
	switch {
	case strings.HasPrefix(m.within, "while parsing a flow") && d.isEnd(e.Mark):
		if m.bracket {
			at = begin
		}
		return d.errorAt(at, `"{" or "[" is never closed`)
	case e.ContextMark.Line == 0:
	case m.begin:
		at = begin
	case m.bracket:
		return d.errorAt(at, "%s (after the bracket at %d:%d)", m.ours, begin.Line, begin.Column)
	}
	return d.errorAt(at, "%s", m.ours)
}

// mistake gives the index of what the library found, -1 if it is none we know.
func mistake(e *yaml.LoadError) int {
	return slices.IndexFunc(syntaxMistakes, func(m syntaxMistake) bool {
		return strings.HasPrefix(e.ContextMsg, m.within) && strings.HasPrefix(e.Message, m.message)
	})
}

// isEnd tells whether nothing of the file is left at m.
func (d *document) isEnd(m yaml.Mark) bool {
	return m.Line > d.lines || m.Line == d.lines && m.Column > utf8.RuneCountInString(d.text[strings.LastIndexByte(d.text, '\n')+1:])
}
