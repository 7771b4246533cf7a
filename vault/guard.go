package vault

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/leasesvc/leasesvc/secret"
)

// DefaultGuardTTL is how long a guard lives that nobody extends, and so how
// long a lease that nobody knows of can.
const DefaultGuardTTL = 60 * time.Second

// Guard is the token that a lease hangs on: when it ends, Vault revokes the
// lease without us. It prints without the token.
type Guard struct {
	// Token is for one read and is dropped after it.
	Token    secret.String
	Accessor string
	// TTL is what was granted; it may differ from what was asked.
	TTL Duration
	// SentAt is when it was asked for: the guard ends no later than SentAt +
	// TTL + the time that the request took.
	SentAt time.Time
	// Warnings are the server's, about what was asked for and not given.
	Warnings []string
}

// GuardOptions is what a guard is made with.
type GuardOptions struct {
	// TTL is rounded up to whole seconds; 0 means DefaultGuardTTL.
	TTL time.Duration
	// Meta is shown beside the token in Vault's audit log; no secrets. May be nil.
	Meta map[string]string
}

// CreateGuard makes a guard by the configured token role, in one request that
// is never repeated. A token that can't guard (batch, without accessor, not an
// orphan, not renewable, use-limited) is ErrGuardUnfit, and is revoked again
// where that can be done. A 403 is ErrGuardForbidden. Other errors: [Error].
func (c *Client) CreateGuard(ctx context.Context, opts GuardOptions) (Guard, error) {
	const op = "create guard"
	path := "auth/token/create/" + c.cfg.GuardRole
	if c.cfg.GuardRole == "" {
		return Guard{}, c.invalid(op, "auth/token/create", errors.New("no guard role is configured"))
	}
	if opts.TTL < 0 {
		return Guard{}, c.invalid(op, path, fmt.Errorf("guard TTL %s is negative", opts.TTL))
	}
	if opts.TTL == 0 {
		opts.TTL = DefaultGuardTTL
	}
	if c.holdsBatch() {
		return Guard{}, fmt.Errorf("%w: %w", ErrGuardForbidden, &Error{Op: op, Conn: c.cfg.Name, Path: path, Kind: KindPermission,
			Err: errors.New("our own token is a batch token, which can't make tokens; set token_type=service where it is made")})
	}
	body := map[string]any{"ttl": wholeSeconds(opts.TTL), "display_name": "leasesvc-guard", "renewable": true}
	if len(opts.Meta) > 0 {
		body["meta"] = opts.Meta
	}
	rq := request{op: op, method: http.MethodPost, path: path, token: c.ownToken(), body: body, once: true, own: true}
	a, err := c.call(ctx, rq)
	if err != nil {
		if KindOf(err) == KindPermission && !errors.Is(err, ErrNotLoggedIn) {
			return Guard{}, fmt.Errorf("%w; the token needs update on %s: %w", ErrGuardForbidden, path, err)
		}
		return Guard{}, err
	}
	granted, err := a.tokenGrant(rq.token)
	if err != nil {
		return Guard{}, c.unusable(rq, a, err)
	}
	if why := granted.unfit(); why != "" {
		if granted.accessor != "" {
			_, _ = c.RevokeGuard(ctx, granted.accessor) // else it ends by its TTL
		}
		return Guard{}, fmt.Errorf("vault %s: create guard: role %s: %w: %s", c.cfg.Name, c.cfg.GuardRole, ErrGuardUnfit, why)
	}
	c.odd("", granted.warnings)
	return Guard{Token: granted.value, Accessor: granted.accessor, TTL: granted.ttl, SentAt: a.sentAt, Warnings: granted.warnings}, nil
}

func (c *Client) holdsBatch() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.token.batch
}

