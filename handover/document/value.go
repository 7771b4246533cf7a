package document

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/leasesvc/leasesvc/secret"
)

// Kind is the kind of a [Value].
type Kind uint8

// The kinds of JSON.
const (
	Null Kind = iota
	Bool
	Number
	Text
	List
	Map
)

// String implements fmt.Stringer.
func (k Kind) String() string {
	return [...]string{"null", "boolean", "number", "text", "list", "map"}[min(k, Map)]
}

// MaxDepth is how many maps and lists may stand within each other.
const MaxDepth = 32

// ErrValue is wrapped when something is no value of a document.
var ErrValue = errors.New("not a value")

// Value is an immutable JSON-like tree. The zero Value is null. Any part of it
// may be secret, so nothing prints it: fmt, slog and encoding/json get
// "[redacted]".
type Value struct{ at *node }

// node holds what can be secret as a [secret.String]: behind a mere pointer fmt
// finds it, since a verb that does not suit a pointer (%s) makes it show what a
// pointer in an unexported field points to.
type node struct {
	kind   Kind
	text   secret.String // of a text; of a number or boolean as JSON writes it
	items  []Value
	fields map[string]Value
}

// FromAny makes a value of what a JSON or YAML decoder gives: nil, bool,
// string, [secret.String], [json.Number], Go's integers and floats, []any,
// map[string]any, map[any]any with texts for keys, and [Value]. Everything
// else, a number that is not finite, a text that is not UTF-8 and a tree deeper
// than [MaxDepth] is an [ErrValue].
func FromAny(x any) (Value, error) { return fromAny(x, nil, 0) }

func fromAny(x any, at *trail, depth int) (Value, error) {
	switch x := x.(type) {
	case nil:
		return Value{}, nil
	case Value:
		if x.depth()+depth > MaxDepth {
			return Value{}, tooDeep(at)
		}
		return x, nil
	case bool:
		return Value{&node{kind: Bool, text: secret.New(strconv.FormatBool(x))}}, nil
	case string:
		return textAt(x, at)
	case secret.String:
		return textAt(x.Reveal(), at)
	case json.Number:
		return numberAt(x.String(), at)
	case int:
		return numberAt(strconv.Itoa(x), at)
	case int64:
		return numberAt(strconv.FormatInt(x, 10), at)
	case uint64:
		return numberAt(strconv.FormatUint(x, 10), at)
	case float64:
		if math.IsInf(x, 0) || math.IsNaN(x) {
			return Value{}, fmt.Errorf("%w: the number at %s is not finite", ErrValue, at)
		}
		return numberAt(strconv.FormatFloat(x, 'g', -1, 64), at)
	case int8, int16, int32, uint, uint8, uint16, uint32:
		return numberAt(fmt.Sprint(x), at)
	case float32:
		return fromAny(float64(x), at, depth)
	case []any:
		return listAt(x, at, depth)
	case map[string]any:
		return mapAt(x, at, depth)
	case map[any]any:
		texts := make(map[string]any, len(x))
		for k, v := range x {
			s, ok := k.(string)
			if !ok {
				return Value{}, fmt.Errorf("%w: the map at %s has a key that is a %T; keys are texts", ErrValue, at, k)
			}
			texts[s] = v
		}
		return mapAt(texts, at, depth)
	}
	return Value{}, fmt.Errorf("%w: a %T at %s; documents hold null, booleans, numbers, texts, lists and maps", ErrValue, x, at)
}

func textAt(s string, at *trail) (Value, error) {
	if !utf8.ValidString(s) {
		return Value{}, fmt.Errorf("%w: the text at %s is not valid UTF-8", ErrValue, at)
	}
	return Value{&node{kind: Text, text: secret.New(s)}}, nil
}

func numberAt(s string, at *trail) (Value, error) {
	if s == "" || s[0] != '-' && (s[0] < '0' || s[0] > '9') || !json.Valid([]byte(s)) || s[len(s)-1] <= ' ' {
		return Value{}, fmt.Errorf("%w: the number at %s is not written as in JSON", ErrValue, at)
	}
	return Value{&node{kind: Number, text: secret.New(s)}}, nil
}

func tooDeep(at *trail) error {
	return fmt.Errorf("%w: what is at %s goes deeper than %d levels", ErrValue, at, MaxDepth)
}

func tooLong() error {
	return fmt.Errorf("%w: a path to it has more than %d bytes", ErrValue, MaxPath)
}

func listAt(xs []any, at *trail, depth int) (Value, error) {
	if depth >= MaxDepth {
		return Value{}, tooDeep(at)
	}
	if at.long() {
		return Value{}, tooLong()
	}
	n := &node{kind: List, items: make([]Value, len(xs))}
	for i, x := range xs {
		v, err := fromAny(x, at.index(i), depth+1)
		if err != nil {
			return Value{}, err
		}
		n.items[i] = v
	}
	return Value{n}, nil
}

