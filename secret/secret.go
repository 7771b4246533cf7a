// Package secret holds the one type that carries a credential through the
// process: a string that cannot be printed by accident.
//
// Everything that formats, logs or marshals a [String] gets "[redacted]". Who
// needs the bytes says so by calling [String.Reveal], which is what a reviewer
// greps for. It does not wipe memory: Go may have copied a string before it
// got here, and promising otherwise would be a lie.
package secret

import (
	"crypto/subtle"
	"fmt"
	"log/slog"
)

// Redacted is what is printed in place of a secret.
const Redacted = "[redacted]"

// String is a secret text: a token, a password, a seed. The zero value is the
// empty secret. Two of them compare by [String.Equal], not by ==.
//
// The text stands behind a pointer since fmt can't call the methods of an
// unexported field: it prints such a field's pointer, never what it points to.
type String struct{ at *string }

// New wraps s.
func New(s string) String { return String{&s} }

// Reveal returns the text itself. Its result must not reach a log line, an
// error, an event, a metric or a span.
func (s String) Reveal() string {
	if s.at == nil {
		return ""
	}
	return *s.at
}

// Equal tells whether both are the same text, in a time that does not depend on
// where they differ.
func (s String) Equal(o String) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(o.Reveal())) == 1
}

// IsZero tells whether there is no secret at all.
func (s String) IsZero() bool { return s.Reveal() == "" }

// String implements fmt.Stringer and gives [Redacted].
func (String) String() string { return Redacted }

// GoString implements fmt.GoStringer, so that %#v gives [Redacted] too.
func (String) GoString() string { return Redacted }

// Format implements fmt.Formatter: every verb gives [Redacted].
func (String) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(Redacted)) }

// LogValue implements slog.LogValuer and gives [Redacted].
func (String) LogValue() slog.Value { return slog.StringValue(Redacted) }

// MarshalText implements encoding.TextMarshaler (JSON, YAML and map keys use
// it) and gives [Redacted].
func (String) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// UnmarshalText reads the secret itself, so that configuration can hold one.
func (s *String) UnmarshalText(b []byte) error {
	*s = New(string(b))
	return nil
}

var (
	_ fmt.Formatter  = String{}
	_ slog.LogValuer = String{}
)
