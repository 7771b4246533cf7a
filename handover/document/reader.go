package document

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrUnknown says that there is nothing behind a reference: no such lease,
	// key, secret or variable (L53).
	ErrUnknown = errors.New("unknown")
	// ErrExpired says that there was a lease and that it has expired: its values
	// are handed to nobody (L53).
	ErrExpired = errors.New("expired")
	// ErrPending says that there is a lease by that name and that nothing is
	// committed for it yet. For readers that is as [ErrUnknown]; an update may
	// refer to it all the same, and the place stays without a value until the
	// lease's first install.
	ErrPending = errors.New("nothing is committed yet")
)

// Reader gives the values that references stand for: unexpired data only (L44).
type Reader interface {
	// Read gives a reference's value; presence decides, not truth (L54). The
	// errors are [ErrUnknown], [ErrExpired] and [ErrPending]. Any other means that it can't be
	// told now, and ends what is being done: it does not make the next reference
	// of a fallback chain win. Errors must not hold values. Read is called while
	// a store is being changed: it must not wait, nor call the store.
	Read(Reference) (Value, error)
}

// ReaderFunc is a function as a [Reader].
type ReaderFunc func(Reference) (Value, error)

// Read implements [Reader].
func (f ReaderFunc) Read(r Reference) (Value, error) { return f(r) }

// Held is a lease as [Sources] is told of it.
type Held struct {
	Values Values
	// Expired is judged by who keeps both clocks (the earlier end counts). It
	// hides the values.
	Expired bool
}

// Sources is a [Reader] made of look-ups in memory. One that is nil knows
// nothing. What may be read from Vault is fetched beforehand, see
// [Document.References]; which variables may be read is the caller's to limit:
// whoever may write a document can read each of them.
type Sources struct {
	Lease       func(name string) (Held, bool)
	Vault       func(path, key string) (Value, bool)
	Environment func(variable string) (string, bool)
}

// Read implements [Reader].
func (s Sources) Read(r Reference) (Value, error) {
	switch {
	case r.Scheme == Lease && s.Lease != nil:
		return s.lease(r)
	case r.Scheme == Vault && s.Vault != nil:
		if v, ok := s.Vault(r.Name, r.Key); ok {
			return v, nil
		}
	case r.Scheme == Environment && s.Environment != nil:
		if text, ok := s.Environment(r.Name); ok {
			return FromAny(text)
		}
	}
	return Value{}, ErrUnknown
}

func (s Sources) lease(r Reference) (Value, error) {
	held, ok := s.Lease(r.Name)
	switch {
	case !ok:
		return Value{}, ErrUnknown
	case held.Expired:
		return Value{}, ErrExpired
	}
	v, ok := held.Values[r.Key]
	if !ok {
		return Value{}, fmt.Errorf("%w: the lease does not have the key", ErrUnknown)
	}
	return v, nil
}

// UnresolvedError says that no reference of a place can be read, and why for
// each: errors.Is tells [ErrUnknown] and [ErrExpired].
type UnresolvedError struct {
	Misses []Miss
}

// Miss is why one reference can't be read.
type Miss struct {
	Reference Reference
	Err       error
}

// Error implements error.
func (e *UnresolvedError) Error() string {
	parts := make([]string, len(e.Misses))
	for i, m := range e.Misses {
		parts[i] = m.Reference.String() + ": " + m.Err.Error()
	}
	return strings.Join(parts, "; ")
}

// Unwrap gives the errors of all references.
func (e *UnresolvedError) Unwrap() []error {
	errs := make([]error, len(e.Misses))
	for i, m := range e.Misses {
		errs[i] = m.Err
	}
	return errs
}

// resolve gives the first reference of a chain that can be read (L45).
func resolve(r Reader, chain []Reference) (Reference, Value, error) {
	misses := &UnresolvedError{}
	for _, ref := range chain {
		v, err := r.Read(ref)
		if err == nil {
			return ref, v, nil
		}
		if !unreadable(err) {
			return Reference{}, Value{}, fmt.Errorf("reading %s: %w", ref, err)
		}
		misses.Misses = append(misses.Misses, Miss{ref, err})
	}
	return Reference{}, Value{}, misses
}

// unreadable tells the errors that make the next reference of a chain count
// from those that end what is being done.
func unreadable(err error) bool {
	return errors.Is(err, ErrUnknown) || errors.Is(err, ErrExpired) || errors.Is(err, ErrPending)
}
