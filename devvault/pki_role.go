package devvault

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// pkiRole is what pki/roles/:name keeps.
type pkiRole struct {
	key                                         keySpec
	ttl, maxTTL, notBefore                      time.Duration
	domains                                     []string
	anyName, bare, subdomains, localhost, globs bool
	wildcards, ipSANs, requireCN                bool
	server, client                              bool
	noStore, lease                              bool
}

// pkiRoleFixed is what a role answers and nothing here looks at.
func pkiRoleFixed() map[string]any {
	none := []string{}
	return map[string]any{
		"allow_globs_in_identity_templates": false, "allow_token_displayname": false, "allowed_domains_template": false,
		"allowed_ip_sans_cidr": none, "allowed_other_sans": none, "allowed_serial_numbers": none, "allowed_uri_sans": none,
		"allowed_uri_sans_template": false, "allowed_user_ids": none, "basic_constraints_valid_for_non_ca": false,
		"cn_validations": []string{"email", "hostname"}, "code_signing_flag": false, "country": none, "email_protection_flag": false,
		"enforce_hostnames": true, "ext_key_usage": none, "ext_key_usage_oids": none, "issuer_ref": "default",
		"key_usage": []string{"DigitalSignature", "KeyAgreement", "KeyEncipherment"}, "locality": none, "not_after": "",
		"not_after_bound": "permit", "not_before": "", "not_before_bound": "permit", "organization": none, "ou": none,
		"policy_identifiers": none, "postal_code": none, "province": none, "street_address": none, "use_csr_common_name": true,
		"use_csr_sans": true, "use_pss": false,
	}
}

func (r *pkiRole) fields() map[string]any {
	data := pkiRoleFixed()
	signature := 0
	if r.key.kindName() == "rsa" {
		signature = 256
	}
	maps.Copy(data, map[string]any{
		"key_type": r.key.kindName(), "key_bits": r.key.size(), "signature_bits": signature,
		"ttl": int64(r.ttl.Seconds()), "max_ttl": int64(r.maxTTL.Seconds()), "not_before_duration": int64(r.notBefore.Seconds()),
		"allowed_domains": orEmpty(r.domains), "allow_any_name": r.anyName, "allow_bare_domains": r.bare, "allow_subdomains": r.subdomains,
		"allow_localhost": r.localhost, "allow_glob_domains": r.globs, "allow_wildcard_certificates": r.wildcards,
		"allow_ip_sans": r.ipSANs, "require_cn": r.requireCN, "server_flag": r.server, "client_flag": r.client,
		"no_store": r.noStore, "generate_lease": r.lease,
	})
	return data
}

func (p *pki) roleAPI(req *request, name string) (*response, error) {
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	switch {
	case req.op == opList:
		return keysOf(mapKeys(p.roles)), nil
	case name == "":
		return nil, unsupportedOperation()
	case req.op == opRead:
		if p.roles[name] == nil {
			return nil, nil
		}
		return &response{data: p.roles[name].fields()}, nil
	case req.op.write():
		return p.writeRole(req, name)
	case req.op == opDelete:
		delete(p.roles, name)
		return nil, nil
	}
	return nil, unsupportedOperation()
}

// writeRole replaces a role: fields that the call does not carry get their
// defaults again.
func (p *pki) writeRole(req *request, name string) (*response, error) {
	f := req.fields()
	next := pkiRole{
		key: keySpec{kind: f.text("key_type"), bits: f.integer("key_bits")}, ttl: f.seconds("ttl"), maxTTL: f.seconds("max_ttl"),
		notBefore: notBeforeMargin, domains: f.list("allowed_domains", true),
		anyName: f.boolean("allow_any_name", false), bare: f.boolean("allow_bare_domains", false),
		subdomains: f.boolean("allow_subdomains", false), localhost: f.boolean("allow_localhost", true),
		globs: f.boolean("allow_glob_domains", false), wildcards: f.boolean("allow_wildcard_certificates", true),
		ipSANs: f.boolean("allow_ip_sans", true), requireCN: f.boolean("require_cn", true),
		server: f.boolean("server_flag", true), client: f.boolean("client_flag", true),
		noStore: f.boolean("no_store", false), lease: f.boolean("generate_lease", false),
	}
	if req.has("not_before_duration") {
		next.notBefore = f.seconds("not_before_duration")
	}
	if f.err != nil {
		return nil, f.err
	}
	if next.maxTTL > 0 && next.ttl > next.maxTTL {
		return nil, badRequest(`"ttl" value must be less than "max_ttl" value`)
	}
	if err := next.key.check(); err != nil {
		return nil, err
	}
	p.roles[name] = &next
	resp := &response{data: next.fields()}
	if next.lease {
		resp.warnings = append(resp.warnings, "it is encouraged to disable generate_lease and rely on PKI's native capabilities when possible; this option can cause instance-wide issues with large numbers of issued certificates")
	}
	if len(p.issuers) == 0 {
		resp.warnings = append(resp.warnings, "Issuing Certificate was set to default, but no default issuing certificate (configurable at /config/issuers) is currently set")
	}
	return resp, nil
}

// allows tells whether the role lets a certificate be for name.
func (r *pkiRole) allows(name string) bool {
	name = strings.ToLower(name)
	if strings.HasPrefix(name, "*.") && !r.wildcards {
		return false
	}
	if r.anyName {
		return true
	}
	plain := strings.TrimPrefix(name, "*.")
	if r.localhost && (plain == "localhost" || plain == "localdomain") {
		return true
	}
	return slices.ContainsFunc(r.domains, func(d string) bool {
		d = strings.ToLower(d)
		switch {
		case r.bare && name == d:
			return true
		case r.subdomains && strings.HasSuffix(name, "."+d):
			return true
		}
		return r.globs && strings.Contains(d, "*") && globMatch(d, name)
	})
}

// checkNames tells which of the names asked for is not allowed.
func (r *pkiRole) checkNames(common string, alternates []string) error {
	if common != "" && !r.allows(common) {
		return badRequest(fmt.Sprintf("common name %s not allowed by this role", common))
	}
	for _, n := range alternates {
		if !r.allows(n) {
			return badRequest(fmt.Sprintf("subject alternate name %s not allowed by this role", n))
		}
	}
	return nil
}
