package devvault

import (
	"net/http"
	"slices"
	"strings"
)

// authMethod is an engine that gives tokens to who has none.
type authMethod interface {
	engine
	// open tells whether sub may be called without a token: a login.
	open(sub string) bool
	// renewal gives the parameters in force today for a token of the method's.
	// Its error refuses. The caller holds s.mu.
	renewal(t *token, req *request) (tokenParams, error)
}

// login is how a token came to be, for its renewals.
type login struct {
	mount       *mount
	role        string
	certificate []byte // raw; of the certificate method
}

// identity is who logged in.
type identity struct {
	login
	display string // behind the mount's name; may be empty
	meta    map[string]string
}

// authMountOf finds the auth method that serves path. The caller holds s.mu.
func (s *Server) authMountOf(path string) (*mount, string) {
	path, ok := strings.CutPrefix(path, "auth/")
	if !ok {
		return nil, ""
	}
	for p, m := range s.authMounts {
		if below, ok := strings.CutPrefix(path, p); ok {
			return m, below
		}
	}
	return nil, ""
}

// isLogin tells whether path may be called without a token. The caller holds
// s.mu.
func (s *Server) isLogin(path string) bool {
	m, sub := s.authMountOf(path)
	return m != nil && m.method().open(sub)
}

func (m *mount) method() authMethod { return m.engine.(authMethod) }

// logIn makes the token of a login. The caller holds s.mu.
func (s *Server) logIn(req *request, p tokenParams, who identity) (*response, error) {
	policies := cleanPolicies(p.policies, !p.noDefault)
	if slices.Contains(policies, "root") {
		return nil, badRequest("auth methods cannot create root tokens")
	}
	m, now := who.mount, s.now()
	ttl, warnings, err := grant{
		usual: p.ttl, period: p.period, max: p.maxTTL, explicitMax: p.explicitMax,
		systemDefault: m.defaultTTL(s), systemMax: m.maxTTL(s),
	}.ttl(now)
	if err != nil {
		return nil, listed(http.StatusInternalServerError, err.Error())
	}
	t := &token{
		policies: policies, path: req.path, display: strings.TrimSuffix(m.path, "/"), meta: who.meta, uses: p.numUses, login: &who.login,
		creationTTL: ttl, granted: ttl, period: p.period, explicitMax: p.explicitMax, renewable: true, created: now, issued: now, expires: now.Add(ttl),
	}
	if who.display != "" {
		t.display += "-" + who.display
	}
	if p.kind == "batch" || p.kind == "default-batch" {
		t.batch, t.renewable = true, false
	}
	s.addToken(t)
	return &response{auth: t.answer(t.id.Reveal()), warnings: warnings}, nil
}

// limitsOf is what a renewal of t is bound by today. The caller holds s.mu.
func (s *Server) limitsOf(t *token, req *request) (grant, error) {
	g := grant{
		usual: t.granted, period: t.period, explicitMax: t.explicitMax, issued: t.issued,
		systemDefault: s.cfg.DefaultLeaseTTL, systemMax: s.cfg.MaxLeaseTTL,
	}
	switch {
	case t.login != nil:
		m := t.login.mount
		p, err := m.method().renewal(t, req)
		if err != nil {
			return g, err
		}
		g.usual, g.period, g.max = p.ttl, p.period, p.maxTTL
		g.systemDefault, g.systemMax = m.defaultTTL(s), m.maxTTL(s)
	case t.role != "":
		role := s.tokenRoles[t.role]
		if role == nil {
			return g, listed(http.StatusInternalServerError, "failed to renew entry: original token role \""+t.role+"\" could not be found, not renewing")
		}
		g.period, g.explicitMax = role.period, role.explicitMax
	}
	return g, nil
}

// roleGone refuses to renew a token whose role is not there any more.
func roleGone(name string) error {
	return listed(http.StatusInternalServerError, "failed to renew entry: role \""+name+"\" does not exist during renewal")
}