func mapAt(xs map[string]any, at *trail, depth int) (Value, error) {
	if depth >= MaxDepth {
		return Value{}, tooDeep(at)
	}
	if at.long() {
		return Value{}, tooLong()
	}
	n := &node{kind: Map, fields: make(map[string]Value, len(xs))}
	for _, k := range slices.Sorted(maps.Keys(xs)) {
		if !utf8.ValidString(k) {
			return Value{}, fmt.Errorf("%w: the map at %s has a key that is not valid UTF-8", ErrValue, at)
		}
		v, err := fromAny(xs[k], at.key(k), depth+1)
		if err != nil {
			return Value{}, err
		}
		n.fields[k] = v
	}
	return Value{n}, nil
}

// Kind gives the value's kind.
func (v Value) Kind() Kind {
	if v.at == nil {
		return Null
	}
	return v.at.kind
}

// Len gives how many items a list or fields a map has; 0 for all else.
func (v Value) Len() int {
	if v.at == nil {
		return 0
	}
	return len(v.at.items) + len(v.at.fields)
}

// Text gives the text of a text, and of a number as JSON writes it. ok is
// false for every other kind.
func (v Value) Text() (s secret.String, ok bool) {
	if k := v.Kind(); k != Text && k != Number {
		return secret.String{}, false
	}
	return v.at.text, true
}

// At gives the value at a path; [ErrNoPlace].
func (v Value) At(p Path) (Value, error) {
	for _, step := range p.Steps() {
		next, err := v.step(step)
		if err != nil {
			return Value{}, fmt.Errorf("%s: %w: %w", p, ErrNoPlace, err)
		}
		v = next
	}
	return v, nil
}

// Equal tells whether both are the same tree. Numbers are the same when they
// are written the same: 1 and 1.0 differ.
func (v Value) Equal(o Value) bool {
	if v.at == o.at {
		return true
	}
	if v.Kind() != o.Kind() || v.Kind() == Null {
		return v.Kind() == o.Kind()
	}
	return v.at.text.Reveal() == o.at.text.Reveal() &&
		slices.EqualFunc(v.at.items, o.at.items, Value.Equal) &&
		maps.EqualFunc(v.at.fields, o.at.fields, Value.Equal)
}

// Reveal gives the tree itself: nil, bool, string, [json.Number], []any and
// map[string]any, the caller's to change. It must not reach a log line, an
// error, an event, a metric or a span.
func (v Value) Reveal() any {
	switch v.Kind() {
	case Bool:
		return v.at.text.Reveal() == "true"
	case Number:
		return json.Number(v.at.text.Reveal())
	case Text:
		return v.at.text.Reveal()
	case List:
		xs := make([]any, len(v.at.items))
		for i, item := range v.at.items {
			xs[i] = item.Reveal()
		}
		return xs
	case Map:
		xs := make(map[string]any, len(v.at.fields))
		for k, field := range v.at.fields {
			xs[k] = field.Reveal()
		}
		return xs
	default: // Null
		return nil
	}
}

func (v Value) keys() []string { return slices.Sorted(maps.Keys(v.at.fields)) }

func (v Value) depth() (deepest int) {
	switch v.Kind() {
	case List:
		for _, item := range v.at.items {
			deepest = max(deepest, item.depth())
		}
		return deepest + 1
	case Map:
		for _, field := range v.at.fields {
			deepest = max(deepest, field.depth())
		}
		return deepest + 1
	default:
		return 0
	}
}

// String implements fmt.Stringer and gives "[redacted]".
func (Value) String() string { return secret.Redacted }

// GoString implements fmt.GoStringer and gives "[redacted]".
func (Value) GoString() string { return secret.Redacted }

// Format implements fmt.Formatter: every verb gives "[redacted]".
func (Value) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(secret.Redacted)) }

// LogValue implements slog.LogValuer and gives "[redacted]".
func (Value) LogValue() slog.Value { return slog.StringValue(secret.Redacted) }

// MarshalText implements encoding.TextMarshaler and gives "[redacted]";
// [Value.Encode] gives the JSON.
func (Value) MarshalText() ([]byte, error) { return []byte(secret.Redacted), nil }

// Values are the values of a lease by key. Presence decides, not truth (L54): a
// key whose value is false, zero or null is there.
type Values map[string]Value

// String implements fmt.Stringer: how many there are, not which.
func (v Values) String() string { return fmt.Sprintf("%d values", len(v)) }

// GoString implements fmt.GoStringer.
func (v Values) GoString() string { return v.String() }
