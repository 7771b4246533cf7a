package devvault

import (
	"fmt"
	"slices"
	"time"
)

// tokenParams are what the roles of all auth methods say about the tokens
// they give.
type tokenParams struct {
	policies                         []string
	ttl, maxTTL, period, explicitMax time.Duration
	numUses                          int
	noDefault, strictlyBindIP        bool
	kind                             string // "default", "service", "batch", "default-service", "default-batch"
	boundCIDRs                       []string
	// oldPolicies tells that the policies came in the field of old, and are
	// read back in both.
	oldPolicies bool
}

// update writes the fields the call carries and keeps the others. legacy lists
// the fields of old that the method still knows: policies, ttl, max_ttl,
// period, num_uses.
func (p *tokenParams) update(req *request, legacy ...string) error {
	f := req.fields()
	field := func(name string) string {
		if !req.has("token_"+name) && slices.Contains(legacy, name) && req.has(name) {
			return name
		}
		return "token_" + name
	}
	if name := field("policies"); req.has(name) {
		p.policies = cleanPolicies(f.list(name, true), false)
		p.oldPolicies = name == "policies"
	}
	for name, at := range map[string]*time.Duration{
		field("ttl"): &p.ttl, field("max_ttl"): &p.maxTTL, field("period"): &p.period, "token_explicit_max_ttl": &p.explicitMax,
	} {
		if !req.has(name) {
			continue
		}
		if *at = f.seconds(name); f.err == nil && *at < 0 {
			return badRequest(fmt.Sprintf("'%s' cannot be negative", name))
		}
	}
	if name := field("num_uses"); req.has(name) {
		p.numUses = f.integer(name)
	}
	if req.has("token_bound_cidrs") {
		p.boundCIDRs = f.list("token_bound_cidrs", true)
	}
	p.noDefault = f.boolean("token_no_default_policy", p.noDefault)
	p.strictlyBindIP = f.boolean("token_strictly_bind_ip", p.strictlyBindIP)
	if p.kind == "" {
		p.kind = "default"
	}
	if req.has("token_type") {
		p.kind = f.text("token_type")
	}
	switch {
	case f.err != nil:
		return f.err
	case !slices.Contains([]string{"default", "service", "batch", "default-service", "default-batch"}, p.kind):
		return badRequest(fmt.Sprintf("invalid 'token_type' value %q", p.kind))
	case p.numUses < 0:
		return badRequest("'token_num_uses' cannot be negative")
	case p.batch() && p.period != 0:
		return badRequest("'token_type' cannot be 'batch' or 'default_batch' when set to generate periodic tokens")
	case p.batch() && p.numUses != 0:
		return badRequest("'token_type' cannot be 'batch' or 'default_batch' when set to generate tokens with limited use count")
	case p.maxTTL > 0 && p.ttl > p.maxTTL:
		return badRequest("'token_ttl' cannot be greater than 'token_max_ttl'")
	}
	return nil
}

func (p *tokenParams) batch() bool { return p.kind == "batch" || p.kind == "default-batch" }

// fill adds the parameters to what a role answers.
func (p *tokenParams) fill(data map[string]any) {
	data["token_policies"], data["token_bound_cidrs"] = orEmpty(p.policies), orEmpty(p.boundCIDRs)
	data["token_ttl"], data["token_max_ttl"] = int64(p.ttl.Seconds()), int64(p.maxTTL.Seconds())
	data["token_period"], data["token_explicit_max_ttl"] = int64(p.period.Seconds()), int64(p.explicitMax.Seconds())
	data["token_num_uses"], data["token_type"] = p.numUses, p.kind
	data["token_no_default_policy"], data["token_strictly_bind_ip"] = p.noDefault, p.strictlyBindIP
	if p.oldPolicies {
		data["policies"] = orEmpty(p.policies)
	}
}