func (g tokenGrant) unfit() string {
	switch {
	case g.kind == "batch":
		return "it makes batch tokens, which can't be extended or revoked; set token_type=service"
	case g.value.IsZero():
		return "the answer holds no token"
	case g.accessor == "":
		return "the token has no accessor, so it could not be extended once it is out of memory; set token_type=service"
	case string(g.orphan) == "false":
		return "the token is no orphan, so its leases would die with our own token; set orphan=true"
	case g.uses > 0:
		return "the token has a use limit; set token_num_uses=0"
	case !g.renewable:
		return "the token can't be renewed, so it could not be extended; set renewable=true"
	case g.ttl.IsZero():
		return "the token would never expire, or its TTL can't be read: " + join("lease_duration 0", g.suspect)
	}
	return ""
}

// Extension is what the extension of a guard came to.
type Extension struct {
	// TTL is what was granted, from now.
	TTL time.Duration
	// Warnings are the server's, about what was asked for and not given.
	Warnings []string
}

// ExtendGuard gives the guard with that accessor increment more to live, from
// now, and returns what was granted, which may be less: a role with a period or
// an explicit max TTL does not extend as asked. It may be repeated.
//
// Errors: [Error]; KindNotFound when the guard is gone, and its lease with it.
func (c *Client) ExtendGuard(ctx context.Context, accessor string, increment time.Duration) (Extension, error) {
	const op, path = "extend guard", "auth/token/renew-accessor"
	if accessor == "" {
		return Extension{}, c.invalid(op, path, ErrEmptyAccessor)
	}
	if increment <= 0 {
		return Extension{}, c.invalid(op, path, fmt.Errorf("increment %s is not positive", increment))
	}
	rq := request{op: op, method: http.MethodPost, path: path, token: c.ownToken(), own: true,
		body: map[string]any{"accessor": accessor, "increment": wholeSeconds(increment)}}
	a, err := c.call(ctx, rq)
	if err != nil {
		return Extension{}, accessorGone(err)
	}
	granted, err := a.tokenGrant(rq.token)
	if err != nil {
		return Extension{}, c.unusable(rq, a, err)
	}
	if granted.ttl.IsZero() {
		return Extension{}, c.unusable(rq, a, errors.New(join("the extension grants no time", granted.suspect)))
	}
	c.odd("", granted.warnings)
	return Extension{TTL: granted.ttl.Std(), Warnings: granted.warnings}, nil
}

// LookupGuard tells what is left of the guard with that accessor.
//
// Errors: [Error]; KindNotFound when the guard is gone.
func (c *Client) LookupGuard(ctx context.Context, accessor string) (TokenInfo, error) {
	const op, path = "look up guard", "auth/token/lookup-accessor"
	if accessor == "" {
		return TokenInfo{}, c.invalid(op, path, ErrEmptyAccessor)
	}
	rq := request{op: op, method: http.MethodPost, path: path, token: c.ownToken(), own: true, look: true,
		body: map[string]any{"accessor": accessor}}
	a, err := c.call(ctx, rq)
	if err != nil {
		return TokenInfo{}, accessorGone(err)
	}
	info, err := a.tokenInfo(rq.token)
	if err != nil {
		return TokenInfo{}, c.unusable(rq, a, err)
	}
	return info, nil
}

// RevokeGuard revokes the guard with that accessor and whatever hangs on it. A
// guard that was gone already is no error, and gone is true (C40). It may be
// repeated.
func (c *Client) RevokeGuard(ctx context.Context, accessor string) (gone bool, err error) {
	const op, path = "revoke guard", "auth/token/revoke-accessor"
	if accessor == "" {
		return false, c.invalid(op, path, ErrEmptyAccessor)
	}
	a, err := c.call(ctx, request{op: op, method: http.MethodPost, path: path, token: c.ownToken(), own: true,
		body: map[string]any{"accessor": accessor}})
	if err = accessorGone(err); err != nil {
		return KindOf(err) == KindNotFound, unlessGone(err)
	}
	// OpenBao says so in a warning.
	e, err := a.parse()
	return err == nil && len(e.warnings) == 1 && strings.Contains(strings.ToLower(e.warnings[0]), "no token found"), nil
}
