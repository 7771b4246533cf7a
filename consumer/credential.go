package consumer

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/leasesvc/leasesvc/handover/wire"
	"github.com/leasesvc/leasesvc/secret"
)

// Credential is what a lease gives. It prints without its values; the zero
// value is "none".
type Credential struct {
	Scope, Name string
	// Lease is the service's number of the lease; 0: none.
	Lease uint64
	// Epoch and N are where in the protocol it came from.
	Epoch, N uint64
	// Public is the part that may be logged, such as the user name; it can be
	// empty.
	Public string
	// ExpiresAt is when the lease ends unless it is renewed; zero: never.
	ExpiresAt time.Time
	// GoodUntil is how long [Client.Get]'s answer may be relied on before it
	// is asked for again; zero in a hand-over, which says itself when to move.
	GoodUntil time.Time

	values map[string]json.RawMessage
}

func newCredential(scope, name string, values wire.Values) (Credential, error) {
	c := Credential{Scope: scope, Name: name}
	if len(values) == 0 {
		return c, nil
	}
	if err := json.Unmarshal(values, &c.values); err != nil {
		return Credential{}, fmt.Errorf("credential of %s/%s: %w", scope, name, wire.ErrMalformed)
	}
	return c, nil
}

// None tells whether there is no credential at all.
func (c Credential) None() bool { return c.Lease == 0 }

// Keys lists the keys, sorted.
func (c Credential) Keys() []string { return slices.Sorted(maps.Keys(c.values)) }

// Get gives the value of a key: a JSON string as its text, anything else (a
// number of any length, false, null, a list, an object) as its JSON. ok tells
// whether the key is there, whatever its value (L54).
func (c Credential) Get(key string) (value secret.String, ok bool) {
	raw, ok := c.values[key]
	if !ok {
		return secret.String{}, false
	}
	var text string
	if len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &text) == nil {
		return secret.New(text), true
	}
	return secret.New(string(raw)), true
}

// JSON gives the value of a key as JSON, a text in its quotes: unlike
// [Credential.Get] it tells "1" from 1.
func (c Credential) JSON(key string) (value secret.String, ok bool) {
	raw, ok := c.values[key]
	return secret.New(string(raw)), ok
}

// String says which credential it is, without its values.
func (c Credential) String() string {
	if c.None() {
		return fmt.Sprintf("%s/%s: none", c.Scope, c.Name)
	}
	s := fmt.Sprintf("%s/%s lease %d", c.Scope, c.Name, c.Lease)
	if c.Public != "" {
		s += " (" + c.Public + ")"
	}
	return s
}

// Format implements fmt.Formatter: every verb gives [Credential.String].
func (c Credential) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(c.String())) }

// LogValue implements slog.LogValuer, without the values.
func (c Credential) LogValue() slog.Value {
	return slog.GroupValue(slog.String("scope", c.Scope), slog.String("name", c.Name),
		slog.Uint64("lease", c.Lease), slog.String("public", c.Public))
}

// expiry turns what is left into a time, counted from at.
func expiry(at time.Time, left *wire.Seconds) time.Time {
	if left == nil {
		return time.Time{}
	}
	return at.Add(left.Duration())
}

// encoded gives the values as they were, up to order and space.
func (c Credential) encoded() wire.Values {
	data, err := json.Marshal(c.values)
	if err != nil {
		return nil // cannot be: each value was JSON before
	}
	return data
}
