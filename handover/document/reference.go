package document

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Scheme tells where a reference's value comes from.
type Scheme string

// The schemes.
const (
	Lease       Scheme = "lease"
	Vault       Scheme = "vault"
	Environment Scheme = "env"
)

var schemes = [...]Scheme{Lease, Vault, Environment}

// ErrReference is wrapped when a text that begins as a reference is none.
var ErrReference = errors.New("not a reference")

// Reference stands for a value: lease://name#key, vault://path#key or
// env://VARIABLE. It holds no value, so it may be printed; it is comparable.
type Reference struct {
	Scheme Scheme
	// Name is the lease's name, the path in Vault or the variable's name.
	Name string
	// Key is the key within the lease or the secret; empty for a variable.
	Key string
}

// LeaseKey gives the reference lease://name#key, unchecked.
func LeaseKey(name, key string) Reference { return Reference{Lease, name, key} }

// String gives the reference as [ParseReference] reads it.
func (r Reference) String() string {
	if r.Scheme == Environment {
		return string(r.Scheme) + "://" + r.Name
	}
	return string(r.Scheme) + "://" + r.Name + "#" + r.Key
}

// IsReference tells whether a text begins with one of the schemes and ://, so
// that [ParseReference] must be able to read it.
func IsReference(s string) bool {
	for _, scheme := range schemes {
		if strings.HasPrefix(s, string(scheme)+"://") {
			return true
		}
	}
	return false
}

// ParseReference reads a reference. Nothing in it is decoded or trimmed: the
// name or path ends at the first #, the key is all that follows. Errors are
// [ErrReference] and don't repeat the text, which may be a secret put in the
// wrong place.
func ParseReference(s string) (Reference, error) {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || !IsReference(s) {
		return Reference{}, fmt.Errorf("%w: it begins with none of lease://, vault:// and env://", ErrReference)
	}
	r := Reference{Scheme: Scheme(scheme), Name: rest}
	keyed := true
	if r.Scheme != Environment {
		r.Name, r.Key, keyed = strings.Cut(rest, "#")
	}
	if !keyed || r.Scheme != Environment && r.Key == "" {
		return Reference{}, fmt.Errorf("%w: a %s reference ends with # and a key", ErrReference, scheme)
	}
	if err := r.check(); err != nil {
		return Reference{}, fmt.Errorf("%w: %w", ErrReference, err)
	}
	return r, nil
}

func (r Reference) check() error {
	if r.Scheme != Environment && (len(r.Key) > 256 || !printable(r.Key)) {
		return errors.New("a key has at most 256 bytes of UTF-8 that can be printed")
	}
	switch r.Scheme {
	case Lease:
		return checkName(r.Name)
	case Vault:
		return checkVaultPath(r.Name)
	case Environment:
	}
	return checkVariable(r.Name)
}

// checkName holds for names of leases and of documents (events.CheckName is the
// same, which this package must not know).
func checkName(s string) error {
	for i, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && (c != '-' || i == 0) {
			return errors.New("a name has letters, digits and hyphens, a letter or digit first")
		}
	}
	if s == "" || len(s) > 64 {
		return errors.New("a name has 1 to 64 characters")
	}
	return nil
}

func checkVaultPath(s string) error {
	if s == "" || len(s) > 512 || !printable(s) || strings.ContainsAny(s, "?\\ ") {
		return errors.New("a path in Vault has 1 to 512 bytes that can be printed, without spaces, ? and backslashes")
	}
	for part := range strings.SplitSeq(s, "/") {
		if part == "" || part == "." || part == ".." {
			return errors.New("a path in Vault has no empty parts, no . and no .. between its slashes")
		}
	}
	return nil
}

func checkVariable(s string) error {
	for i, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return errors.New("a variable has letters, digits and underscores, no digit first")
		}
	}
	if s == "" || len(s) > 128 {
		return errors.New("a variable's name has 1 to 128 characters")
	}
	return nil
}

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// chainOf reads what stands at a place: a reference alone is a chain of one, a
// list of nothing but references is a fallback chain (L45). nil means that it
// is neither.
func chainOf(v Value) ([]Reference, error) {
	if !isChain(v) {
		return nil, nil
	}
	if v.Kind() == Text {
		ref, err := ParseReference(v.at.text.Reveal())
		if err != nil {
			return nil, err
		}
		return []Reference{ref}, nil
	}
	return fallbackOf(v.at.items)
}

// isChain tells whether references stand at a place, well written or not.
func isChain(v Value) bool {
	switch v.Kind() {
	case Text:
		return IsReference(v.at.text.Reveal())
	case List:
		for _, item := range v.at.items {
			if item.Kind() != Text || !IsReference(item.at.text.Reveal()) {
				return false
			}
		}
		return len(v.at.items) > 0
	default:
		return false
	}
}

func fallbackOf(items []Value) ([]Reference, error) {
	var chain []Reference
	for i, item := range items {
		ref, err := ParseReference(item.at.text.Reveal())
		if err != nil {
			return nil, fmt.Errorf("number %d of the fallback list: %w", i+1, err)
		}
		chain = append(chain, ref)
	}
	return chain, nil
}

// literal gives the text that is meant: one backslash before a scheme is taken
// away, which is how a text that only looks like a reference is written.
func literal(s string) string {
	if rest, ok := strings.CutPrefix(s, `\`); ok && IsReference(strings.TrimLeft(rest, `\`)) {
		return rest
	}
	return s
}
