package devvault

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/leasesvc/leasesvc/secret"
)

// createToken serves auth/token/create, create-orphan and create/:role.
func (s *Server) createToken(req *request, orphan bool, roleName string) (*response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	var role *tokenRole
	if roleName != "" {
		if role = s.tokenRoles[roleName]; role == nil {
			return nil, badRequest("unknown role " + roleName)
		}
	}
	parent := s.liveToken(req.tokenID)
	switch {
	case parent == nil:
		return nil, badRequest("parent token lookup failed: no parent found")
	case parent.batch:
		return nil, badRequest("batch tokens cannot create more tokens")
	case parent.uses != 0:
		return nil, badRequest("restricted use token cannot generate child tokens")
	}
	sudo := s.aclOf(parent.policies).sudo(req.path)

	f := req.fields()
	t := &token{
		parent: req.tokenID, path: "auth/token/" + strings.TrimPrefix(req.path, "auth/token/"), display: "token",
		meta: f.textMap("meta"), uses: f.integer("num_uses"), created: s.now(), issued: s.now(),
		renewable: f.boolean("renewable", true),
	}
	if d := f.text("display_name"); d != "" {
		t.display = strings.TrimSuffix(notInDisplayName.ReplaceAllString("token-"+d, "-"), "-")
	}
	if id := f.text("id"); id != "" {
		if !sudo {
			return nil, badRequest("root or sudo privileges required to specify token id")
		}
		t.id = secret.New(id)
	}
	kind := f.text("type")
	noParent := f.boolean("no_parent", false)
	if f.err != nil {
		return nil, f.err
	}
	if t.uses < 0 {
		return nil, badRequest("number of uses cannot be negative")
	}
	if err := t.setType(kind, role, req); err != nil {
		return nil, err
	}
	resp := &response{}
	if role != nil {
		t.role = role.name
		t.renewable = t.renewable && role.renewable
		if role.numUses != 0 && (t.uses == 0 || role.numUses < t.uses) {
			t.uses = role.numUses
		}
		if role.pathSuffix != "" {
			t.path = path.Join(t.path, role.pathSuffix)
		}
	}
	var err error
	if t.policies, err = resolvePolicies(f, role, parent, sudo); err != nil {
		return nil, err
	}
	if t.isRoot() && !parent.isRoot() {
		return nil, badRequest("root tokens may not be created without parent token being root")
	}
	if t.isRoot() && t.batch {
		return nil, badRequest("batch tokens cannot be root tokens")
	}
	switch {
	case role != nil:
		if role.orphan {
			t.parent = ""
		}
	case noParent:
		if !sudo {
			return nil, badRequest("root or sudo privileges required to create orphan token")
		}
		t.parent = ""
	case orphan:
		t.parent = ""
	}
	if err := s.decideTTL(f, t, role, parent, sudo, resp); err != nil {
		return nil, err
	}
	if !t.id.IsZero() {
		if s.tokens[t.id.Reveal()] != nil {
			return nil, badRequest("cannot create a token with a duplicate ID")
		}
		resp.warnings = append(resp.warnings, "Supplying a custom ID for the token uses the weaker SHA1 hashing instead of the more secure SHA2-256 HMAC for token obfuscation. SHA1 hashed tokens on the wire leads to less secure lookups.")
	}
	s.addToken(t)
	for _, p := range t.policies {
		if p != "root" && s.policies[p] == nil {
			resp.warnings = append(resp.warnings, fmt.Sprintf("Policy %q does not exist", p))
		}
	}
	resp.auth = t.answer(t.id.Reveal())
	return resp, nil
}

// setType decides between a service and a batch token.
func (t *token) setType(kind string, role *tokenRole, req *request) error {
	if role != nil {
		switch role.tokenType {
		case "default-batch":
			if kind == "" {
				kind = "batch"
			}
		case "service", "batch":
			kind = role.tokenType
		}
	}
	switch kind {
	case "", "service":
		return nil
	case "batch":
	default:
		return badRequest("invalid 'token_type' value")
	}
	f := req.fields()
	for _, field := range []string{"explicit_max_ttl", "period"} {
		if f.seconds(field) != 0 {
			return badRequest(fmt.Sprintf("batch tokens cannot have %q set", field))
		}
	}
	if t.uses != 0 {
		return badRequest(`batch tokens cannot have "num_uses" set`)
	}
	t.batch, t.renewable = true, false
	return f.err
}

