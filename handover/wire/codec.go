package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Version is the protocol version that this package speaks. Every message
// carries one.
const Version = 1

// MaxBytes bounds a message, sealed or not.
const MaxBytes = 1 << 20

// What can be wrong with a message, for errors.Is.
var (
	// ErrVersion: the message is of a later version than [Version].
	ErrVersion = errors.New("message of a later protocol version")
	// ErrMalformed: not JSON, another type of message, or a field that is
	// missing or out of range.
	ErrMalformed = errors.New("malformed message")
	// ErrTooLarge: more than [MaxBytes].
	ErrTooLarge = errors.New("message larger than 1 MiB")
)

// Body is a message of the protocol: what [Encode] writes and [Decode] reads.
type Body interface {
	// Type is the message's name on the wire.
	Type() string
	check() error
}

// Encode gives m as JSON, with its version and type in front. It refuses a
// message that [Decode] would refuse.
func Encode(m Body) ([]byte, error) {
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("encoding %s: %w", m.Type(), err)
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false) // values must not grow six-fold, nor change their bytes
	if err := enc.Encode(m); err != nil {
		// The error may quote a value, so it is not wrapped.
		return nil, fmt.Errorf("encoding %s: %w: a raw value is not JSON", m.Type(), ErrMalformed)
	}
	fields := bytes.TrimSuffix(buf.Bytes(), []byte("\n"))[1:]
	head := fmt.Appendf(nil, `{"v":%d,"type":%q`, Version, m.Type())
	if fields[0] != '}' {
		head = append(head, ',')
	}
	out := append(head, fields...)
	if len(out) > MaxBytes {
		return nil, fmt.Errorf("encoding %s: %w", m.Type(), ErrTooLarge)
	}
	return out, nil
}

// Decode reads a message of type M. Its errors wrap [ErrTooLarge],
// [ErrMalformed] or [ErrVersion] and quote nothing of the message's values.
func Decode[M Body](data []byte) (M, error) {
	var m, zero M
	typ := m.Type()
	if len(data) > MaxBytes {
		return zero, fmt.Errorf("decoding %s: %w", typ, ErrTooLarge)
	}
	if s, ok := any(&m).(scanner); ok && s.scan(data) {
		if err := m.check(); err != nil {
			return zero, fmt.Errorf("decoding %s: %w", typ, err)
		}
		return m, nil
	}
	var head struct {
		V    int    `json:"v"`
		Type string `json:"type"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return zero, fmt.Errorf("decoding %s: %w: not a JSON object with v and type", typ, ErrMalformed)
	}
	switch {
	case head.V > Version:
		return zero, fmt.Errorf("decoding %s: %w: %d, this side speaks %d: upgrade it", typ, ErrVersion, head.V, Version)
	case head.V < 1:
		return zero, fmt.Errorf("decoding %s: %w: no version", typ, ErrMalformed)
	case head.Type != typ:
		return zero, fmt.Errorf("decoding %s: %w: its type is %q", typ, ErrMalformed, clip(head.Type, 40))
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return zero, fmt.Errorf("decoding %s: %w: %s", typ, ErrMalformed, fieldOf(err))
	}
	if err := m.check(); err != nil {
		return zero, fmt.Errorf("decoding %s: %w", typ, err)
	}
	return m, nil
}

// fieldOf says where decoding stopped without quoting what stood there.
func fieldOf(err error) string {
	var typeErr *json.UnmarshalTypeError
	if errors.As(err, &typeErr) {
		return "field " + typeErr.Field + " has another JSON type"
	}
	if errors.Is(err, ErrSeconds) {
		return "a field ending in _s is " + ErrSeconds.Error()
	}
	return "not JSON of this message"
}

// malformed gives an error that wraps [ErrMalformed].
func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrMalformed, fmt.Errorf(format, args...))
}

// checkValues wants an object or nothing.
func checkValues(raw Values) error {
	trimmed := bytes.TrimLeft(raw, " \t\r\n")
	if len(trimmed) == 0 || trimmed[0] == '{' {
		return nil
	}
	return malformed("values are not a JSON object")
}

// checkText bounds free text.
func checkText(what, s string, limit int) error {
	if len(s) > limit {
		return malformed("%s is longer than %d bytes", what, limit)
	}
	return nil
}
