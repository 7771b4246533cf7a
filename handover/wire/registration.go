package wire

import (
	"errors"
	"time"
)

// Registration is how an incarnation of a consumer becomes one that is asked
// (P9). It is signed with the consumer's nkey (see [Sign]); scope and name
// stand in the subject and in what is signed.
type Registration struct {
	// Consumer is the name by which the definition knows the application.
	Consumer string `json:"consumer"`
	// Instance is a stable name of one running copy of it, or a random one.
	Instance string `json:"instance"`
	// Incarnation is this start of the instance, see [NewIncarnation].
	Incarnation string `json:"incarnation"`
	// Replaces is the instance's incarnation that is registered now and is
	// dead; empty: none. The holder compares before it replaces.
	Replaces string `json:"replaces,omitempty"`
	// Key is the consumer's public nkey ("U..."); empty only where consumers
	// may be insecure.
	Key string `json:"key,omitempty"`
	// XKey is this incarnation's public curve key ("X..."): what the service
	// says to it is sealed to this key.
	XKey string `json:"xkey"`
	// Subject is where it listens: [ConsumerSubject] of itself.
	Subject string `json:"subject"`
	// Protocol is the highest version the consumer speaks.
	Protocol int `json:"protocol"`
	// Time is the consumer's clock; a registration far from the service's is
	// refused as [CodeSkewed], so that an old one cannot be replayed.
	Time time.Time `json:"time"`
	// Nonce is random and comes back in the answer.
	Nonce string `json:"nonce"`
	// ServiceKeys are the service's public keys that the consumer takes what it is
	// told under; none: it does not say.
	ServiceKeys []string `json:"service_keys,omitempty"`
}

// Type implements [Body].
func (Registration) Type() string { return "registration" }

func (r Registration) check() error {
	if err := identity(r.Consumer, r.Instance, r.Incarnation); err != nil {
		return err
	}
	if r.Replaces != "" {
		if err := CheckIncarnation(r.Replaces); err != nil {
			return malformed("replaces: %w", err)
		}
	}
	if r.Key != "" && !IsPublicKey(r.Key) {
		return malformed("key is no public user nkey")
	}
	if !IsPublicXKey(r.XKey) {
		return malformed("xkey is no public curve key")
	}
	if r.Protocol < 1 {
		return malformed("protocol is below 1")
	}
	if r.Time.IsZero() {
		return malformed("time is missing")
	}
	return errors.Join(checkText("subject", r.Subject, 256), checkNonce(r.Nonce), checkPinned(r.ServiceKeys))
}

// Answer is what a registration gets once it is in the log (P9): the holder's
// state of the name at that moment. It is sealed to the incarnation's key.
type Answer struct {
	Scope       string `json:"scope"`
	Name        string `json:"name"`
	Incarnation string `json:"incarnation"`
	// Nonce is that of the registration.
	Nonce string `json:"nonce"`
	// Epoch is the holder's.
	Epoch uint64 `json:"epoch"`
	// N is the sequence of the last installed or rollback-started (P8); 0
	// when there was none.
	N uint64 `json:"n"`
	// Lease is the number of the committed lease, 0 for none. None is an
	// answer that can be confirmed.
	Lease uint64 `json:"lease"`
	// ExpiresIn is what is left of the lease; absent when it does not expire.
	ExpiresIn *Seconds `json:"expires_in_s,omitempty"`
	Public    string   `json:"public,omitempty"`
	Values    Values   `json:"values,omitempty"`
}

// Type implements [Body].
func (Answer) Type() string { return "answer" }

func (a Answer) check() error {
	if err := place(a.Scope, a.Name); err != nil {
		return err
	}
	if err := CheckIncarnation(a.Incarnation); err != nil {
		return malformed("%w", err)
	}
	if a.Lease != 0 && (a.N == 0 || len(a.Values) == 0) {
		return malformed("lease without n or values")
	}
	if a.Epoch == 0 {
		return malformed("epoch is 0")
	}
	return errors.Join(checkNonce(a.Nonce), checkText("public", a.Public, 256), checkValues(a.Values))
}

// Leave takes an incarnation off the list of those that are asked. It is
// signed like a registration.
type Leave struct {
	Consumer    string    `json:"consumer"`
	Instance    string    `json:"instance"`
	Incarnation string    `json:"incarnation"`
	Key         string    `json:"key,omitempty"`
	Time        time.Time `json:"time"`
	Nonce       string    `json:"nonce"`
}

// Type implements [Body].
func (Leave) Type() string { return "leave" }

func (l Leave) check() error {
	if err := identity(l.Consumer, l.Instance, l.Incarnation); err != nil {
		return err
	}
	if l.Key != "" && !IsPublicKey(l.Key) {
		return malformed("key is no public user nkey")
	}
	if l.Time.IsZero() {
		return malformed("time is missing")
	}
	return checkNonce(l.Nonce)
}

// Left says that a [Leave] is in the log. It holds nothing secret and is not
// sealed: who is gone has nothing to decide on it.
type Left struct {
	Incarnation string `json:"incarnation"`
}

// Type implements [Body].
func (Left) Type() string { return "left" }

func (l Left) check() error {
	if err := CheckIncarnation(l.Incarnation); err != nil {
		return malformed("%w", err)
	}
	return nil
}

func identity(consumer, instance, incarnation string) error {
	if err := errors.Join(CheckToken("consumer", consumer), CheckToken("instance", instance), CheckIncarnation(incarnation)); err != nil {
		return malformed("%w", err)
	}
	return nil
}

func place(scope, name string) error {
	if err := errors.Join(CheckToken("scope", scope), CheckToken("name", name)); err != nil {
		return malformed("%w", err)
	}
	return nil
}

// checkNonce wants 8 to 64 bytes.
func checkNonce(s string) error {
	if len(s) < 8 || len(s) > 64 {
		return malformed("nonce is not 8 to 64 bytes long")
	}
	return nil
}
