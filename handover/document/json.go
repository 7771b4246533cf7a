package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxBytes bounds the JSON of a document, in bytes.
const MaxBytes = 512 << 10

// ErrMalformed is wrapped when something is not the JSON that [Parse] takes.
var ErrMalformed = errors.New("not a JSON document")

// Parse reads JSON (RFC 8259, UTF-8), strictly: an object with a key twice,
// half of a surrogate pair, something after the value, more than [MaxBytes]
// or more than [MaxDepth] levels are an [ErrMalformed]. Numbers stay as they
// are written. Errors tell positions, never content.
func Parse(data []byte) (Value, error) {
	if len(data) > MaxBytes {
		return Value{}, fmt.Errorf("%w: it has %d bytes, at most %d are allowed", ErrMalformed, len(data), MaxBytes)
	}
	if !utf8.Valid(data) {
		return Value{}, fmt.Errorf("%w: it is not valid UTF-8", ErrMalformed)
	}
	p := parser{dec: json.NewDecoder(bytes.NewReader(data))}
	p.dec.UseNumber()
	p.replacements = bytes.Count(data, []byte("\uFFFD")) + bytes.Count(bytes.ToLower(data), []byte(`\ufffd`))
	v, err := p.value(nil, 0)
	if err != nil {
		return Value{}, err
	}
	if p.replacements < 0 {
		return Value{}, fmt.Errorf("%w: a text or key has half of a surrogate pair", ErrMalformed)
	}
	// The decoder reads tokens; what follows the value must be nothing.
	if !json.Valid(data) {
		return Value{}, fmt.Errorf("%w: something follows it at byte %d", ErrMalformed, p.dec.InputOffset())
	}
	return v, nil
}

type parser struct {
	dec *json.Decoder
	// replacements counts the replacement characters that were written down.
	// One that was read and not written stands for half of a surrogate pair.
	replacements int
}

func (p *parser) token() (json.Token, error) {
	t, err := p.dec.Token()
	if err != nil { // its text quotes the input
		return nil, fmt.Errorf("%w: something is wrong at byte %d", ErrMalformed, p.dec.InputOffset())
	}
	if s, ok := t.(string); ok {
		p.replacements -= strings.Count(s, "\uFFFD")
	}
	return t, nil
}

func (p *parser) value(at *trail, depth int) (Value, error) {
	t, err := p.token()
	if err != nil {
		return Value{}, err
	}
	delim, ok := t.(json.Delim)
	if !ok {
		return fromAny(t, at, depth)
	}
	if at.long() {
		return Value{}, fmt.Errorf("%w: a path in it has more than %d bytes", ErrMalformed, MaxPath)
	}
	if depth >= MaxDepth {
		return Value{}, fmt.Errorf("%w: %s lies deeper than %d levels", ErrMalformed, at, MaxDepth)
	}
	switch delim {
	case '[':
		return p.list(at, depth)
	case '{':
		return p.object(at, depth)
	}
	return Value{}, fmt.Errorf("%w: something is wrong at byte %d", ErrMalformed, p.dec.InputOffset())
}

func (p *parser) list(at *trail, depth int) (Value, error) {
	n := &node{kind: List}
	for p.dec.More() {
		v, err := p.value(at.index(len(n.items)), depth+1)
		if err != nil {
			return Value{}, err
		}
		n.items = append(n.items, v)
	}
	_, err := p.token()
	return Value{n}, err
}

func (p *parser) object(at *trail, depth int) (Value, error) {
	n := &node{kind: Map, fields: map[string]Value{}}
	for p.dec.More() {
		t, err := p.token()
		if err != nil {
			return Value{}, err
		}
		key, ok := t.(string)
		if !ok {
			return Value{}, fmt.Errorf("%w: something is wrong at byte %d", ErrMalformed, p.dec.InputOffset())
		}
		if _, twice := n.fields[key]; twice {
			return Value{}, fmt.Errorf("%w: the key %s stands twice", ErrMalformed, at.key(key))
		}
		if n.fields[key], err = p.value(at.key(key), depth+1); err != nil {
			return Value{}, err
		}
	}
	_, err := p.token()
	return Value{n}, err
}

// ParseValues reads the values of a lease: a JSON object.
func ParseValues(data []byte) (Values, error) {
	v, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("reading the values of a lease: %w", err)
	}
	if v.Kind() != Map {
		return nil, fmt.Errorf("reading the values of a lease: %w: a %s; an object is needed", ErrMalformed, v.Kind())
	}
	return v.at.fields, nil
}

// Encode gives the JSON of the tree, keys sorted and nothing between the
// tokens, so that equal trees give equal bytes. They hold every value: seal
// them before they leave.
func (v Value) Encode() []byte { return v.appendJSON(nil) }

func (v Value) appendJSON(b []byte) []byte {
	switch v.Kind() {
	case Bool, Number:
		return append(b, v.at.text.Reveal()...)
	case Text:
		return appendText(b, v.at.text.Reveal())
	case List:
		b = append(b, '[')
		for i, item := range v.at.items {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.appendJSON(b)
		}
		return append(b, ']')
	case Map:
		b = append(b, '{')
		for i, k := range v.keys() {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendText(b, k), ':')
			b = v.at.fields[k].appendJSON(b)
		}
		return append(b, '}')
	default: // Null
		return append(b, "null"...)
	}
}

func appendText(b []byte, s string) []byte {
	out := bytes.NewBuffer(b)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic("document: a string always encodes: " + err.Error())
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}
