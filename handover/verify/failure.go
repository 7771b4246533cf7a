package verify

import (
	"fmt"
	"time"
)

// Failure says in what way a candidate was not proven.
type Failure string

// The failures. Those that time may heal are tried again within the budget.
const (
	// AuthRefused: the server was reached and does not accept the account.
	AuthRefused Failure = "authentication refused"
	// Refused: the server was reached and opens no session for another reason
	// than who asks, such as too many connections or an unknown database.
	Refused Failure = "session refused"
	// Unreachable: nobody answered, or not in the language expected.
	Unreachable Failure = "server unreachable"
	// WrongUser: a session was opened, but as somebody else. Not tried again.
	WrongUser Failure = "session belongs to another user"
	// Unusable: no login could be tried with this template and these values.
	// Not tried again.
	Unusable Failure = "verifier unusable"
	// Interrupted: the caller's context ended before the budget did.
	Interrupted Failure = "interrupted"
)

func (f Failure) final() bool { return f == WrongUser || f == Unusable || f == Interrupted }

// next tells an operator what to look at.
func (f Failure) next() string {
	switch f {
	case AuthRefused:
		return "check that the Vault role creates a login on this server, and the server's pg_hba.conf"
	case Refused:
		return "check the database's name, its connection limit and the role's right to connect"
	case Unreachable:
		return "check the verifier's host, port and TLS settings"
	case WrongUser:
		return "check for a pooler or an ident map that replaces the user"
	case Unusable:
		return "check the verifier of the definition"
	default:
		return ""
	}
}

// Error is what [Verify] returns: never a value, a password or a DSN in it, nor
// in anything that it wraps.
type Error struct {
	Kind    string // of verifier, such as "postgresql"
	Failure Failure
	// Reason is one of this package's own phrases, or an SQLSTATE.
	Reason   string
	Attempts int           // logins tried
	Took     time.Duration // from the first attempt to the last one's end

	cause error // the context's error of an [Interrupted] one
}

// Error implements error.
func (e *Error) Error() string {
	s := fmt.Sprintf("verify by a %s login: %s", e.Kind, e.Failure)
	if e.Reason != "" {
		s += " (" + e.Reason + ")"
	}
	if e.Attempts > 0 {
		s += fmt.Sprintf(", %d attempts in %v", e.Attempts, e.Took.Round(10*time.Millisecond))
	}
	if next := e.Failure.next(); next != "" {
		s += ": " + next
	}
	return s
}

// Unwrap gives the context's error when the caller's context ended, else nil.
func (e *Error) Unwrap() error { return e.cause }
