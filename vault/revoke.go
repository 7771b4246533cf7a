package vault

import (
	"context"
	"fmt"
	"net/http"
)

// RevokeOption changes how a lease is revoked.
type RevokeOption func(*revocation)

type revocation struct{ verify bool }

// Verified has the lease looked up after its revocation, so that a server that
// said "done" and did nothing is found out. It takes a request more.
func Verified() RevokeOption { return func(r *revocation) { r.verify = true } }

// RevokeLease revokes a lease and waits until the engine has done so. A lease
// that was gone already is no error, and gone is true where the server says so
// (C40, L27). It may be repeated.
//
// Errors: [Error]; ErrEmptyLeaseID without a request (C41); with [Verified]
// ErrNotRevoked, KindConflict, when the lease is still there, and the look-up's
// error when that can't be told.
func (c *Client) RevokeLease(ctx context.Context, leaseID string, opts ...RevokeOption) (gone bool, err error) {
	const op, path = "revoke lease", "sys/leases/revoke"
	var with revocation
	for _, o := range opts {
		o(&with)
	}
	if err := c.checkLease(op, path, leaseID); err != nil {
		return false, err
	}
	_, err = c.call(ctx, request{op: op, method: http.MethodPost, path: path, token: c.ownToken(), own: true, mount: leaseID,
		body: map[string]any{"lease_id": leaseID, "sync": true}})
	err = leaseGone(err)
	gone = KindOf(err) == KindNotFound
	if err = unlessGone(err); err != nil || !with.verify {
		return gone, err
	}
	switch info, err := c.LookupLease(ctx, leaseID); {
	case KindOf(err) == KindNotFound:
		return gone, nil
	case err != nil:
		return false, fmt.Errorf("verifying the revocation: %w", err)
	default:
		return false, &Error{Op: op, Conn: c.cfg.Name, Path: path, Kind: KindConflict,
			Err: fmt.Errorf("%w: it has %s s left", ErrNotRevoked, info.TTL)}
	}
}
