package devvault

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// leaseAPI serves sys/leases/, and sys/renew and sys/revoke for old clients.
func (s *Server) leaseAPI(req *request, sub string) (*response, error) {
	head, rest, _ := strings.Cut(sub, "/")
	if head == "lookup" && req.op == opList {
		return s.listLeases(rest)
	}
	if !req.op.write() {
		return nil, unsupportedOperation()
	}
	f := req.fields()
	id := f.text("lease_id")
	sync := f.boolean("sync", true)
	increment := f.seconds("increment")
	if f.err != nil {
		return nil, f.err
	}
	if id == "" && head != "lookup" {
		id = rest
	}
	switch head {
	case "lookup", "renew", "revoke":
		if id == "" {
			return nil, badRequest("lease_id must be specified")
		}
	}
	switch head {
	case "lookup":
		return s.lookupLease(id)
	case "renew":
		s.mu.Lock()
		ofToken := s.tokenByLease(id) != nil
		s.mu.Unlock()
		if ofToken {
			return nil, badRequest("tokens cannot be renewed through this endpoint")
		}
		return s.renewLease(req.ctx, id, increment)
	case "revoke":
		return s.revokeByID(req, id, sync)
	case "revoke-prefix":
		return s.revokePrefix(req, rest, sync, false)
	case "revoke-force":
		return s.revokePrefix(req, rest, true, true)
	}
	return nil, unsupportedPath()
}

func (s *Server) lookupLease(id string) (*response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if t := s.tokenByLease(id); t != nil {
		data := map[string]any{"id": id, "issue_time": t.issued, "expire_time": nil, "last_renewal": nil, "ttl": int64(0), "path": t.path, "renewable": t.renewable}
		if !t.expires.IsZero() {
			data["expire_time"], data["ttl"] = t.expires, secondsLeft(t.expires, now)
		}
		if !t.renewed.IsZero() {
			data["last_renewal"] = t.renewed
		}
		return &response{data: data}, nil
	}
	l := s.leases[id]
	if l == nil {
		return nil, badRequest("invalid lease")
	}
	data := map[string]any{
		"id": id, "issue_time": l.issued, "expire_time": l.expires, "last_renewal": nil, "ttl": secondsLeft(l.expires, now),
		"path": l.path, "renewable": l.refusal(now) == "",
	}
	if !l.renewed.IsZero() {
		data["last_renewal"] = l.renewed
	}
	if l.irrevocable != "" {
		data["revoke_error"] = l.irrevocable
	}
	return &response{data: data}, nil
}

// tokenByLease finds a live token by the id of its own lease. The caller
// holds s.mu.
func (s *Server) tokenByLease(id string) *token {
	if !strings.HasPrefix(id, "auth/") {
		return nil
	}
	for _, t := range s.tokens {
		if !t.batch && t.leaseID() == id {
			return t
		}
	}
	return nil
}

// leaseIDs lists the ids of all leases under prefix, tokens' too. The caller
// holds s.mu.
func (s *Server) leaseIDs(prefix string) []string {
	var ids []string
	for id := range s.leases {
		if strings.HasPrefix(id, prefix) {
			ids = append(ids, id)
		}
	}
	for _, t := range s.tokens {
		if !t.batch && strings.HasPrefix(t.leaseID(), prefix) {
			ids = append(ids, t.leaseID())
		}
	}
	slices.Sort(ids)
	return ids
}

func (s *Server) listLeases(prefix string) (*response, error) {
	if prefix != "" && !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return keysOf(children(s.leaseIDs(prefix), prefix)), nil
}

// children cuts keys down to what is directly below prefix; a folder ends in
// a slash.
func children(keys []string, prefix string) []string {
	var out []string
	for _, k := range keys {
		below, ok := strings.CutPrefix(k, prefix)
		if !ok || below == "" {
			continue
		}
		if i := strings.IndexByte(below, '/'); i >= 0 {
			below = below[:i+1]
		}
		out = append(out, below)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// revokeByID revokes a lease. One that is not known is no error: it is gone.
func (s *Server) revokeByID(req *request, id string, sync bool) (*response, error) {
	s.mu.Lock()
	l := s.leases[id]
	if t := s.tokenByLease(id); t != nil {
		s.revokeTree(t.id.Reveal())
	}
	if l != nil && !sync {
		s.markDue(l)
	}
	s.mu.Unlock()
	if !sync {
		return &response{status: http.StatusAccepted}, nil
	}
	if l == nil {
		return nil, nil
	}
	if err := s.dropLease(req.ctx, l, false); err != nil {
		return nil, badRequest(err.Error())
	}
	return nil, nil
}

func (s *Server) revokePrefix(req *request, prefix string, sync, force bool) (*response, error) {
	if prefix == "" {
		return nil, unsupportedPath()
	}
	s.mu.Lock()
	ids := []string{prefix}
	if !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	one := s.leases[ids[0]] != nil || s.tokenByLease(ids[0]) != nil
	if !one {
		ids = s.leaseIDs(prefix)
	}
	s.mu.Unlock()
	for i, id := range ids {
		s.mu.Lock()
		l := s.leases[id]
		s.mu.Unlock()
		if force && l != nil {
			_ = s.dropLease(req.ctx, l, true)
			continue
		}
		if _, err := s.revokeByID(req, id, sync); err != nil {
			at := fmt.Sprintf(" (%d / %d)", i+1, len(ids))
			if one {
				at = ""
			}
			why := err.Error()
			var refused *apiError
			if errors.As(err, &refused) {
				why = refused.message
			}
			return nil, badRequest(fmt.Sprintf("failed to revoke %q%s: %s", id, at, why))
		}
	}
	if !sync {
		return &response{status: http.StatusAccepted}, nil
	}
	return nil, nil
}
