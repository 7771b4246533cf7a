package vault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"
)

// Grant is what a read gave. It prints and marshals without Data.
type Grant struct {
	// LeaseID is empty for a secret that has no lease.
	LeaseID string
	// TTL counts from SentAt.
	TTL       Duration
	Renewable bool
	// Data is the secret, an object, in the exact bytes that came.
	Data json.RawMessage `json:"-"`
	// Keys are the names in Data, sorted.
	Keys []string
	// Version is the version of a KV v2 secret, else 0.
	Version  int64
	Warnings []string
	// SentAt is a moment before the request was sent, so that SentAt + TTL is
	// never later than the server's own expiry.
	SentAt time.Time
	// Suspect says what was odd about the lease duration and what counts
	// instead (C15), empty when it was a plain number in range.
	Suspect string
}

// ReadOptions says what kind of path is read.
type ReadOptions struct {
	// KVv2: the path is of a KV version 2 mount (MOUNT/data/NAME), whose
	// answer wraps the data once more; Data is the inner one.
	KVv2 bool
}

// Read reads a credential in exactly one request that can take effect (P5),
// with the token of the guard, or our own when g is nil. It is never repeated
// here, and must not be by the caller under the same guard.
//
// Errors: [Error]. OutcomeUnknown means that there may be a lease that only the
// guard's end, or its revocation, will take away.
func (c *Client) Read(ctx context.Context, path string, g *Guard, opts ReadOptions) (Grant, error) {
	const op = "read"
	if err := checkPath(path); err != nil {
		return Grant{}, c.invalid(op, path, err)
	}
	rq := request{op: op, method: http.MethodGet, path: path, token: c.ownToken(), once: true, own: true}
	if g != nil {
		if g.Token.IsZero() {
			return Grant{}, c.invalid(op, path, errors.New("the guard has no token"))
		}
		rq.token, rq.own = g.Token, false
	}
	a, err := c.call(ctx, rq)
	if err != nil {
		return Grant{}, err
	}
	grant, err := a.grant(rq, opts)
	if err != nil {
		return Grant{}, c.malformed(rq, a, err)
	}
	return grant, nil
}

func (a answer) grant(rq request, opts ReadOptions) (Grant, error) {
	e, err := a.parse(rq.token)
	if err != nil {
		return Grant{}, err
	}
	g := Grant{LeaseID: e.leaseID, TTL: e.duration, Renewable: e.renewable, Data: e.data, Warnings: e.warnings, SentAt: a.sentAt, Suspect: e.suspect}
	fields, err := e.object("data", e.data)
	if err != nil {
		return Grant{}, err
	}
	if opts.KVv2 {
		inner := present(fields["data"])
		if present(fields["metadata"]) == nil {
			return Grant{}, errors.New("the answer is not that of a KV version 2 mount: it has no metadata")
		}
		meta, err := e.object("metadata", fields["metadata"])
		if err != nil {
			return Grant{}, err
		}
		if g.Version, err = readCount("version", meta["version"]); err != nil {
			return Grant{}, err
		}
		if fields, err = e.object("data.data", inner); err != nil {
			return Grant{}, err
		}
		g.Data = inner
	}
	g.Keys = sortedKeys(fields)
	return g, nil
}

// Format prints a grant without its data.
func (g Grant) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, fmt.Sprintf("lease %q, ttl %s s, keys [%s]", g.LeaseID, g.TTL, strings.Join(g.Keys, " ")))
}

// LogValue logs a grant without its data.
func (g Grant) LogValue() slog.Value {
	return slog.GroupValue(slog.String("lease", g.LeaseID), slog.String("ttl_s", g.TTL.String()), slog.Any("keys", g.Keys))
}