// decideTTL fills in the times of t.
func (s *Server) decideTTL(f *fields, t *token, role *tokenRole, parent *token, sudo bool, resp *response) error {
	t.explicitMax, t.period, t.creationTTL = f.seconds("explicit_max_ttl"), f.seconds("period"), f.seconds("ttl")
	if f.req.data["ttl"] == nil {
		t.creationTTL = f.seconds("lease")
	}
	switch {
	case f.err != nil:
		return f.err
	case t.explicitMax < 0:
		return badRequest("explicit_max_ttl must be positive")
	case t.period < 0:
		return badRequest("period must be positive")
	case t.creationTTL < 0:
		return badRequest("ttl must be positive")
	case t.period > 0 && !sudo:
		return badRequest("root or sudo privileges required to create periodic token")
	}
	explicitMax, period := t.explicitMax, t.period
	if role != nil && !t.batch {
		if role.explicitMax != 0 {
			if explicitMax != 0 {
				explicitMax = min(explicitMax, role.explicitMax)
				resp.warnings = append(resp.warnings, fmt.Sprintf("Explicit max TTL specified both during creation call and in role; using the lesser value of %d seconds", int64(explicitMax.Seconds())))
			} else {
				explicitMax = role.explicitMax
			}
		}
		if role.period != 0 {
			if period != 0 {
				period = min(period, role.period)
				resp.warnings = append(resp.warnings, fmt.Sprintf("Period specified both during creation call and in role; using the lesser value of %d seconds", int64(period.Seconds())))
			} else {
				period = role.period
			}
		}
	}
	if period > 0 || t.creationTTL > 0 || !t.isRoot() {
		ttl, warnings, err := grant{
			usual: t.creationTTL, period: period, explicitMax: explicitMax, issued: t.created,
			systemDefault: s.cfg.DefaultLeaseTTL, systemMax: s.cfg.MaxLeaseTTL,
		}.ttl(s.now())
		if err != nil {
			return err
		}
		resp.warnings = append(resp.warnings, warnings...)
		t.creationTTL = ttl
	}
	if t.creationTTL == 0 && explicitMax > 0 {
		t.creationTTL = explicitMax
	}
	if t.creationTTL == 0 {
		if parent.creationTTL != 0 {
			return badRequest("expiring root tokens cannot create non-expiring root tokens")
		}
		t.renewable = false
		return nil
	}
	t.granted = t.creationTTL
	t.expires = t.issued.Add(t.creationTTL)
	return nil
}

// resolvePolicies decides what a new token may do: what is asked for, within
// what role and parent allow.
func resolvePolicies(f *fields, role *tokenRole, parent *token, sudo bool) ([]string, error) {
	asked := f.list("policies", false)
	noDefault := f.boolean("no_default_policy", false)
	if f.err != nil {
		return nil, f.err
	}
	addDefault := false
	switch {
	case role != nil && role.restricts():
		allowed, err := role.policies(asked, parent.policies, noDefault)
		if err != nil {
			return nil, err
		}
		asked = allowed
	case len(asked) == 0:
		asked = parent.policies
	case !sudo:
		have := cleanPolicies(parent.policies, false)
		for _, p := range cleanPolicies(asked, false) {
			if !slices.Contains(have, p) {
				return nil, badRequest("child policies must be subset of parent")
			}
		}
		addDefault = !noDefault && slices.Contains(parent.policies, "default")
	default:
		addDefault = !noDefault
	}
	final := cleanPolicies(asked, addDefault)
	if noDefault {
		final = slices.DeleteFunc(final, func(p string) bool { return p == "default" })
	}
	if slices.Contains(final, "response-wrapping") {
		return nil, badRequest(`cannot assign policy "response-wrapping"`)
	}
	return final, nil
}

// answer is the auth block of a creation or renewal; clientToken is empty
// where only the accessor is known to the caller.
func (t *token) answer(clientToken string) *authAnswer {
	return &authAnswer{
		ClientToken: clientToken, Accessor: t.accessor, Policies: slices.Clone(t.policies), TokenPolicies: slices.Clone(t.policies),
		Metadata: maps.Clone(t.meta), LeaseDuration: int64(t.granted.Seconds()), Renewable: t.renewable,
		TokenType: t.typeName(), Orphan: t.parent == "", NumUses: t.uses,
	}
}
