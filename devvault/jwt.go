package devvault

import (
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// jwtMethod is a JWT method with static public keys. Its state is guarded by
// Server.mu.
type jwtMethod struct {
	server *Server
	mount  *mount
	config *jwtConfig
	roles  map[string]*jwtRole
}

type jwtConfig struct {
	pem                 []string
	keys                []crypto.PublicKey
	issuer, defaultRole string
}

// jwtRole is what auth/jwt/role/:name keeps.
type jwtRole struct {
	params             tokenParams
	audiences          []string
	subject, userClaim string
	claims             map[string]any
	mappings           map[string]string // claim to metadata
}

func (j *jwtMethod) open(sub string) bool { return sub == "login" }

func (j *jwtMethod) exists(sub string) bool {
	name, ok := strings.CutPrefix(sub, "role/")
	return !ok || j.roles[name] != nil
}

func (j *jwtMethod) renewal(t *token, _ *request) (tokenParams, error) {
	role := j.roles[t.login.role]
	if role == nil {
		return tokenParams{}, roleGone(t.login.role)
	}
	return role.params, nil
}

func (j *jwtMethod) handle(req *request, sub string) (*response, error) {
	j.server.mu.Lock()
	defer j.server.mu.Unlock()
	sub = strings.TrimSuffix(sub, "/")
	name, isRole := strings.CutPrefix(sub, "role/")
	switch {
	case sub == "login" && req.op.write():
		return j.logIn(req)
	case sub == "config":
		return j.configAPI(req)
	case sub == "role" && (req.op == opList || req.op == opRead):
		return keysOf(mapKeys(j.roles)), nil
	case isRole:
		return j.roleAPI(req, name)
	case sub == "login" || sub == "role":
		return nil, unsupportedOperation()
	}
	return nil, unsupportedPath()
}

func (j *jwtMethod) configAPI(req *request) (*response, error) {
	switch {
	case req.op == opRead:
		if j.config == nil {
			return nil, nil
		}
		return &response{data: map[string]any{
			"bound_issuer": j.config.issuer, "default_role": j.config.defaultRole, "jwt_validation_pubkeys": j.config.pem,
			"jwks_ca_pem": "", "jwks_url": "", "jwt_supported_algs": []string{}, "namespace_in_state": true, "oidc_client_id": "",
			"oidc_discovery_ca_pem": "", "oidc_discovery_url": "", "oidc_response_mode": "", "oidc_response_types": []string{},
			"override_allowed_server_names": []string{}, "provider_config": map[string]any{}, "status": "valid",
		}}, nil
	case req.op.write():
		f := req.fields()
		next := jwtConfig{pem: f.list("jwt_validation_pubkeys", true), issuer: f.text("bound_issuer"), defaultRole: f.text("default_role")}
		if f.err != nil {
			return nil, f.err
		}
		if len(next.pem) == 0 {
			return nil, badRequest("exactly one of 'jwt_validation_pubkeys', 'jwks_url', 'jwks_pairs', 'oidc_discovery_url', or 'provider_config' must be set")
		}
		for _, text := range next.pem {
			keys, err := publicKeys(text)
			if err != nil {
				return nil, badRequest("error parsing public key: " + err.Error())
			}
			next.keys = append(next.keys, keys...)
		}
		j.config = &next
		return nil, nil
	}
	return nil, unsupportedOperation()
}

func (j *jwtMethod) roleAPI(req *request, name string) (*response, error) {
	role := j.roles[name]
	switch {
	case req.op == opRead:
		if role == nil {
			return nil, nil
		}
		data := map[string]any{
			"role_type": "jwt", "bound_audiences": nil, "bound_claims": nil, "bound_claims_type": "string", "bound_subject": role.subject,
			"user_claim": role.userClaim, "claim_mappings": nil, "user_claim_json_pointer": false, "allowed_redirect_uris": nil,
			"callback_mode": "client", "clock_skew_leeway": 0, "expiration_leeway": 0, "not_before_leeway": 0, "groups_claim": "", "max_age": 0,
			"oauth2_metadata": nil, "oidc_disable_confirmation": false, "oidc_scopes": nil, "token_policies_template_claims": false,
			"verbose_oidc_logging": false,
		}
		if role.audiences != nil {
			data["bound_audiences"] = role.audiences
		}
		if role.claims != nil {
			data["bound_claims"] = role.claims
		}
		if role.mappings != nil {
			data["claim_mappings"] = role.mappings
		}
		role.params.fill(data)
		return &response{data: data}, nil
	case req.op.write():
		return j.writeRole(req, name)
	case req.op == opDelete:
		delete(j.roles, name)
		return nil, nil
	}
	return nil, unsupportedOperation()
}

func (j *jwtMethod) writeRole(req *request, name string) (*response, error) {
	var next jwtRole
	if before := j.roles[name]; before != nil {
		next = *before
	}
	f := req.fields()
	if kind := f.text("role_type"); kind != "" && kind != "jwt" {
		return nil, badRequest("invalid 'role_type': " + kind)
	}
	if req.has("bound_audiences") {
		next.audiences = f.list("bound_audiences", true)
	}
	if req.has("bound_subject") {
		next.subject = f.text("bound_subject")
	}
	if req.has("user_claim") {
		next.userClaim = f.text("user_claim")
	}
	if req.has("bound_claims") {
		next.claims = f.object("bound_claims")
	}
	if req.has("claim_mappings") {
		next.mappings = f.textMap("claim_mappings")
	}
	if f.err != nil {
		return nil, f.err
	}
	if err := next.params.update(req, "policies", "ttl", "max_ttl", "period", "num_uses"); err != nil {
		return nil, err
	}
	switch {
	case next.userClaim == "":
		return nil, badRequest("a user claim must be defined on the role")
	case len(next.audiences)+len(next.claims) == 0 && next.subject == "" && len(next.params.boundCIDRs) == 0:
		return nil, badRequest("must have at least one bound constraint when creating/updating a role")
	}
	j.roles[name] = &next
	return nil, nil
}

func (j *jwtMethod) logIn(req *request) (*response, error) {
	f := req.fields()
	name, text := f.text("role"), f.text("jwt")
	switch {
	case f.err != nil:
		return nil, f.err
	case j.config == nil:
		return nil, badRequest("could not load configuration")
	case name == "":
		name = j.config.defaultRole
	}
	if name == "" {
		return nil, badRequest("missing role")
	}
	role := j.roles[name]
	if role == nil {
		return nil, badRequest(fmt.Sprintf("role %q could not be found", name))
	}
	if text == "" {
		return nil, badRequest("missing token")
	}
	claims, err := j.validate(text, role)
	if err != nil {
		return nil, badRequest("error validating token: " + err.Error())
	}
	if len(role.audiences) == 0 && len(textsOf(claims["aud"])) > 0 {
		return nil, badRequest("audience claim found in JWT but no audiences bound to the role")
	}
	if claims[role.userClaim] == nil {
		return nil, badRequest(fmt.Sprintf("claim %q not found in token", role.userClaim))
	}
	user, ok := claims[role.userClaim].(string)
	if !ok {
		return nil, badRequest(fmt.Sprintf("claim %q could not be converted to string", role.userClaim))
	}
	if err := checkClaims(claims, role.claims); err != nil {
		return nil, badRequest("error validating claims: " + err.Error())
	}
	meta := map[string]string{"role": name}
	for claim, key := range role.mappings {
		if v, ok := claims[claim].(string); ok {
			meta[key] = v
		}
	}
	return j.server.logIn(req, role.params, identity{login: login{mount: j.mount, role: name}, display: user, meta: meta})
}

func (j *jwtMethod) validate(text string, role *jwtRole) (map[string]any, error) {
	claims, err := verifyJWS(text, j.config.keys)
	if err != nil {
		return nil, fmt.Errorf("error verifying token signature: %w", err)
	}
	if err := checkTimes(claims, j.server.now()); err != nil {
		return nil, err
	}
	if j.config.issuer != "" && claims["iss"] != j.config.issuer {
		return nil, errors.New("invalid issuer (iss) claim")
	}
	if role.subject != "" && claims["sub"] != role.subject {
		return nil, errors.New("invalid subject (sub) claim")
	}
	return claims, checkAudience(claims, role.audiences)
}

// checkClaims compares claims with the values that a role allows for each.
func checkClaims(claims, bound map[string]any) error {
	for name, allowed := range bound {
		have := claims[name]
		if have == nil {
			return fmt.Errorf("claim %q is missing", name)
		}
		values, ok := have.([]any)
		if !ok {
			values = []any{have}
		}
		wanted, ok := allowed.([]any)
		if !ok {
			wanted = []any{allowed}
		}
		if !slices.ContainsFunc(values, func(v any) bool {
			return slices.ContainsFunc(wanted, func(w any) bool { return sameClaim(v, w) })
		}) {
			return fmt.Errorf("claim %q does not match any associated bound claim values", name)
		}
	}
	return nil
}

func sameClaim(a, b any) bool {
	switch a := a.(type) {
	case string, bool, json.Number:
		return a == b
	}
	return false
}
