package wire

import (
	"errors"
)

// Kind is what a message of the holder asks of an incarnation.
type Kind string

// The kinds of messages.
const (
	// KindPrepare: prove new sessions with this lease, send new work there,
	// keep the old one. n is that of handover-started.
	KindPrepare Kind = "prepare"
	// KindFollow: this lease is committed; move to it, drain every other. n
	// is that of installed.
	KindFollow Kind = "follow"
	// KindRevert: go back to this lease (0: to none), drain every other. n is
	// that of rollback-started.
	KindRevert Kind = "revert"
)

// Known tells whether k is a kind of this protocol version.
func (k Kind) Known() bool { return k == KindPrepare || k == KindFollow || k == KindRevert }

// Message is what the holder sends to one registered incarnation, as a whole
// sealed to that incarnation's key. It is sent again, with the same n, until
// it is answered (P14).
type Message struct {
	Kind        Kind   `json:"kind"`
	Scope       string `json:"scope"`
	Name        string `json:"name"`
	Incarnation string `json:"incarnation"`
	Epoch       uint64 `json:"epoch"`
	// N is the sequence of the event that the message follows from (P8).
	N uint64 `json:"n"`
	// Lease is the number of the lease to use; 0 only in a revert: none.
	Lease uint64 `json:"lease"`
	// TimeLeft is what is left to answer in, counted from the sending.
	TimeLeft Seconds `json:"time_left_s"`
	// ExpiresIn is what is left of the lease; absent when it does not expire.
	ExpiresIn *Seconds `json:"expires_in_s,omitempty"`
	// Public is the credential's public part, such as the user name.
	Public string `json:"public,omitempty"`
	Values Values `json:"values,omitempty"`
}

// Type implements [Body].
func (Message) Type() string { return "message" }

func (m Message) check() error {
	if !m.Kind.Known() {
		return malformed("unknown kind %q", clip(string(m.Kind), 40))
	}
	if err := place(m.Scope, m.Name); err != nil {
		return err
	}
	if err := CheckIncarnation(m.Incarnation); err != nil {
		return malformed("%w", err)
	}
	if m.Epoch == 0 || m.N == 0 {
		return malformed("epoch or n is 0")
	}
	if m.Lease == 0 && m.Kind != KindRevert {
		return malformed("%s without a lease", m.Kind)
	}
	if m.Lease != 0 && len(m.Values) == 0 {
		return malformed("lease without values")
	}
	return errors.Join(checkText("public", m.Public, 256), checkValues(m.Values))
}
