package devvault

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"time"

	"github.com/leasesvc/leasesvc/secret"
)

// usesPending marks a token whose last use is running: it is valid for that
// one, and for nothing else.
const usesPending = -1

var notInDisplayName = regexp.MustCompile("[^a-zA-Z0-9-]")

// token is one token. Its fields are guarded by Server.mu, except in the copy
// that a request carries.
type token struct {
	id       secret.String
	accessor string // empty for a batch token
	parent   string // the parent's id; empty for an orphan
	policies []string
	path     string
	role     string
	login    *login   // of a token that an auth method gave
	wrapped  *wrapped // of a wrapping token
	display  string
	meta     map[string]string
	batch    bool
	uses     int // 0 is unlimited, usesPending is the last one running

	creationTTL, period, explicitMax time.Duration // as asked for, not the role's
	granted                          time.Duration // the TTL of the last grant
	renewable                        bool
	created, issued, expires         time.Time // expires is zero: never
	renewed                          time.Time
}

// leaseID is the name of the token's own lease, which prefix revocation and
// listing see. It tells nothing about the token.
func (t *token) leaseID() string {
	sum := sha256.Sum256([]byte(t.accessor))
	return t.path + "/h" + hex.EncodeToString(sum[:])
}

func (t *token) typeName() string {
	if t.batch {
		return "batch"
	}
	return "service"
}

func (t *token) isRoot() bool { return slices.Contains(t.policies, "root") }

// addToken stores t under a fresh id and accessor unless it brings an id. The
// caller holds s.mu.
func (s *Server) addToken(t *token) {
	if t.id.IsZero() {
		prefix := "s."
		if t.batch {
			prefix = "b."
		}
		t.id = secret.New(prefix + randomBase62(24))
	}
	id := t.id.Reveal()
	s.tokens[id] = t
	if !t.batch {
		t.accessor = randomBase62(24)
		s.accessors[t.accessor] = id
	}
	if t.parent != "" {
		if s.children[t.parent] == nil {
			s.children[t.parent] = map[string]bool{}
		}
		s.children[t.parent][id] = true
	}
	s.noteDue(t.expires)
	s.counters.TokensCreated++
}

// liveToken finds a token that has not expired at now. One that has is
// revoked on the way: being late is no grace. The caller holds s.mu.
func (s *Server) liveToken(id string) *token {
	t := s.tokens[id]
	if t == nil {
		return nil
	}
	if t.batch && t.parent != "" && s.liveToken(t.parent) == nil {
		s.revokeTree(id)
		return nil
	}
	if !t.expires.IsZero() && !t.expires.After(s.now()) {
		s.revokeTree(id)
		s.counters.TokensExpired++
		return nil
	}
	return t
}

func (s *Server) liveAccessor(accessor string) *token {
	return s.liveToken(s.accessors[accessor])
}

// revokeTree revokes a token, its descendants, and marks all their leases
// due. The caller holds s.mu; the accounts are dropped by the expiry
// goroutine, soon after.
func (s *Server) revokeTree(id string) {
	for child := range s.children[id] {
		s.revokeTree(child)
	}
	s.revokeOne(id)
}

// revokeOne revokes a token and its leases, and leaves its children to be
// orphans of a parent that is gone. The caller holds s.mu.
func (s *Server) revokeOne(id string) {
	t := s.tokens[id]
	if t == nil {
		return
	}
	delete(s.tokens, id)
	delete(s.accessors, t.accessor)
	delete(s.children[t.parent], id)
	if len(s.children[t.parent]) == 0 {
		delete(s.children, t.parent)
	}
	delete(s.children, id)
	for l := range s.byToken[id] {
		s.markDue(l)
	}
	delete(s.byToken, id)
	s.counters.TokensRevoked++
}

// orphanChildren cuts the children of id loose. The caller holds s.mu.
func (s *Server) orphanChildren(id string) {
	for child := range s.children[id] {
		if t := s.tokens[child]; t != nil {
			t.parent = ""
		}
	}
	delete(s.children, id)
}
