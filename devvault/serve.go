package devvault

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// ServeHTTP implements http.Handler. A connection that a [Fault] drops is
// dropped by a panic with http.ErrAbortHandler, which net/http's server
// understands.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.traffic.enter() {
		panic(http.ErrAbortHandler)
	}
	// Read to its end whatever the method is: only then the connection is watched,
	// so that a fault that waits for the client to go away sees it go.
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		s.traffic.active.Done()
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	entry := s.entryFor(r)
	defer func() { s.traffic.leave(entry) }()
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", "application/json")
	w = &recorder{ResponseWriter: w, entry: entry}
	if f := s.faults.take(r.Method, entry.Path); f != nil {
		entry.Fault = true
		s.misbehave(f, w, r)
		return
	}
	s.serve(w, r)
}

// recorder notes the status that was answered.
type recorder struct {
	http.ResponseWriter
	entry *Request
}

func (r *recorder) WriteHeader(status int) {
	r.entry.Status = status
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.entry.Status == 0 {
		r.entry.Status = http.StatusOK
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController through.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// serve answers without any fault.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	a := s.dispatch(r)
	if s.cfg.Answered != nil {
		s.cfg.Answered(strings.TrimPrefix(r.URL.Path, "/v1/"), a.body)
	}
	if a.contentType != "" {
		w.Header().Set("Content-Type", a.contentType)
	}
	w.WriteHeader(a.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(a.body)
	}
}

// held is an answer that is kept back.
type held struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (h *held) Header() http.Header         { return h.header }
func (h *held) Write(b []byte) (int, error) { return h.body.Write(b) }
func (h *held) WriteHeader(status int)      { h.status = status }

func (s *Server) dispatch(r *http.Request) answer {
	req, err := parseRequest(r)
	if err != nil {
		return renderError(err)
	}
	// An account is made or dropped to the end even if the client has gone:
	// half done, it would be one that no lease accounts for.
	ctx, cancel := context.WithTimeout(s.life, dropTimeout)
	defer cancel()
	req.ctx = ctx
	switch strings.TrimSuffix(req.path, "/") {
	case "sys/health":
		return s.health(r)
	case "sys/seal-status":
		return s.sealStatus()
	case "sys/init":
		return answer{status: http.StatusOK, body: encode(map[string]any{"initialized": true})}
	}
	done, err := s.admit(req)
	if err != nil {
		return s.render(req, nil, err)
	}
	resp, err := s.route(req)
	if done != nil {
		resp, err = done(resp, err)
	}
	a := s.render(req, resp, err)
	if req.wrapTTL > 0 && err == nil && resp != nil && resp.raw == nil && a.status == http.StatusOK {
		return s.wrap(req, resp, a.body)
	}
	return a
}

// admit checks the seal, the token and its policies, and counts a limited
// use. What it returns is run after the call, if it is not nil.
func (s *Server) admit(req *request) (func(*response, error) (*response, error), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed {
		return nil, &apiError{status: http.StatusServiceUnavailable, message: "Vault is sealed"}
	}
	if s.isLogin(req.path) {
		return nil, nil
	}
	if isUnwrapping(req.path) {
		if _, err := s.wrappingToken(req); err != nil || req.path == "sys/wrapping/lookup" {
			return nil, err
		}
	}
	t := s.liveToken(req.tokenID)
	if t == nil || t.uses == usesPending {
		return nil, &apiError{status: http.StatusForbidden, message: "permission denied"}
	}
	if req.op == opUpdate && s.creates(req.path) {
		req.op = opCreate
	}
	var done func(*response, error) (*response, error)
	switch {
	case t.uses == 1:
		t.uses = usesPending
		done = func(resp *response, err error) (*response, error) { return s.lastUse(req.tokenID, resp, err) }
	case t.uses > 1:
		t.uses--
	}
	req.token = *t
	if !s.aclOf(t.policies).allows(req.path, req.op, needsSudo(req.path)) {
		denied := listed(http.StatusForbidden, "permission denied")
		if done != nil {
			s.revokeTree(req.tokenID)
		}
		return nil, denied
	}
	return done, nil
}

// lastUse ends a token whose uses are used up. A lease it got with the last
// one ends with it, so its secret is not handed out.
func (s *Server) lastUse(id string, resp *response, err error) (*response, error) {
	s.mu.Lock()
	s.revokeTree(id)
	s.mu.Unlock()
	if err == nil && resp != nil && resp.lease != nil && resp.lease.id != "" {
		return nil, badRequest("Secret cannot be returned; token had one use left, so leased credentials were immediately revoked.")
	}
	return resp, err
}

// creates tells whether a write to path makes something new: only some
// engines tell the two apart. The caller holds s.mu.
func (s *Server) creates(path string) bool {
	if name, ok := strings.CutPrefix(path, "auth/token/roles/"); ok {
		return s.tokenRoles[name] == nil
	}
	m, sub := s.authMountOf(path)
	if m == nil {
		m, sub = s.mountOf(path)
	}
	return m != nil && !m.engine.exists(sub)
}

// route hands the call to its engine.
func (s *Server) route(req *request) (*response, error) {
	if sub, ok := strings.CutPrefix(req.path, "auth/token/"); ok {
		return s.tokenAPI(req, strings.TrimSuffix(sub, "/"))
	}
	if sub, ok := strings.CutPrefix(req.path, "sys/"); ok {
		return s.systemAPI(req, sub)
	}
	s.mu.Lock()
	m, sub := s.authMountOf(req.path)
	if m == nil {
		m, sub = s.mountOf(req.path)
	}
	s.mu.Unlock()
	if m == nil {
		return nil, &apiError{status: http.StatusNotFound, message: "no handler for route " + strconv.Quote(req.path) + ". route entry not found."}
	}
	return m.engine.handle(req, sub)
}
