package wire

import (
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/leasesvc/leasesvc/secret"
)

// Values is a credential: a JSON object as Vault gave it, byte for byte. It
// marshals as what it is, for the wire, and prints as [secret.Redacted].
type Values json.RawMessage

// MarshalJSON implements json.Marshaler.
func (v Values) MarshalJSON() ([]byte, error) { return json.RawMessage(v).MarshalJSON() }

// UnmarshalJSON implements json.Unmarshaler.
func (v *Values) UnmarshalJSON(b []byte) error { return (*json.RawMessage)(v).UnmarshalJSON(b) }

// String implements fmt.Stringer: [secret.Redacted].
func (Values) String() string { return secret.Redacted }

// Format implements fmt.Formatter: every verb gives [secret.Redacted].
func (Values) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(secret.Redacted)) }

// LogValue implements slog.LogValuer: [secret.Redacted].
func (Values) LogValue() slog.Value { return slog.StringValue(secret.Redacted) }

// LogValue implements slog.LogValuer: what the message asks, never the values.
func (m Message) LogValue() slog.Value {
	return slog.GroupValue(slog.String("kind", string(m.Kind)), slog.String("scope", m.Scope), slog.String("name", m.Name),
		slog.Uint64("epoch", m.Epoch), slog.Uint64("n", m.N), slog.Uint64("lease", m.Lease))
}

// LogValue implements slog.LogValuer: never the values.
func (a Answer) LogValue() slog.Value {
	return slog.GroupValue(slog.String("scope", a.Scope), slog.String("name", a.Name),
		slog.Uint64("epoch", a.Epoch), slog.Uint64("n", a.N), slog.Uint64("lease", a.Lease))
}

// LogValue implements slog.LogValuer: never the values.
func (g Got) LogValue() slog.Value {
	return slog.GroupValue(slog.String("scope", g.Scope), slog.String("name", g.Name),
		slog.Uint64("epoch", g.Epoch), slog.Uint64("n", g.N), slog.Uint64("lease", g.Lease))
}
