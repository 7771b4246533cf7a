package devvault

import (
	"slices"
	"strings"
	"time"
)

// LeaseInfo is a lease as it is now.
type LeaseInfo struct {
	ID, Path, Role, User     string
	Issued, Expires, Renewed time.Time
	// Accessor is of the token it hangs on; empty for a batch token's, or
	// when that token is gone and the lease about to go.
	Accessor string
	// Attempts counts failed drops; Irrevocable tells why it was given up.
	Attempts    int
	Irrevocable string
}

// TokenInfo is a token as it is now, without the token. Role is the token
// role's, or the one of the login.
type TokenInfo struct {
	Accessor, ParentAccessor, Path, Role, DisplayName string
	Policies                                          []string
	Orphan, Batch, Renewable                          bool
	Issued, Expires, Renewed                          time.Time // Expires is zero for one that does not
	Uses, Leases                                      int
}

// Leases returns all leases, by id.
func (s *Server) Leases() []LeaseInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]LeaseInfo, 0, len(s.leases))
	for _, l := range s.leases {
		info := LeaseInfo{
			ID: l.id, Path: l.path, Role: l.role, User: l.user, Issued: l.issued, Expires: l.expires, Renewed: l.renewed,
			Attempts: l.attempts, Irrevocable: l.irrevocable,
		}
		if t := s.tokens[l.token]; t != nil {
			info.Accessor = t.accessor
		}
		out = append(out, info)
	}
	slices.SortFunc(out, func(a, b LeaseInfo) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// Tokens returns all tokens, oldest first.
func (s *Server) Tokens() []TokenInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]TokenInfo, 0, len(s.tokens))
	for id, t := range s.tokens {
		info := TokenInfo{
			Accessor: t.accessor, Path: t.path, Role: t.role, DisplayName: t.display, Policies: slices.Clone(t.policies),
			Orphan: t.parent == "", Batch: t.batch, Renewable: t.renewable, Issued: t.issued, Expires: t.expires, Renewed: t.renewed,
			Uses: t.uses, Leases: len(s.byToken[id]),
		}
		if t.login != nil {
			info.Role = t.login.role
		}
		if p := s.tokens[t.parent]; p != nil {
			info.ParentAccessor = p.accessor
		}
		out = append(out, info)
	}
	slices.SortFunc(out, func(a, b TokenInfo) int {
		if c := a.Issued.Compare(b.Issued); c != 0 {
			return c
		}
		return strings.Compare(a.Accessor, b.Accessor)
	})
	return out
}

// Counters count what happened since the start.
type Counters struct {
	TokensCreated, TokensRevoked, TokensExpired                   int // expired ones are revoked too
	LeasesIssued, LeasesRenewed, LeasesRevoked, LeasesIrrevocable int
	AccountsCreated, AccountsDropped, DropsFailed, Rotations      int
}

// Counters returns the counters of now.
func (s *Server) Counters() Counters {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counters
}
