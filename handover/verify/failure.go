package verify

import (
	"fmt"
	"time"
)

// Failure says in what way a candidate was not proven.
type Failure string

// The failures. Those that time may heal are tried again within the budget.
const (
	// AuthRefused: the server was reached and does not accept the account. A
	// command's status 1.
	AuthRefused Failure = "authentication refused"
	// Refused: the server was reached and opens no session for another reason
	// than who asks, such as too many connections or an unknown database. A
	// command's status other than 0, 1, 69 and 75.
	Refused Failure = "session refused"
	// Unreachable: nobody answered, or not in the language expected. A
	// command's status 69 or 75, or none in time.
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
		return "check that the Vault role makes an account that this server lets in from here (of PostgreSQL: its pg_hba.conf)"
	case Refused:
		return "check the name of the database or virtual host, limits on connections, and what the account may do"
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
	// Reason is one of this package's own phrases, a server's code, or the last
	// line of a command's output without the values.
	Reason   string
	Attempts int           // logins tried
	Took     time.Duration // from the first attempt to the last one's end

	cause error // the context's error of an [Interrupted] one
}

// Error implements error.
func (e *Error) Error() string {
	s := fmt.Sprintf("verify by %s: %s", e.Kind, e.Failure)
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
