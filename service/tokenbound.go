package service

import (
	"sync"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/vault"
)

// hanging is what a lease that was read without a guard hangs on: our own token
// as it was at some login.
type hanging struct {
	login int64
	ends  time.Time // as last known; zero: never
	// granted is what Vault granted the lease, were it not for the token: its
	// renewals ask for that.
	granted events.Seconds
}

// tokenBound remembers what unguarded leases hang on (C23): Vault ends a lease
// with the token that asked for it, whatever a renewal of the lease granted. It
// is memory, bounded by the leases that live; see [vaultConn.bound] for what a
// restart makes of it. The zero value is ready for use.
type tokenBound struct {
	mu      sync.Mutex
	byLease map[string]hanging
}

func (b *tokenBound) put(leaseID string, h hanging) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byLease == nil {
		b.byLease = map[string]hanging{}
	}
	b.byLease[leaseID] = h
}

func (b *tokenBound) get(leaseID string) (hanging, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h, ok := b.byLease[leaseID]
	return h, ok
}

func (b *tokenBound) forget(leaseID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.byLease, leaseID)
}

// acquiredUnguarded bounds a fresh lease by the token that it was read with.
func (v *vaultConn) acquiredUnguarded(g vault.Grant, token vault.TokenStatus, a *events.Acquired) {
	v.bound.put(g.LeaseID, hanging{login: token.Logins, ends: g.TokenExpires, granted: a.TTL})
	if ttl, why := boundBy(g.TokenExpires, g.SentAt, a.TTL); why != "" {
		a.TTL, a.Suspect = ttl, join(a.Suspect, why)
	}
}

// asksFor gives the TTL that a renewal of an unguarded lease asks for: what it was
// granted first, since what it has now may be the rest of our token's life.
func (b *tokenBound) asksFor(leaseID string, has time.Duration) time.Duration {
	if h, known := b.get(leaseID); known {
		return max(h.granted.Duration(), has)
	}
	return has
}

// renewedUnguarded bounds a renewal by the end of the token that the lease hangs
// on, as far as it is known now: the token in force is renewed too, but not beyond
// its own max TTL, which nobody tells. ours tells that it is that token which
// bounds the lease: a successor would hang on it too, and a later renewal, after
// the token's own, gets more. A token of an earlier login nobody renews any more.
// After a restart of a service that logs in it is one of an earlier life, whose end
// nobody knows: nothing is believed beyond what was known before, which is left, so
// that a successor is acquired.
func (v *vaultConn) renewedUnguarded(leaseID string, left time.Duration, r vault.Renewal, out *events.Renewed) (ours bool) {
	token := v.client.Token()
	h, known := v.bound.get(leaseID)
	switch {
	case known && h.login == token.Logins, !known && token.Given:
		h.login, h.ends = token.Logins, token.Expires
		v.bound.put(leaseID, h)
		ttl, why := boundBy(h.ends, r.SentAt, out.TTL)
		out.TTL = ttl
		return why != ""
	case !known:
		if most := events.FromDuration(left); most.Cmp(out.TTL) < 0 {
			out.TTL, out.Suspect = most, join(out.Suspect, "it hangs on a token of before the restart, whose end is not known")
		}
	default:
		if ttl, why := boundBy(h.ends, r.SentAt, out.TTL); why != "" {
			out.TTL, out.Suspect = ttl, join(out.Suspect, why)
		}
	}
	return false
}

// boundBy gives the TTL of a lease that ends with a token, and says so where that
// is earlier than by its own.
func boundBy(tokenEnds, sentAt time.Time, ttl events.Seconds) (events.Seconds, string) {
	if tokenEnds.IsZero() || ttl.Sign() <= 0 { // what 0 means is the core's to say (L9, L31)
		return ttl, ""
	}
	most := events.FromDuration(max(tokenEnds.Sub(sentAt), time.Nanosecond))
	if ttl.Cmp(most) <= 0 {
		return ttl, ""
	}
	return most, "it was read without a guard and ends with our own token"
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}
