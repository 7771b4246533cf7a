package devvault

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// lease is one dynamic credential that was handed out.
type lease struct {
	// op serialises renewals and drops of this lease. It is taken before
	// Server.mu, and held while the account is worked on.
	op sync.Mutex

	// What follows never changes.
	id, path string // path is what was read
	db       *database
	role     string
	user     string
	dbName   string
	revoke   []string // revocation statements, in case the role is gone by then
	issued   time.Time
	token    string // the id it hangs on; empty for an orphan batch token's
	batchEnd time.Time

	// What follows is guarded by Server.mu.
	ttl              time.Duration
	expires, renewed time.Time
	due              time.Time // when the expiry goroutine looks at it
	attempts         int       // failed drops
	irrevocable      string    // why it was given up, or empty
	inFlight, gone   bool
}

// addLease registers a lease. The caller holds s.mu.
func (s *Server) addLease(l *lease) {
	s.leases[l.id] = l
	if l.token != "" {
		if s.byToken[l.token] == nil {
			s.byToken[l.token] = map[*lease]bool{}
		}
		s.byToken[l.token][l] = true
	}
	l.due = l.expires
	s.noteDue(l.due)
	s.counters.LeasesIssued++
}

// markDue ends a lease now; the expiry goroutine drops its account. The
// caller holds s.mu.
func (s *Server) markDue(l *lease) {
	if l.gone || l.irrevocable != "" {
		return
	}
	l.expires = s.now()
	l.due = l.expires
	s.noteDue(l.due)
}

// forget removes a lease whose account is gone. The caller holds s.mu.
func (s *Server) forget(l *lease) {
	l.gone = true
	delete(s.leases, l.id)
	delete(s.byToken[l.token], l)
	if len(s.byToken[l.token]) == 0 {
		delete(s.byToken, l.token)
	}
	s.counters.LeasesRevoked++
}

// dropLease drops the account and forgets the lease. With force it is
// forgotten even if the account could not be dropped. Dropping one that is
// gone does nothing.
func (s *Server) dropLease(ctx context.Context, l *lease, force bool) error {
	l.op.Lock()
	defer l.op.Unlock()
	s.mu.Lock()
	if l.gone {
		s.mu.Unlock()
		return nil
	}
	statements, dbName := l.revoke, l.dbName
	if role := l.db.roles[l.role]; role != nil {
		statements, dbName = role.revocation, role.dbName
	}
	accounts := l.db.accounts(dbName)
	s.mu.Unlock()

	err := accounts.Drop(ctx, l.user, statements)

	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.counters.DropsFailed++
		if !force {
			return fmt.Errorf("failed to revoke entry: resp: (*logical.Response)(nil) err: %w", err)
		}
		s.log.Warn("account left behind by a forced revocation", "lease_id", l.id, "error", err)
	} else {
		s.counters.AccountsDropped++
	}
	s.forget(l)
	return nil
}

// refusal tells why a lease cannot be renewed, or nothing. The caller holds
// s.mu.
func (l *lease) refusal(now time.Time) string {
	switch {
	case l == nil || l.gone:
		return "lease not found"
	case l.irrevocable != "":
		return "lease is expired and has failed previous revocation attempts"
	case !l.expires.After(now):
		return "lease expired"
	}
	return ""
}

// renewLease extends a lease and its account. The account is told first: it
// must not end before the lease.
func (s *Server) renewLease(ctx context.Context, id string, increment time.Duration) (*response, error) {
	s.mu.Lock()
	l := s.leases[id]
	s.mu.Unlock()
	if l == nil {
		return nil, badRequest("lease not found")
	}
	l.op.Lock()
	defer l.op.Unlock()

	s.mu.Lock()
	now := s.now()
	if why := l.refusal(now); why != "" {
		s.mu.Unlock()
		return nil, badRequest(why)
	}
	role := l.db.roles[l.role]
	if role == nil {
		s.mu.Unlock()
		return nil, failedRenewal(fmt.Sprintf("error during renew: could not find role with name %q", l.role))
	}
	g := grant{
		increment: increment, usual: role.defaultTTL, max: role.maxTTL, issued: l.issued,
		systemDefault: l.db.mount.defaultTTL(s), systemMax: l.db.mount.maxTTL(s),
	}
	ttl, warnings, err := g.ttl(now)
	if err != nil {
		s.mu.Unlock()
		return nil, failedRenewal(err.Error())
	}
	accounts, statements := l.db.accounts(role.dbName), role.renewal
	s.mu.Unlock()

	if e, ok := accounts.(Extender); ok {
		if err := e.Extend(ctx, l.user, now.Add(ttl+expiryMargin), statements); err != nil {
			return nil, failedRenewal(err.Error())
		}
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	now = s.now()
	l.ttl, l.renewed, l.expires = ttl, now, now.Add(ttl)
	if !l.batchEnd.IsZero() && l.expires.After(l.batchEnd) {
		l.expires, l.ttl = l.batchEnd, l.batchEnd.Sub(now)
	}
	if l.token != "" && s.tokens[l.token] == nil {
		// The token went while the account was being extended.
		l.expires = now
	}
	l.due = l.expires
	s.noteDue(l.due)
	s.counters.LeasesRenewed++
	return &response{lease: &leaseAnswer{id: l.id, renewable: true, ttl: l.ttl}, warnings: warnings}, nil
}

func failedRenewal(why string) error {
	return badRequest("failed to renew entry: resp: (*logical.Response)(nil) err: " + why)
}
