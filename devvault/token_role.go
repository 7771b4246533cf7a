package devvault

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// tokenRole is what auth/token/roles/:role keeps: what tokens created against
// it are like.
type tokenRole struct {
	name                        string
	orphan, renewable           bool
	pathSuffix, tokenType       string
	allowed, disallowed         []string
	allowedGlob, disallowedGlob []string
	aliases                     []string
	noDefault                   bool
	numUses                     int
	period, explicitMax         time.Duration // in force
	oldPeriod, oldExplicitMax   time.Duration // as given in the old fields, for reading back
}

// restricts tells whether the role has a say in policies.
func (r *tokenRole) restricts() bool {
	return len(r.allowed)+len(r.disallowed)+len(r.allowedGlob)+len(r.disallowedGlob) > 0
}

func (r *tokenRole) policies(asked, parent []string, noDefault bool) ([]string, error) {
	addDefault := !noDefault && !r.noDefault && !slices.Contains(r.disallowed, "default") && !globbed(r.disallowedGlob, "default")
	var final []string
	if len(asked) > 0 {
		final = cleanPolicies(asked, addDefault)
	}
	if len(r.allowed)+len(r.allowedGlob) > 0 {
		allowed := cleanPolicies(r.allowed, addDefault)
		if len(final) == 0 {
			final = allowed
		}
		for _, p := range final {
			if !slices.Contains(allowed, p) && !globbed(r.allowedGlob, p) {
				return nil, badRequest(fmt.Sprintf("token policies (%q) must be subset of the role's allowed policies (%q) or glob policies (%q)", final, allowed, r.allowedGlob))
			}
		}
	} else if len(final) == 0 {
		final = cleanPolicies(parent, addDefault)
	}
	for _, p := range final {
		if slices.Contains(r.disallowed, p) || globbed(r.disallowedGlob, p) {
			return nil, badRequest(fmt.Sprintf("token policy %q is disallowed by this role", p))
		}
	}
	return final, nil
}

func globbed(patterns []string, s string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, s)
		return err == nil && ok
	})
}

// tokenRoleAPI serves auth/token/roles/:role.
func (s *Server) tokenRoleAPI(req *request, name string) (*response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	role := s.tokenRoles[name]
	switch {
	case req.op == opList || name == "":
		var keys []string
		for n := range s.tokenRoles {
			keys = append(keys, n)
		}
		return keysOf(keys), nil
	case req.op == opRead:
		if role == nil {
			return nil, nil
		}
		return &response{data: role.fields()}, nil
	case req.op.write():
		next := tokenRole{name: name, renewable: true, tokenType: "default-service"}
		if role != nil {
			next = *role
		}
		warnings, err := next.update(req, s.cfg.MaxLeaseTTL)
		if err != nil {
			return nil, err
		}
		s.tokenRoles[name] = &next
		if len(warnings) > 0 {
			return &response{warnings: warnings}, nil
		}
		return nil, nil
	case req.op == opDelete:
		delete(s.tokenRoles, name)
		return nil, nil
	}
	return nil, unsupportedOperation()
}

func (r *tokenRole) fields() map[string]any {
	data := map[string]any{
		"name": r.name, "orphan": r.orphan, "renewable": r.renewable, "path_suffix": r.pathSuffix, "token_type": r.tokenType,
		"period": int64(r.oldPeriod.Seconds()), "token_period": int64(r.period.Seconds()),
		"explicit_max_ttl": int64(r.oldExplicitMax.Seconds()), "token_explicit_max_ttl": int64(r.explicitMax.Seconds()),
		"allowed_policies": orEmpty(r.allowed), "disallowed_policies": orEmpty(r.disallowed),
		"allowed_policies_glob": orEmpty(r.allowedGlob), "disallowed_policies_glob": orEmpty(r.disallowedGlob),
		"allowed_entity_aliases": r.aliases, "token_no_default_policy": r.noDefault,
	}
	if r.numUses > 0 {
		data["token_num_uses"] = r.numUses
	}
	return data
}

func orEmpty(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// update writes the fields the call carries and keeps the others.
func (r *tokenRole) update(req *request, systemMax time.Duration) ([]string, error) {
	f := req.fields()
	var warnings []string
	r.orphan = f.boolean("orphan", r.orphan)
	r.renewable = f.boolean("renewable", r.renewable)
	r.noDefault = f.boolean("token_no_default_policy", r.noDefault)
	lists := map[string]*[]string{
		"allowed_policies": &r.allowed, "disallowed_policies": &r.disallowed,
		"allowed_policies_glob": &r.allowedGlob, "disallowed_policies_glob": &r.disallowedGlob,
	}
	for field, at := range lists {
		if req.has(field) {
			*at = cleanPolicies(f.list(field, true), false)
		}
	}
	if req.has("allowed_entity_aliases") {
		r.aliases = f.list("allowed_entity_aliases", true)
	}
	if req.has("path_suffix") {
		if r.pathSuffix = f.text("path_suffix"); strings.Contains(r.pathSuffix, "..") {
			return nil, badRequest("error registering path suffix: path cannot contain parent references")
		}
	}
	if req.has("token_num_uses") {
		r.numUses = f.integer("token_num_uses")
	}
	if _, ok := req.data["token_type"]; ok {
		kind := f.text("token_type")
		if !slices.Contains([]string{"service", "batch", "default-service", "default-batch"}, kind) {
			return nil, badRequest(fmt.Sprintf("invalid 'token_type' value %q", kind))
		}
		r.tokenType = kind
	}
	both := func(field string, current, old *time.Duration) {
		switch {
		case req.has("token_" + field):
			if req.has(field) {
				warnings = append(warnings, fmt.Sprintf("Both 'token_%s' and deprecated '%s' value supplied, ignoring the deprecated value", field, field))
			}
			*current, *old = f.seconds("token_"+field), 0
		case req.has(field):
			*old = f.seconds(field)
			*current = *old
		}
	}
	both("period", &r.period, &r.oldPeriod)
	both("explicit_max_ttl", &r.explicitMax, &r.oldExplicitMax)
	if r.explicitMax > systemMax {
		warnings = append(warnings, fmt.Sprintf("Given explicit max TTL of %d is greater than system/mount allowed value of %d seconds; until this is fixed attempting to create tokens against this role will result in an error",
			int64(r.explicitMax.Seconds()), int64(systemMax.Seconds())))
	}
	if r.tokenType == "batch" {
		for reason, broken := range map[string]bool{
			"non-orphan tokens": !r.orphan, "periodic tokens": r.period != 0, "renewable tokens": r.renewable,
			"tokens with an explicit max TTL": r.explicitMax != 0,
		} {
			if broken {
				return nil, badRequest("'token_type' cannot be 'batch' when role is set to generate " + reason)
			}
		}
	}
	return warnings, f.err
}
