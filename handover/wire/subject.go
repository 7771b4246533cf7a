package wire

import (
	"errors"
	"fmt"
	"strings"
)

// Prefix begins every subject of the protocol.
const Prefix = "leasesvc"

// Operation is what a consumer or a reader asks of the service. It stands in
// the subject, so that NATS permissions decide who may.
type Operation string

// The operations of this protocol version.
const (
	OpRegister Operation = "register"
	OpLeave    Operation = "leave"
	OpGet      Operation = "get"
	OpKey      Operation = "key"
	OpRefused  Operation = "refused"
)

// ErrToken says that a text cannot be a scope, a name, a consumer or an
// instance. Those are single subject tokens: a letter or digit, then up to 63
// letters, digits or hyphens.
var ErrToken = errors.New("not a valid token (a letter or digit, then up to 63 letters, digits or hyphens)")

// CheckToken returns an error that wraps [ErrToken] unless s can be a scope,
// a name, a consumer or an instance. what names it in the error.
func CheckToken(what, s string) error {
	if validToken(s) {
		return nil
	}
	return fmt.Errorf("%s %q: %w", what, clip(s, 80), ErrToken)
}

func validToken(s string) bool {
	if len(s) == 0 || len(s) > 64 || s[0] == '-' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-') {
			return false
		}
	}
	return true
}

// Subject gives the subject of an operation on a name: the operation, the
// scope and the name are one token each.
func Subject(op Operation, scope, name string) string {
	return Prefix + "." + string(op) + "." + scope + "." + name
}

// KeySubject is where a scope's holder tells its public key.
func KeySubject(scope string) string {
	return Prefix + "." + string(OpKey) + "." + scope
}

// ConsumerSubject is where one incarnation listens for prepare, follow and
// revert. Registrations name it, and no other is accepted.
func ConsumerSubject(scope, name, incarnation string) string {
	return Prefix + ".c." + scope + "." + name + "." + incarnation
}

// RotationSubject is where the log republishes what was installed: a hint to
// ask, never an authority.
func RotationSubject(scope, name string) string {
	return "rotation." + scope + "." + name
}

// ParseSubject splits the subject of an operation on a name. The subjects of
// the key and of consumers are not among them.
func ParseSubject(subject string) (op Operation, scope, name string, err error) {
	part := strings.Split(subject, ".")
	if len(part) != 4 || part[0] != Prefix {
		return "", "", "", fmt.Errorf("subject %q: not %s.<operation>.<scope>.<name>", clip(subject, 200), Prefix)
	}
	switch op = Operation(part[1]); op {
	case OpRegister, OpLeave, OpGet, OpRefused:
	default:
		return "", "", "", fmt.Errorf("subject %q: unknown operation", clip(subject, 200))
	}
	if err := errors.Join(CheckToken("scope", part[2]), CheckToken("name", part[3])); err != nil {
		return "", "", "", fmt.Errorf("subject %q: %w", clip(subject, 200), err)
	}
	return op, part[2], part[3], nil
}

// clip shortens what is quoted in an error.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}
