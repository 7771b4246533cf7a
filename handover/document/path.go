package document

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxPath bounds the text of a path, in bytes. No place of a document may have a
// longer one.
const MaxPath = 1024

// ErrPath is wrapped when a text is no path.
var ErrPath = errors.New("not a path")

// Path leads from the root of a document to a place in it by typed steps: keys
// of maps and indexes of lists (L40). It is written db.servers[0].password; a
// key that is not a letter or underscore followed by letters, digits,
// underscores and hyphens stands in brackets as JSON writes a text:
// [0] is the first item of a list, ["0"] is the field 0 of a map. The root is
// written $.
//
// A path is immutable, comparable by == and a key for maps; the zero Path is
// the root.
type Path struct{ text string }

// Step is one step of a path: the key of a map or the index of a list.
type Step struct {
	Key   string
	Index int
	// IsIndex tells an index from a key.
	IsIndex bool
}

// Key gives the path to the field key below p. Key must be valid UTF-8.
func (p Path) Key(key string) Path {
	switch {
	case !plain(key):
		return Path{p.text + "[" + quote(key) + "]"}
	case p.text == "":
		return Path{key}
	}
	return Path{p.text + "." + key}
}

// Index gives the path to the item i below p, the first being 0. It panics when
// i is negative.
func (p Path) Index(i int) Path {
	if i < 0 {
		panic("document: an index of a list can't be negative")
	}
	return Path{p.text + "[" + strconv.Itoa(i) + "]"}
}

// IsRoot tells whether p leads nowhere but to the root.
func (p Path) IsRoot() bool { return p.text == "" }

// String gives the path as [ParsePath] reads it, in ASCII.
func (p Path) String() string {
	if p.text == "" {
		return "$"
	}
	return p.text
}

// Steps gives the steps from the root on.
func (p Path) Steps() []Step {
	steps, err := parseSteps(p.text)
	if err != nil {
		panic("document: a path was not made by this package: " + err.Error())
	}
	return steps
}

// under gives p as seen from the root when it is now seen from o.
func (p Path) under(o Path) Path {
	if o.text == "" || p.text == "" || p.text[0] == '[' {
		return Path{o.text + p.text}
	}
	return Path{o.text + "." + p.text}
}

func (p Path) compare(o Path) int { return strings.Compare(p.text, o.text) }

// MarshalText implements encoding.TextMarshaler.
func (p Path) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Path) UnmarshalText(b []byte) (err error) {
	*p, err = ParsePath(string(b))
	return err
}

// ParsePath reads a path. What is not written as [Path.String] would, but
// means the same (["db"] for db), gives the same path. Everything else is an
// [ErrPath].
func ParsePath(s string) (Path, error) {
	switch {
	case s == "$":
		return Path{}, nil
	case s == "":
		return Path{}, fmt.Errorf("%w: it is empty; the root is written $", ErrPath)
	case len(s) > MaxPath:
		return Path{}, fmt.Errorf("%w: it has %d bytes, at most %d are allowed", ErrPath, len(s), MaxPath)
	case !utf8.ValidString(s):
		return Path{}, fmt.Errorf("%w: it is not valid UTF-8", ErrPath)
	}
	steps, err := parseSteps(s)
	if err != nil {
		return Path{}, err
	}
	if len(steps) > MaxDepth {
		return Path{}, fmt.Errorf("%w: it has %d steps, at most %d are allowed", ErrPath, len(steps), MaxDepth)
	}
	return join(steps), nil
}

func join(steps []Step) (p Path) {
	for _, step := range steps {
		if step.IsIndex {
			p = p.Index(step.Index)
		} else {
			p = p.Key(step.Key)
		}
	}
	return p
}

func parseSteps(s string) (steps []Step, err error) {
	for at := 0; at < len(s); {
		var step Step
		var n int
		if s[at] == '[' {
			step, n, err = bracketed(s[at:])
		} else {
			step, n, err = dotted(s[at:], at == 0)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: at byte %d %w", ErrPath, at, err)
		}
		steps, at = append(steps, step), at+n
	}
	return steps, nil
}

func dotted(s string, first bool) (Step, int, error) {
	key := s
	if !first {
		var ok bool
		if key, ok = strings.CutPrefix(s, "."); !ok {
			return Step{}, 0, errors.New("a dot or a bracket is missing")
		}
	}
	skipped := len(s) - len(key)
	if end := strings.IndexAny(key, ".["); end >= 0 {
		key = key[:end]
	}
	if !plain(key) {
		return Step{}, 0, errors.New(`a key must be a letter or underscore followed by letters, digits, underscores and hyphens; any other key is written ["like this"], an index [0]`)
	}
	return Step{Key: key}, skipped + len(key), nil
}

func bracketed(s string) (Step, int, error) {
	if strings.HasPrefix(s, `["`) {
		end := 1 + quoted(s[1:])
		var key string
		if err := json.Unmarshal([]byte(s[1:end]), &key); err != nil {
			return Step{}, 0, errors.New("a key in brackets is not written as JSON writes a text")
		}
		// What JSON can't decode it replaces, which would be another key.
		if strings.Contains(key, "\uFFFD") && !strings.Contains(s[:end], "\uFFFD") && !strings.Contains(strings.ToLower(s[:end]), `\ufffd`) {
			return Step{}, 0, errors.New("a key in brackets has half of a surrogate pair")
		}
		if !strings.HasPrefix(s[end:], "]") {
			return Step{}, 0, errors.New("a bracket is not closed")
		}
		return Step{Key: key}, end + 1, nil
	}
	digits, _, closed := strings.Cut(s[1:], "]")
	i, err := strconv.ParseInt(digits, 10, 32)
	switch {
	case !closed:
		return Step{}, 0, errors.New("a bracket is not closed")
	case err != nil, strconv.FormatInt(i, 10) != digits, i < 0:
		return Step{}, 0, errors.New("an index is not a whole number from 0 on")
	}
	return Step{Index: int(i), IsIndex: true}, len(digits) + 2, nil
}

// quoted gives the length of the text in quotes that s begins with.
func quoted(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(s)
}

// plain tells whether a key can stand without quotes.
func plain(key string) bool {
	for i, c := range []byte(key) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		if !letter && (i == 0 || c != '-' && (c < '0' || c > '9')) {
			return false
		}
	}
	return key != ""
}

// quote writes a key as JSON writes a text, in ASCII: paths reach terminals and
// log lines, where other characters can hide or reorder what is written.
func quote(key string) string {
	b := []byte{'"'}
	for _, r := range key {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < unicode.MaxASCII && r >= ' ':
			b = append(b, byte(r))
		case r > 0xFFFF:
			hi, lo := utf16.EncodeRune(r)
			b = fmt.Appendf(b, `\u%04x\u%04x`, hi, lo)
		default:
			b = fmt.Appendf(b, `\u%04x`, r)
		}
	}
	return string(append(b, '"'))
}
