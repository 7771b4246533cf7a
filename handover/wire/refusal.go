package wire

import "errors"

// Code says why a request was refused; who asked decides on it.
type Code string

// The codes of refusals.
const (
	// CodeUnknownName: no definition has this name (yet).
	CodeUnknownName Code = "unknown-name"
	// CodeUnknownKey: the credential has no such key.
	CodeUnknownKey Code = "unknown-key"
	// CodeNone: the name has no committed credential (yet).
	CodeNone Code = "none"
	// CodeExpired: the committed credential has expired (L53).
	CodeExpired Code = "expired"
	// CodeNotLeader: another instance holds the scope; Holder names it when
	// it is known. Ask again.
	CodeNotLeader Code = "not-leader"
	// CodeMismatch: another incarnation of the instance is registered than
	// the one the registration replaces; Registered names it.
	CodeMismatch Code = "mismatch"
	// CodeSuperseded: the registered incarnation is a later one; Registered
	// names it.
	CodeSuperseded Code = "superseded"
	// CodeForbidden: the consumer is not named in the definition, its key is
	// another one, or the signature is wrong.
	CodeForbidden Code = "forbidden"
	// CodeSkewed: the time in the message is too far from the service's.
	CodeSkewed Code = "skewed"
	// CodeVersion: the protocol version is not spoken here.
	CodeVersion Code = "version"
	// CodeMalformed: the request could not be read.
	CodeMalformed Code = "malformed"
	// CodeBusy: too much is in flight. Ask again.
	CodeBusy Code = "busy"
	// CodeWaiting: a report of a refused credential (C58) has nothing done now;
	// the message says why and when. Asking again before is of no use.
	CodeWaiting Code = "waiting"
	// CodeUnavailable: the holder cannot answer now. Ask again.
	CodeUnavailable Code = "unavailable"
)

// Refusal is an answer that grants nothing. It is not sealed (whom to seal to
// may be just what is unclear), so nothing is decided on it but to ask again
// or to give up. It is an error: use errors.As.
type Refusal struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	// Registered is the incarnation that is registered now (mismatch and
	// superseded); empty: none.
	Registered string `json:"registered,omitempty"`
	// Holder is who leads the scope, when known (not-leader).
	Holder string `json:"holder,omitempty"`
}

// Type implements [Body].
func (Refusal) Type() string { return "error" }

// Error implements error.
func (r Refusal) Error() string {
	s := string(r.Code) + ": " + r.Message
	if r.Holder != "" {
		s += " (held by " + r.Holder + ")"
	}
	return s
}

func (r Refusal) check() error {
	if r.Code == "" {
		return malformed("no code")
	}
	if r.Registered != "" {
		if err := CheckIncarnation(r.Registered); err != nil {
			return malformed("registered: %w", err)
		}
	}
	return errors.Join(
		checkText("code", string(r.Code), 40),
		checkText("message", r.Message, 1000),
		checkText("holder", r.Holder, 200))
}
