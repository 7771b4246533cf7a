package devvault

import (
	"slices"
	"strings"
)

// acl is what a token's policies together allow.
type acl struct {
	root bool
	// rules by path as written; the same path in two policies is one rule
	// with both's capabilities, and a deny in either wins.
	rules map[string]capabilities
}

// aclOf joins the policies named. The caller holds s.mu.
func (s *Server) aclOf(names []string) acl {
	a := acl{rules: map[string]capabilities{}}
	for _, n := range names {
		if n == "root" {
			a.root = true
			continue
		}
		rules := wrappingRules
		if n != "response-wrapping" {
			p := s.policies[n]
			if p == nil {
				continue // a policy that does not exist grants nothing
			}
			rules = p.rules
		}
		for _, r := range rules {
			a.rules[r.path] |= r.caps
		}
	}
	for path, caps := range a.rules {
		if caps&capDeny != 0 {
			a.rules[path] = capDeny
		}
	}
	return a
}

// allows tells whether op may be done on path; sudo is asked for where the
// path is protected.
func (a acl) allows(path string, op operation, needSudo bool) bool {
	if a.root {
		return true
	}
	caps, ok := a.at(path, op)
	if !ok {
		return false
	}
	if needSudo && caps&capSudo == 0 {
		return false
	}
	want := map[operation]capabilities{
		opRead: capRead, opList: capList, opCreate: capCreate, opUpdate: capUpdate, opPatch: capPatch, opDelete: capDelete,
	}[op]
	return caps&want != 0
}

// sudo tells whether the token has root or sudo privileges on path.
func (a acl) sudo(path string) bool {
	if a.root {
		return true
	}
	caps, _ := a.at(path, opUpdate)
	return caps&capSudo != 0
}

// at finds the one rule that counts for path: the exact one, or else the most
// specific pattern.
func (a acl) at(path string, op operation) (capabilities, bool) {
	path = strings.TrimLeft(path, "/")
	candidates := []string{path}
	if op == opList {
		candidates = append(candidates, strings.TrimSuffix(path, "/"))
	}
	for _, p := range candidates {
		if caps, ok := a.rules[p]; ok && !strings.ContainsAny(p, "*+") {
			return caps, true
		}
	}
	for _, p := range candidates {
		if caps, ok := a.pattern(p); ok {
			return caps, true
		}
	}
	return 0, false
}

func (a acl) pattern(path string) (capabilities, bool) {
	var best string
	found := false
	for p := range a.rules {
		if isPattern(p) && matches(p, path) && (!found || lessSpecific(best, p)) {
			best, found = p, true
		}
	}
	return a.rules[best], found
}

func isPattern(p string) bool {
	return strings.HasSuffix(p, "*") || slices.Contains(strings.Split(p, "/"), "+")
}

// matches compares a pattern with a path, segment by segment.
func matches(pattern, path string) bool {
	prefix := strings.HasSuffix(pattern, "*")
	pattern = strings.TrimSuffix(pattern, "*")
	want, have := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(have) < len(want) || !prefix && len(have) != len(want) {
		return false
	}
	for i, w := range want {
		last := i == len(want)-1
		switch {
		case w == "+":
		case last && prefix:
			if !strings.HasPrefix(have[i], w) {
				return false
			}
		case w != have[i]:
			return false
		}
	}
	return true
}

// lessSpecific tells whether pattern p gives way to q: by the place of the
// first wildcard, then prefixes before non-prefixes, more wildcards before
// fewer, shorter before longer, and the lesser text last.
func lessSpecific(p, q string) bool {
	if i, j := firstWildcard(p), firstWildcard(q); i != j {
		return i < j
	}
	if i, j := strings.HasSuffix(p, "*"), strings.HasSuffix(q, "*"); i != j {
		return i
	}
	if i, j := strings.Count(p, "+"), strings.Count(q, "+"); i != j {
		return i > j
	}
	if len(p) != len(q) {
		return len(p) < len(q)
	}
	return p < q
}

func firstWildcard(p string) int {
	glob := len(p)
	if strings.HasSuffix(p, "*") {
		glob--
	}
	at := 0
	for _, segment := range strings.Split(p, "/") {
		if segment == "+" {
			return min(at, glob)
		}
		at += len(segment) + 1
	}
	return glob
}

// needsSudo tells whether path is protected.
func needsSudo(path string) bool {
	for _, p := range []string{
		"sys/auth/*", "sys/remount", "sys/audit", "sys/audit/*", "sys/raw", "sys/raw/*", "sys/rotate", "sys/seal",
		"sys/leases/revoke-prefix/*", "sys/leases/revoke-force/*", "sys/revoke-prefix/*", "sys/revoke-force/*",
		"sys/leases/lookup/*", "sys/leases", "auth/token/accessors*", "auth/token/revoke-orphan/*",
	} {
		if prefix, ok := strings.CutSuffix(p, "*"); ok && strings.HasPrefix(path, prefix) || p == path {
			return true
		}
	}
	return false
}

// capabilitiesAPI serves sys/capabilities-self: what the caller may do on
// each of paths.
func (s *Server) capabilitiesAPI(req *request) (*response, error) {
	if !req.op.write() {
		return nil, unsupportedOperation()
	}
	f := req.fields()
	paths := f.list("paths", true)
	if len(paths) == 0 {
		paths = f.list("path", true)
	}
	if f.err != nil {
		return nil, f.err
	}
	if len(paths) == 0 {
		return nil, badRequest("paths must be supplied")
	}
	s.mu.Lock()
	rights := s.aclOf(req.token.policies)
	s.mu.Unlock()
	data := map[string]any{}
	for _, p := range paths {
		data[p] = rights.names(p)
	}
	if len(paths) == 1 {
		data["capabilities"] = data[paths[0]]
	}
	return &response{data: data, inject: true}, nil
}

func (a acl) names(path string) []string {
	if a.root {
		return []string{"root"}
	}
	caps, _ := a.at(path, opList)
	var out []string
	for _, c := range capabilityNames {
		if caps&c.bit != 0 {
			out = append(out, c.name)
		}
	}
	if caps&capDeny != 0 || len(out) == 0 {
		return []string{"deny"}
	}
	return out
}
