package devvault

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl"
	"github.com/hashicorp/hcl/hcl/ast"
)

type capabilities uint16

const (
	capDeny capabilities = 1 << iota
	capCreate
	capRead
	capUpdate
	capDelete
	capList
	capSudo
	capPatch
	capScan
)

// capabilityNames is in the order in which sys/capabilities answers.
var capabilityNames = []struct {
	bit  capabilities
	name string
}{
	{capSudo, "sudo"}, {capRead, "read"}, {capList, "list"}, {capUpdate, "update"}, {capDelete, "delete"},
	{capCreate, "create"}, {capPatch, "patch"}, {capScan, "scan"}, {capDeny, "deny"},
}

// shorthand is the old one-word form of a rule.
var shorthand = map[string]capabilities{
	"deny":  capDeny,
	"read":  capRead | capList,
	"write": capCreate | capRead | capUpdate | capDelete | capList,
	"sudo":  capCreate | capRead | capUpdate | capDelete | capList | capSudo,
}

// rule is one path of a policy: a "+" stands for one segment, a "*" at the
// end for anything.
type rule struct {
	path string
	caps capabilities
}

type policy struct {
	name     string
	raw      string
	rules    []rule
	version  int
	modified time.Time
}

// defaultPolicy is what every token may do unless it was asked for without:
// look at itself and keep itself alive, renew and look up leases whose id it
// knows, unwrap what it has a wrapping token for.
const defaultPolicy = `
path "auth/token/lookup-self"     { capabilities = ["read"] }
path "auth/token/renew-self"      { capabilities = ["update"] }
path "auth/token/revoke-self"     { capabilities = ["update"] }
path "sys/capabilities-self"      { capabilities = ["update"] }
path "sys/leases/renew"           { capabilities = ["update"] }
path "sys/leases/lookup"          { capabilities = ["update"] }
path "sys/wrapping/wrap"         { capabilities = ["update"] }
path "sys/wrapping/lookup"       { capabilities = ["update"] }
path "sys/wrapping/unwrap"       { capabilities = ["update"] }
path "cubbyhole/*"                { capabilities = ["create", "read", "update", "delete", "list"] }
`

// parsePolicy reads HCL or JSON rules.
func parsePolicy(raw string) ([]rule, error) {
	file, err := hcl.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("failed to parse policy: %w", err)
	}
	root, ok := file.Node.(*ast.ObjectList)
	if !ok {
		return nil, fmt.Errorf("failed to parse policy: does not contain a root object")
	}
	var rules []rule
	for _, item := range root.Items {
		if key, _ := item.Keys[0].Token.Value().(string); key != "path" && key != "name" {
			return nil, fmt.Errorf("failed to parse policy: invalid key %q on line %d", key, item.Assign.Line)
		}
	}
	for _, item := range root.Filter("path").Items {
		path := "default"
		if len(item.Keys) > 0 {
			path, _ = item.Keys[0].Token.Value().(string)
		}
		var body struct {
			Policy       string   `hcl:"policy"`
			Capabilities []string `hcl:"capabilities"`
		}
		if err := hcl.DecodeObject(&body, item.Val); err != nil {
			return nil, fmt.Errorf("failed to parse policy: path %q: %w", path, err)
		}
		r := rule{path: strings.TrimPrefix(path, "/")}
		if body.Policy != "" {
			caps, ok := shorthand[body.Policy]
			if !ok {
				return nil, fmt.Errorf("failed to parse policy: path %q: invalid policy %q", path, body.Policy)
			}
			r.caps = caps
		}
		for _, name := range body.Capabilities {
			i := slices.IndexFunc(capabilityNames, func(c struct {
				bit  capabilities
				name string
			}) bool {
				return c.name == name
			})
			if i < 0 {
				return nil, fmt.Errorf("failed to parse policy: path %q: invalid capability %q", path, name)
			}
			r.caps |= capabilityNames[i].bit
		}
		if strings.Contains(r.path, "+*") {
			return nil, fmt.Errorf("failed to parse policy: path %q: invalid use of wildcards ('+*' is forbidden)", path)
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// policyAPI serves sys/policies/acl/:name, and sys/policy/:name for old
// clients.
func (s *Server) policyAPI(req *request, name string, old bool) (*response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case req.op == opList || req.op == opRead && name == "":
		keys := mapKeys(s.policies)
		slices.Sort(keys)
		keys = append(keys, "root")
		resp := &response{data: map[string]any{"keys": keys}}
		if old {
			resp.data["policies"], resp.inject = keys, true
		}
		return resp, nil
	case req.op == opRead:
		p := s.policies[strings.ToLower(name)]
		if p == nil {
			return nil, nil
		}
		data := map[string]any{
			"name": p.name, "version": p.version, "cas_required": false, "policy": p.raw, "modified": p.modified,
			"allow_wildcards_in_identity_templates": false, "allow_slashes_in_identity_templates": false,
		}
		if old {
			data["rules"] = p.raw
			delete(data, "policy")
		}
		return &response{data: data, inject: old}, nil
	case req.op.write():
		return s.setPolicy(req, name, old)
	case req.op == opDelete:
		if name == "root" || name == "default" {
			return nil, badRequest(fmt.Sprintf("cannot delete %q policy", name))
		}
		delete(s.policies, strings.ToLower(name))
		return nil, nil
	}
	return nil, unsupportedOperation()
}

func (s *Server) setPolicy(req *request, name string, old bool) (*response, error) {
	var resp *response
	warn := func(w string) {
		if resp == nil {
			resp = &response{}
		}
		resp.warnings = append(resp.warnings, w)
	}
	lower := strings.ToLower(name)
	if lower != name {
		warn("policy name was converted to " + lower)
	}
	f := req.fields()
	raw := f.text("policy")
	if raw == "" && old {
		raw = f.text("rules")
		warn("'rules' is deprecated, please use 'policy' instead")
	}
	if f.err != nil {
		return nil, f.err
	}
	if raw == "" {
		return nil, badRequest("'policy' parameter not supplied or empty")
	}
	if lower == "root" || lower == "response-wrapping" {
		return nil, badRequest(fmt.Sprintf("cannot update %q policy", lower))
	}
	if plain, err := base64.StdEncoding.DecodeString(raw); err == nil {
		raw = string(plain)
	}
	rules, err := parsePolicy(raw)
	if err != nil {
		return nil, badRequest(err.Error())
	}
	version := 1
	if before := s.policies[lower]; before != nil {
		version = before.version + 1
	}
	s.policies[lower] = &policy{name: lower, raw: raw, rules: rules, version: version, modified: s.now()}
	return resp, nil
}

// cleanPolicies lowers, trims, sorts and de-duplicates names. A list with
// root in it is root alone.
func cleanPolicies(names []string, addDefault bool) []string {
	out := []string{}
	for _, n := range names {
		if n = strings.ToLower(strings.TrimSpace(n)); n != "" {
			out = append(out, n)
		}
	}
	if slices.Contains(out, "root") {
		return []string{"root"}
	}
	if addDefault {
		out = append(out, "default")
	}
	slices.Sort(out)
	return slices.Compact(out)
}
