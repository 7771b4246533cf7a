package wire

import (
	"errors"
	"time"
)

// Get asks for the committed credential of a name without registering. The
// answer is sealed to XKey. It is not signed: NATS permissions on the subject
// decide who may ask.
type Get struct {
	// XKey is the caller's public curve key.
	XKey string `json:"xkey"`
	// Keys limits the answer to these; empty: all. One that is not there is
	// refused as [CodeUnknownKey].
	Keys  []string `json:"keys,omitempty"`
	Nonce string   `json:"nonce"`
	// ServiceKeys are the service's public keys that the caller takes an answer
	// under; none: it does not say.
	ServiceKeys []string `json:"service_keys,omitempty"`
}

// Type implements [Body].
func (Get) Type() string { return "get" }

func (g Get) check() error {
	if !IsPublicXKey(g.XKey) {
		return malformed("xkey is no public curve key")
	}
	if len(g.Keys) > 256 {
		return malformed("more than 256 keys")
	}
	for _, k := range g.Keys {
		if err := checkText("a key", k, 256); err != nil {
			return err
		}
	}
	return errors.Join(checkNonce(g.Nonce), checkPinned(g.ServiceKeys))
}

// MaxPinned bounds how many of the service's keys a consumer may pin.
const MaxPinned = 8

func checkPinned(keys []string) error {
	if len(keys) > MaxPinned {
		return malformed("more than 8 service keys")
	}
	for _, k := range keys {
		if !IsPublicXKey(k) {
			return malformed("a service key is no public curve key")
		}
	}
	return nil
}

// Got answers a [Get], sealed.
type Got struct {
	Scope string `json:"scope"`
	Name  string `json:"name"`
	// Nonce is that of the [Get].
	Nonce  string `json:"nonce"`
	Epoch  uint64 `json:"epoch"`
	N      uint64 `json:"n"`
	Lease  uint64 `json:"lease"`
	Values Values `json:"values"`
	// GoodFor is how long the caller may rely on it before it asks again.
	GoodFor Seconds `json:"good_for_s"`
	// ExpiresIn is what is left of the lease; absent when it does not expire.
	ExpiresIn *Seconds `json:"expires_in_s,omitempty"`
	Public    string   `json:"public,omitempty"`
}

// Type implements [Body].
func (Got) Type() string { return "got" }

func (g Got) check() error {
	if err := place(g.Scope, g.Name); err != nil {
		return err
	}
	if g.Lease == 0 || len(g.Values) == 0 {
		return malformed("no lease or no values")
	}
	return errors.Join(checkNonce(g.Nonce), checkText("public", g.Public, 256), checkValues(g.Values))
}

// Key is what a scope's holder publishes about its seal key. Who pins the key
// compares; who does not (insecure) trusts it.
type Key struct {
	XKey  string `json:"xkey"`
	KeyID string `json:"key_id"`
	Epoch uint64 `json:"epoch"`
}

// Type implements [Body].
func (Key) Type() string { return "key" }

func (k Key) check() error {
	if !IsPublicXKey(k.XKey) {
		return malformed("xkey is no public curve key")
	}
	return checkText("key_id", k.KeyID, 64)
}

// Refused reports that a server refused a committed credential (C58). It is
// signed like a registration.
type Refused struct {
	Consumer    string `json:"consumer"`
	Instance    string `json:"instance"`
	Incarnation string `json:"incarnation"`
	Key         string `json:"key,omitempty"`
	Lease       uint64 `json:"lease"`
	// Reason is made by [Reason].
	Reason string    `json:"reason,omitempty"`
	Time   time.Time `json:"time"`
	Nonce  string    `json:"nonce"`
}

// Type implements [Body].
func (Refused) Type() string { return "refused" }

func (r Refused) check() error {
	if err := identity(r.Consumer, r.Instance, r.Incarnation); err != nil {
		return err
	}
	if r.Lease == 0 || r.Time.IsZero() {
		return malformed("lease or time is missing")
	}
	if r.Key != "" && !IsPublicKey(r.Key) {
		return malformed("key is no public user nkey")
	}
	return errors.Join(checkText("reason", r.Reason, MaxReason), checkNonce(r.Nonce))
}
