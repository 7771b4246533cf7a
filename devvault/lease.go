package devvault

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// credential is what a lease stands for. Both methods are called under s.mu;
// what they return is called without it.
type credential interface {
	// renewal tells within which limits the lease can be renewed today, and
	// what tells the credential of it, or nil. Its error refuses.
	renewal() (grant, func(ctx context.Context, expires time.Time) error, error)
	// ending tells what ends the credential; that it is gone is no error.
	ending() func(ctx context.Context) error
}

// lease is one dynamic credential that was handed out.
type lease struct {
	// op serialises renewals and drops of this lease. It is taken before
	// Server.mu, and held while the account is worked on.
	op sync.Mutex

	// What follows never changes.
	id, path   string // path is what was read
	credential credential
	role       string
	user       string // the account's; empty where there is none
	renewable  bool
	issued     time.Time
	token      string // the id it hangs on; empty for an orphan batch token's
	batchEnd   time.Time

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

// grantLease hangs l on the token of the call. If that token is gone by now,
// nobody will be told of the account, so it goes too.
func (s *Server) grantLease(req *request, l *lease) error {
	err := s.registerLease(req, l)
	if err == nil {
		return nil
	}
	s.mu.Lock()
	end := l.credential.ending()
	s.mu.Unlock()
	dropErr := end(req.ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case dropErr != nil:
		s.counters.DropsFailed++
		s.log.Warn("account left behind by a read that found its token gone", "user", l.user, "error", dropErr)
	case l.user != "":
		s.counters.AccountsDropped++
	}
	return err
}

func (s *Server) registerLease(req *request, l *lease) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.user != "" {
		s.counters.AccountsCreated++
	}
	l.issued = s.now()
	l.expires = l.issued.Add(l.ttl)
	t := s.tokens[req.tokenID]
	if t == nil {
		return listed(http.StatusInternalServerError, "internal error")
	}
	l.token = req.tokenID
	if t.batch {
		l.token, l.batchEnd = t.parent, t.expires
		if l.expires.After(l.batchEnd) {
			l.expires = l.batchEnd
			l.ttl = l.expires.Sub(l.issued).Round(time.Second)
		}
	}
	s.addLease(l)
	return nil
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
	end := l.credential.ending()
	s.mu.Unlock()

	err := end(ctx)

	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.counters.DropsFailed++
		if !force {
			return fmt.Errorf("failed to revoke entry: resp: (*logical.Response)(nil) err: %w", err)
		}
		s.log.Warn("account left behind by a forced revocation", "lease_id", l.id, "error", err)
	} else if l.user != "" {
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
	case !l.renewable:
		return "lease is not renewable"
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
	g, extend, err := l.credential.renewal()
	if err != nil {
		s.mu.Unlock()
		return nil, failedRenewal(err.Error())
	}
	g.increment, g.issued = increment, l.issued
	ttl, warnings, err := g.ttl(now)
	s.mu.Unlock()
	if err != nil {
		return nil, failedRenewal(err.Error())
	}
	if extend != nil {
		if err := extend(ctx, now.Add(ttl+expiryMargin)); err != nil {
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
