package events

import (
	"errors"
	"fmt"
	"strings"
)

// MaxName is the length a scope's or definition's name may have, in bytes.
const MaxName = 64

// The names that are ours: they begin with an underscore, which no user's name
// may.
const (
	// EpochName carries the events of the scope itself.
	EpochName = "_epoch"
	// DefinitionsName carries the revision of the applied definitions.
	DefinitionsName = "_definitions"
)

// ErrName is wrapped by every refusal of [CheckName].
var ErrName = errors.New("not a name")

// CheckName tells why s is no name for a scope, a definition, a consumer or a
// Vault connection: they match [A-Za-z0-9][A-Za-z0-9-]{0,63}.
func CheckName(s string) error {
	if s == "" {
		return fmt.Errorf("%w: it is empty; a name has 1 to %d letters, digits and hyphens", ErrName, MaxName)
	}
	if len(s) > MaxName {
		return fmt.Errorf("%w: %q has %d characters, at most %d are allowed", ErrName, s[:16]+"...", len(s), MaxName)
	}
	for i, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-' && i > 0:
		case r == '.':
			return fmt.Errorf("%w: %q has a dot, which separates the parts of a subject; use a hyphen", ErrName, s)
		case r == '_' && i == 0:
			return fmt.Errorf("%w: %q begins with an underscore, which is kept for leasesvc's own names", ErrName, s)
		default:
			return fmt.Errorf("%w: %q has %q; letters, digits and hyphens are allowed, a letter or digit first", ErrName, s, r)
		}
	}
	return nil
}

// SubjectRoot is the first token of every event's subject.
const SubjectRoot = "lease"

// Subject gives the subject of an event: lease.<scope>.<name>.<type>.
func Subject(scope, name string, t Type) string {
	return SubjectRoot + "." + scope + "." + name + "." + string(t)
}

// OpenedSubject is the literal subject that the fence of a scope hangs on.
func OpenedSubject(scope string) string { return Subject(scope, EpochName, TypeOpened) }

// ScopeFilter selects every event of a scope. It is for reading only: a
// wildcard is no fence on a replicated stream.
func ScopeFilter(scope string) string { return SubjectRoot + "." + scope + ".>" }

// ErrSubject is wrapped by every refusal of [ParseSubject].
var ErrSubject = errors.New("not the subject of an event")

// ParseSubject takes an event's subject apart.
func ParseSubject(subject string) (scope, name string, t Type, err error) {
	parts := strings.Split(subject, ".")
	if len(parts) != 4 || parts[0] != SubjectRoot || parts[1] == "" || parts[2] == "" || parts[3] == "" {
		return "", "", "", fmt.Errorf("%w: %q", ErrSubject, subject)
	}
	return parts[1], parts[2], Type(parts[3]), nil
}
