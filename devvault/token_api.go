package devvault

import (
	"net/http"
	"slices"
	"strings"
)

// tokenAPI serves auth/token/.
func (s *Server) tokenAPI(req *request, sub string) (*response, error) {
	head, rest, _ := strings.Cut(sub, "/")
	write := req.op.write()
	switch {
	case head == "roles":
		return s.tokenRoleAPI(req, rest)
	case head == "accessors" && req.op == opList:
		s.mu.Lock()
		defer s.mu.Unlock()
		var keys []string
		for a := range s.accessors {
			keys = append(keys, a)
		}
		return keysOf(keys), nil
	case head == "create" && write:
		return s.createToken(req, false, rest)
	case sub == "create-orphan" && write:
		return s.createToken(req, true, "")
	case sub == "lookup-self" && (write || req.op == opRead):
		return s.lookupToken(req, req.tokenID)
	case sub == "lookup" && (write || req.op == opRead):
		id := req.fields().text("token")
		if id == "" {
			id = req.tokenID
		}
		return s.lookupToken(req, id)
	case sub == "lookup-accessor" && write:
		return s.byAccessor(req, func(t *token) (*response, error) {
			data := s.tokenFields(t)
			data["id"] = ""
			return &response{data: data}, nil
		})
	case sub == "renew-self" && write:
		return s.renewToken(req, req.tokenID)
	case sub == "renew" && write:
		id := req.fields().text("token")
		if id == "" {
			return nil, badRequest("missing token ID")
		}
		return s.renewToken(req, id)
	case sub == "renew-accessor" && write:
		return s.byAccessor(req, func(t *token) (*response, error) { return s.renewLocked(req, t, "") })
	case sub == "revoke-self" && write:
		return s.revokeToken(req.tokenID)
	case sub == "revoke" && write:
		id := req.fields().text("token")
		if id == "" {
			return nil, badRequest("missing token ID")
		}
		return s.revokeToken(id)
	case sub == "revoke-accessor" && write:
		return s.revokeAccessor(req)
	case sub == "revoke-orphan" && write:
		return s.revokeOrphan(req)
	}
	known := []string{"accessors", "create", "create-orphan", "lookup", "lookup-self", "lookup-accessor", "renew", "renew-self",
		"renew-accessor", "revoke", "revoke-self", "revoke-accessor", "revoke-orphan"}
	if slices.Contains(known, head) {
		return nil, unsupportedOperation()
	}
	return nil, unsupportedPath()
}

// byAccessor runs do, under the lock, for the token the call names.
func (s *Server) byAccessor(req *request, do func(*token) (*response, error)) (*response, error) {
	accessor := req.fields().text("accessor")
	if accessor == "" {
		return nil, listed(http.StatusBadRequest, "missing accessor")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.liveAccessor(accessor)
	if t == nil {
		return nil, listed(http.StatusBadRequest, "invalid accessor")
	}
	return do(t)
}

func (s *Server) lookupToken(_ *request, id string) (*response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.liveToken(id)
	if t == nil {
		return nil, &apiError{status: http.StatusForbidden, message: "bad token"}
	}
	return &response{data: s.tokenFields(t)}, nil
}

// tokenFields is what a lookup tells of a token. The caller holds s.mu.
func (s *Server) tokenFields(t *token) map[string]any {
	var meta any
	if t.meta != nil {
		meta = t.meta
	}
	data := map[string]any{
		"id": t.id.Reveal(), "accessor": t.accessor, "policies": slices.Clone(t.policies), "path": t.path, "meta": meta,
		"display_name": t.display, "num_uses": t.uses, "orphan": t.parent == "", "creation_time": t.created.Unix(),
		"creation_ttl": int64(t.creationTTL.Seconds()), "expire_time": nil, "ttl": int64(0),
		"explicit_max_ttl": int64(t.explicitMax.Seconds()), "entity_id": "", "type": t.typeName(),
		"renewable": t.renewable, "issue_time": t.issued,
	}
	if t.role != "" {
		data["role"] = t.role
	}
	if t.period != 0 {
		data["period"] = int64(t.period.Seconds())
	}
	if !t.renewed.IsZero() {
		data["last_renewal_time"], data["last_renewal"] = t.renewed.Unix(), t.renewed
	}
	if !t.expires.IsZero() {
		data["expire_time"], data["ttl"] = t.expires, secondsLeft(t.expires, s.now())
	}
	return data
}

func (s *Server) renewToken(req *request, id string) (*response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.liveToken(id)
	if t == nil {
		return nil, badRequest("token not found")
	}
	return s.renewLocked(req, t, id)
}

// renewLocked extends t by what the call asks for, within its maximum. With a
// role, the role's limits of today count. The caller
// holds s.mu.
func (s *Server) renewLocked(req *request, t *token, clientToken string) (*response, error) {
	f := req.fields()
	increment := f.seconds("increment")
	if f.err != nil {
		return nil, f.err
	}
	switch {
	case t.batch:
		return nil, badRequest("batch tokens cannot be renewed")
	case t.expires.IsZero() || !t.renewable:
		return nil, badRequest("lease is not renewable")
	}
	limits, err := s.limitsOf(t, req)
	if err != nil {
		return nil, err
	}
	limits.increment = increment
	ttl, warnings, err := limits.ttl(s.now())
	if err != nil {
		return nil, listed(http.StatusInternalServerError, err.Error())
	}
	now := s.now()
	t.granted, t.expires, t.renewed = ttl, now.Add(ttl), now
	s.noteDue(t.expires)
	return &response{auth: t.answer(clientToken), warnings: warnings}, nil
}

func (s *Server) revokeToken(id string) (*response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.liveToken(id)
	if t == nil {
		return nil, nil
	}
	if t.batch {
		return nil, badRequest("batch tokens cannot be revoked")
	}
	s.revokeTree(id)
	return nil, nil
}

func (s *Server) revokeAccessor(req *request) (*response, error) {
	accessor := req.fields().text("accessor")
	if accessor == "" {
		return nil, listed(http.StatusBadRequest, "missing accessor")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.liveAccessor(accessor)
	if t == nil {
		return &response{warnings: []string{"No token found with this accessor"}}, nil
	}
	s.revokeTree(t.id.Reveal())
	return nil, nil
}

func (s *Server) revokeOrphan(req *request) (*response, error) {
	id := req.fields().text("token")
	if id == "" {
		return nil, badRequest("missing token ID")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.aclOf(req.token.policies).sudo(req.path) {
		return nil, badRequest("root or sudo privileges required to revoke and orphan")
	}
	t := s.liveToken(id)
	if t == nil {
		return nil, badRequest("token to revoke not found")
	}
	if t.batch {
		return nil, badRequest("batch tokens cannot be revoked")
	}
	s.orphanChildren(id)
	s.revokeOne(id)
	return nil, nil
}
