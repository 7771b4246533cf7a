package events

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Kind says what a credential is for; it decides which keys it must have
// (L10, D7), which fields of it are public, and how it can be proven.
type Kind string

// The kinds of credentials.
const (
	KindGeneric    Kind = "generic"
	KindPostgreSQL Kind = "postgresql"
	KindMySQL      Kind = "mysql"
	KindRabbitMQ   Kind = "rabbitmq"
	KindRedis      Kind = "redis"
	KindKV         Kind = "kv"
	// KindPKI is a certificate with its key; it ends by itself.
	KindPKI Kind = "pki"
)

// Kinds lists every kind, for messages that say what is allowed.
func Kinds() []Kind {
	return []Kind{KindGeneric, KindPostgreSQL, KindMySQL, KindRabbitMQ, KindRedis, KindKV, KindPKI}
}

// RequiredKeys gives the keys a credential of the kind must carry.
func (k Kind) RequiredKeys() []string {
	switch k {
	case KindPostgreSQL, KindMySQL, KindRabbitMQ, KindRedis:
		return []string{"username", "password"}
	case KindPKI:
		return []string{"certificate", "private_key"}
	default:
		return nil
	}
}

// PublicKeys gives the keys whose values may stand in an event, so that an
// auditor can ask who used an account.
func (k Kind) PublicKeys() []string {
	switch k {
	case KindPostgreSQL, KindMySQL, KindRabbitMQ, KindRedis:
		return []string{"username"}
	case KindPKI:
		return []string{"serial_number"}
	default:
		return nil
	}
}

// Definition is a name's entry in the definitions: how to get its credential
// and how to use it. Durations are exact decimal seconds; the field names here
// are those of the log, the configuration file has the same ones.
type Definition struct {
	// Vault is the name of the Vault connection (D4).
	Vault string `json:"vault"`
	// Path is what is read in Vault, such as "database/creds/orders".
	Path string `json:"path"`
	Kind Kind   `json:"kind"`
	// Method is POST or PUT for a path that is written to get the credential;
	// empty: it is read with GET.
	Method string `json:"method,omitempty"`
	// Params are what is sent along: the body of a POST or PUT, the query of a
	// GET. They stand in the log, so they hold no secret.
	Params map[string]string `json:"params,omitempty"`
	// Version is the version of a KV v2 secret that is wanted; 0: the latest.
	Version uint64 `json:"version,omitempty"`
	// Require lists keys that must be there beside those of the kind.
	Require []string `json:"require,omitempty"`
	// RenewAt is the fraction of the TTL after which a renewal is due, in
	// (0, 1); half by default.
	RenewAt Seconds `json:"renew_at"`
	// FallbackTTL counts when Vault names a lease without a usable TTL (L9).
	FallbackTTL Seconds `json:"fallback_ttl_s"`
	// Verifier proves a candidate by a login of our own; nil: none.
	Verifier *Verifier `json:"verifier,omitempty"`
	// Consumers are who must follow a rotation. Empty: nobody is asked.
	Consumers []Consumer `json:"consumers,omitempty"`
	// Width is how many incarnations are asked to prepare at a time; 0: all.
	Width uint64 `json:"width,omitempty"`
	// PrepareTimeout bounds the wait for everybody's yes.
	PrepareTimeout Seconds `json:"prepare_timeout_s"`
	// RollbackTimeout is the budget of going back.
	RollbackTimeout Seconds `json:"rollback_timeout_s"`
	// GoodFor is what a get by somebody who is not registered may rely on.
	GoodFor Seconds `json:"good_for_s"`
	// Poll is how often a secret without lease is read again (L38).
	Poll Seconds `json:"poll_s"`
	// AcquisitionsPerHour bounds how many leases are acquired that are not
	// installed in the end (C34).
	AcquisitionsPerHour int `json:"acquisitions_per_hour"`
	// RetireAfter is when a replaced lease is revoked even though a consumer
	// has not confirmed; the event names who was cut off.
	RetireAfter Seconds `json:"retire_after_s"`
	// LeaveAfter is how long a registered incarnation may have no responder
	// before it counts as gone.
	LeaveAfter Seconds `json:"leave_after_s"`
}

// Verifier is a login of our own with a candidate.
type Verifier struct {
	// Kind is "postgresql", "mysql", "rabbitmq", "redis", "http" or "command".
	Kind string `json:"kind"`
	// DSN is a template with {{username}} and {{password}}; it holds no secret
	// itself and is never logged. A command has none.
	DSN string `json:"dsn,omitempty"`
	// Headers are templates too, of kind http.
	Headers map[string]string `json:"headers,omitempty"`
	// Command is a program and its arguments, of kind command, without a shell.
	Command []string `json:"command,omitempty"`
	// Pass is how a command gets the credential: "stdin" (also if empty) or
	// "env".
	Pass string `json:"pass,omitempty"`
	// Timeout is the whole budget, retries included.
	Timeout Seconds `json:"timeout_s"`
}

// Consumer names an application that may register for a definition.
type Consumer struct {
	Name string `json:"name"`
	// Key is the public nkey ("U...") that signs its messages; empty only
	// where insecure consumers are allowed.
	Key string `json:"key,omitempty"`
	// Optional consumers may be absent: without a verifier a definition is
	// acquired only once a consumer that is not optional has registered.
	Optional bool `json:"optional,omitempty"`
}

// DefaultDefinition has every default that a definitions file can leave out.
func DefaultDefinition() Definition {
	return Definition{
		Kind:            KindGeneric,
		RenewAt:         MustSeconds("0.5"),
		FallbackTTL:     WholeSeconds(3600),
		PrepareTimeout:  WholeSeconds(30),
		RollbackTimeout: WholeSeconds(5),
		GoodFor:         WholeSeconds(30),
		Poll:            WholeSeconds(5),

		AcquisitionsPerHour: 60,
		RetireAfter:         WholeSeconds(3600),
		LeaveAfter:          WholeSeconds(60),
	}
}

// DefaultVerifierTimeout is a verifier's budget where none is given.
var DefaultVerifierTimeout = WholeSeconds(15)

// Keys gives every key that a credential of this definition must have, sorted.
func (d *Definition) Keys() []string {
	set := map[string]bool{}
	for _, k := range d.Kind.RequiredKeys() {
		set[k] = true
	}
	for _, k := range d.Require {
		set[k] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// Makes tells whether getting the credential makes another one each time, so
// that it must not be read again to see whether it changed.
func (d *Definition) Makes() bool { return d.Method != "" }

// MakesAccounts tells whether the path is a dynamic role's, by Vault's own
// convention: each read makes an account, also where no lease comes with it. (A
// secret of KV version 2 has data in its path; one of version 1 that is kept
// below a folder creds is told by kind kv.)
func (d *Definition) MakesAccounts() bool {
	parts := strings.Split(d.Path, "/")
	return len(parts) >= 3 && parts[len(parts)-2] == "creds" && !slices.Contains(parts, "data") && slices.Contains(d.Kind.RequiredKeys(), "username")
}

// NeedsConsumer tells whether a candidate can only be proven by a consumer: no
// verifier, and somebody who is not optional is named.
func (d *Definition) NeedsConsumer() bool {
	return d.Verifier == nil && slices.ContainsFunc(d.Consumers, func(c Consumer) bool { return !c.Optional })
}

// Equal tells whether two definitions are the same in every field. They are
// compared as they stand in the log, where equal decimals have equal digits.
func (d *Definition) Equal(o *Definition) bool {
	a, errA := json.Marshal(d)
	b, errB := json.Marshal(o)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}
