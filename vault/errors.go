package vault

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

var (
	// ErrNotLoggedIn: a call that needs our own token before [Client.Login] succeeded.
	ErrNotLoggedIn = errors.New("not logged in")
	// ErrUseLimited: the token has a use limit (num_uses); each request would
	// bring it nearer to its end, with all leases under it (C25).
	ErrUseLimited = errors.New("the token has a use limit")
	// ErrDeleted: the version of a KV v2 secret was deleted; it can be undeleted.
	ErrDeleted = errors.New("the version is deleted")
	// ErrDestroyed: the version of a KV v2 secret was destroyed for good.
	ErrDestroyed = errors.New("the version is destroyed")
	// ErrNotRevoked: the lease is still there after its revocation was answered as done.
	ErrNotRevoked = errors.New("the lease is still there after its revocation")
	// ErrNoToken: no source has a token.
	ErrNoToken = errors.New("no token found")
	// ErrGuardForbidden: the policy does not let us make guards.
	ErrGuardForbidden = errors.New("guards are forbidden")
	// ErrGuardUnfit: the token that the role makes can't guard a lease.
	ErrGuardUnfit = errors.New("the role's token can't guard a lease")
	// ErrEmptyLeaseID: a lease operation without a lease id; no request was sent (C41).
	ErrEmptyLeaseID = errors.New("empty lease id")
	// ErrEmptyAccessor: a guard operation without an accessor; no request was sent.
	ErrEmptyAccessor = errors.New("empty accessor")
)

// Error is a call that did not succeed. Use errors.As, or [KindOf] when only
// the kind matters.
type Error struct {
	// Op is what was being done: "read", "renew lease", "create guard".
	Op string
	// Conn is the connection's name in the configuration.
	Conn string
	// Path is the API path below /v1/.
	Path string
	Kind Kind
	// Status is the HTTP status, 0 when no answer came.
	Status int
	// RetryAfter is what the server asked to wait, in [0, 1 h]; 0 when it did not say.
	RetryAfter time.Duration
	// Messages are the server's own words: at most 5, each of at most 300
	// bytes, without anything that looks like a secret.
	Messages []string
	// OutcomeUnknown: the request may have taken effect.
	OutcomeUnknown bool
	// NotSent: no request was made, because the server is out, asked for a pause
	// or the caller's context ended first. RetryAfter is when it may be.
	NotSent bool
	// Err is the cause, nil when the status says it all.
	Err error
}

// Error says what was done, to what, what came and what to do next.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "vault %s: %s", e.Conn, e.Op)
	if e.Path != "" {
		fmt.Fprintf(&b, " %s", e.Path)
	}
	fmt.Fprintf(&b, ": %s", e.Kind)
	if e.Status != 0 {
		fmt.Fprintf(&b, " (HTTP %d)", e.Status)
	}
	for _, m := range e.Messages {
		fmt.Fprintf(&b, ": %s", m)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %s", redact(e.Err.Error()))
	}
	if e.OutcomeUnknown {
		b.WriteString("; it may have taken effect")
	}
	if e.NotSent {
		b.WriteString("; no request was sent")
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, "; retry after %s", e.RetryAfter.Round(time.Millisecond))
	}
	if next := nextStep[e.Kind]; next != "" {
		fmt.Fprintf(&b, "; %s", next)
	}
	return b.String()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

var nextStep = map[Kind]string{
	KindPermission:    "check that the token is valid and what its policies allow",
	KindSealed:        "unseal it",
	KindUninitialised: "initialise it, or correct the address",
	KindStandby:       "wait for an active node, or correct the address",
	KindUnreachable:   "check the address, TLS and the network",
	KindRedirect:      "set the address to the node or load balancer that it names",
	KindMalformed:     "check that the address is that of Vault or OpenBao and that the path is the engine's",
}

func (c *Client) invalid(op, path string, err error) *Error {
	return &Error{Op: op, Conn: c.cfg.Name, Path: path, Kind: KindInvalid, Err: err}
}
