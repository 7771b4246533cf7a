package vault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Grant is what a read gave. It prints and marshals without Data.
type Grant struct {
	// LeaseID is empty for a secret that has no lease.
	LeaseID string
	// TTL counts from SentAt. For a certificate without a lease it is what the
	// certificate has left. For a static role it is 0: see RotatesIn.
	TTL       Duration
	Renewable bool
	// Data is the secret, an object, in the exact bytes that came.
	Data json.RawMessage `json:"-"`
	// Keys are the names in Data, sorted.
	Keys []string
	// Version is the version of a KV v2 secret, else 0.
	Version int64
	// Expires is a certificate's own end, else zero.
	Expires time.Time
	// RotatesIn is what a static role has until its next rotation, counted from
	// SentAt; LastRotation is when it was rotated last, by the server's clock.
	// Another LastRotation is another password, whenever it came (C18).
	RotatesIn    Duration
	LastRotation time.Time
	// TokenExpires is the end of our own token as known at the read, for a lease
	// that was read without a guard and dies with that token (C23); else zero.
	TokenExpires time.Time
	Warnings     []string
	// SentAt is a moment before the request was sent, so that SentAt + TTL is
	// never later than the server's own expiry.
	SentAt time.Time
	// Suspect says what was odd about a duration and what counts instead (C15),
	// empty when all were plain numbers in range.
	Suspect string
	// fleeting are keys of Data that change while the credential stays.
	fleeting []string
}

// ReadOptions says what kind of path is read, and how. At most one of KVv2, PKI
// and StaticRole.
type ReadOptions struct {
	// KVv2: the path is of a KV version 2 mount (MOUNT/data/NAME), whose
	// answer wraps the data once more; Data is the inner one.
	KVv2 bool
	// Version asks for one version of a KV v2 secret; 0 means the latest.
	Version int64
	// PKI: the answer is a certificate, whose own expiry counts where it comes
	// before the lease's, or where there is no lease.
	PKI bool
	// StaticRole: the answer is that of a static role, which has no lease.
	StaticRole bool
	// Method is GET, POST or PUT; empty means GET. Whatever it is, the request is
	// never repeated.
	Method string
	// Params are the body of a POST or PUT, and the query of a GET, where each
	// must be a text, a number, true or false. They are not printed.
	Params map[string]any `json:"-"`
}

// Read reads a credential in exactly one request that can take effect (P5),
// with the token of the guard, or our own when g is nil. It is never repeated
// here, and must not be by the caller under the same guard.
//
// Errors: [Error]. OutcomeUnknown means that there may be a lease that only the
// guard's end, or its revocation, will take away. A KV version that is deleted or
// destroyed is KindNotFound with ErrDeleted or ErrDestroyed in it.
func (c *Client) Read(ctx context.Context, path string, g *Guard, opts ReadOptions) (Grant, error) {
	const op = "read"
	if err := checkPath(path); err != nil {
		return Grant{}, c.invalid(op, path, err)
	}
	rq := request{op: op, path: path, token: c.ownToken(), once: true, own: true}
	if err := opts.apply(&rq); err != nil {
		return Grant{}, c.invalid(op, path, err)
	}
	var expires time.Time
	if g != nil {
		if g.Token.IsZero() {
			return Grant{}, c.invalid(op, path, errors.New("the guard has no token"))
		}
		rq.token, rq.own, rq.until = g.Token, false, g.SentAt.Add(g.TTL.Std())
		rq.linger = rq.until.Add(-guardReserve)
	} else {
		expires = c.Token().Expires
	}
	a, err := c.call(ctx, rq)
	if err != nil {
		return Grant{}, a.versionGone(err, opts)
	}
	grant, err := a.grant(rq, opts)
	if err != nil {
		return Grant{}, c.unusable(rq, a, err)
	}
	c.odd(grant.Suspect, grant.Warnings)
	if grant.LeaseID != "" {
		grant.TokenExpires = expires
	}
	return grant, nil
}

// apply makes the request's method, query and body.
func (o ReadOptions) apply(rq *request) error {
	kinds := 0
	for _, is := range []bool{o.KVv2, o.PKI, o.StaticRole} {
		if is {
			kinds++
		}
	}
	switch {
	case kinds > 1:
		return errors.New("a path is of one engine only: KVv2, PKI or StaticRole")
	case o.Version < 0 || o.Version > 0 && !o.KVv2:
		return errors.New("a version is a positive number, and of KV version 2 only")
	}
	switch rq.method = or(o.Method, http.MethodGet); rq.method {
	case http.MethodPost, http.MethodPut:
		if o.Version > 0 {
			return errors.New("a version is read with GET")
		}
		rq.body = o.Params
		if o.Params == nil {
			rq.body = map[string]any{}
		}
		return nil
	case http.MethodGet:
	default:
		return fmt.Errorf("the method %.16q is not GET, POST or PUT", o.Method)
	}
	if len(o.Params) > 0 || o.Version > 0 {
		rq.query = url.Values{}
	}
	for k, v := range o.Params {
		switch v.(type) {
		case string, bool, int, int64, float64, json.Number:
			rq.query.Set(k, fmt.Sprint(v))
		default:
			return fmt.Errorf("the parameter %.64q of a GET is no text, number or boolean", k)
		}
	}
	if o.Version > 0 {
		rq.query.Set("version", strconv.FormatInt(o.Version, 10))
	}
	return nil
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
	switch {
	case opts.KVv2:
		fields, err = g.unwrapKV(e, fields)
	case opts.PKI:
		err = g.readCertificate(a, fields)
	case opts.StaticRole:
		err = g.readStaticRole(fields)
	}
	if err != nil {
		return Grant{}, err
	}
	g.Keys = sortedKeys(fields)
	return g, nil
}

// Lasting gives Data without what changes while the credential stays the same
// (the ttl of a static role), for telling "same" from "changed".
func (g Grant) Lasting() json.RawMessage {
	if len(g.fleeting) == 0 {
		return g.Data
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(g.Data, &fields) != nil {
		return g.Data
	}
	for _, k := range g.fleeting {
		delete(fields, k)
	}
	out, err := json.Marshal(fields)
	if err != nil {
		return g.Data
	}
	return out
}

// Format prints a grant without its data.
func (g Grant) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, fmt.Sprintf("lease %q, ttl %s s, keys [%s]", g.LeaseID, g.TTL, strings.Join(g.Keys, " ")))
}

// LogValue logs a grant without its data.
func (g Grant) LogValue() slog.Value {
	return slog.GroupValue(slog.String("lease", g.LeaseID), slog.String("ttl_s", g.TTL.String()), slog.Any("keys", g.Keys))
}

// Format prints no parameters: they may hold a secret.
func (o ReadOptions) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, or(o.Method, http.MethodGet))
}
