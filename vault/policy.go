package vault

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Access is a path that credentials are read at.
type Access struct {
	// Path is as in [Client.Read]; + stands for one part and a * at the end for
	// any rest, as in policies.
	Path string
	// Method is that of [ReadOptions]; empty means GET.
	Method string
	// Leased: what is read has a lease.
	Leased bool
}

// Paths makes an Access of each path that is read with GET and gives a lease.
func Paths(paths ...string) []Access {
	out := make([]Access, 0, len(paths))
	for _, p := range paths {
		out = append(out, Access{Path: p, Leased: true})
	}
	return out
}

// Policy renders the least policy of the service's own token: to keep itself
// alive, to make guards by the role guardRole and keep them, and to renew and
// revoke the leases of paths. The paths themselves are not in it: they are read
// with guards, whose policy is [GuardPolicy]. With an empty guardRole they are.
func Policy(guardRole string, paths ...Access) string {
	var b strings.Builder
	rule(&b, "auth/token/lookup-self", "read")
	rule(&b, "auth/token/renew-self", "update")
	rule(&b, "auth/token/revoke-self", "update")
	if guardRole != "" {
		rule(&b, "auth/token/create/"+guardRole, "create", "update")
		for _, op := range []string{"lookup", "renew", "revoke"} {
			rule(&b, "auth/token/"+op+"-accessor", "update")
		}
	} else {
		access(&b, paths)
	}
	var leases []string
	for _, p := range paths {
		if p.Leased {
			leases = append(leases, leasePattern(p.Path))
		}
	}
	slices.Sort(leases)
	leases = slices.Compact(leases)
	if len(leases) == 0 {
		return b.String()
	}
	for _, op := range []struct{ path, other string }{{"lookup", ""}, {"renew", "increment"}, {"revoke", "sync"}} {
		fmt.Fprintf(&b, "path %s {\n  capabilities = [\"update\"]\n  allowed_parameters = {\n    \"lease_id\" = [%s]\n", quoted("sys/leases/"+op.path), quotedAll(leases))
		if op.other != "" {
			fmt.Fprintf(&b, "    %s = []\n", quoted(op.other))
		}
		b.WriteString("  }\n}\n")
	}
	return b.String()
}

// GuardPolicy renders the policy that guards have: to read the paths, nothing else.
func GuardPolicy(paths ...Access) string {
	var b strings.Builder
	access(&b, paths)
	return b.String()
}

func access(b *strings.Builder, paths []Access) {
	paths = slices.Clone(paths)
	slices.SortFunc(paths, func(a, b Access) int { return strings.Compare(a.Path, b.Path) })
	for i, p := range paths {
		if i > 0 && paths[i-1].Path == p.Path && paths[i-1].Method == p.Method {
			continue
		}
		if p.Method == "" || p.Method == http.MethodGet {
			rule(b, p.Path, "read")
		} else {
			rule(b, p.Path, "create", "update")
		}
	}
}

// leasePattern matches the ids of the leases of a path. Parameters are matched
// by a * at an end only: what comes after a + is open.
func leasePattern(path string) string {
	before, _, plus := strings.Cut(path, "+")
	switch {
	case plus:
		return before + "*"
	case strings.HasSuffix(path, "*"):
		return path
	}
	return path + "/*"
}

func rule(b *strings.Builder, path string, capabilities ...string) {
	fmt.Fprintf(b, "path %s {\n  capabilities = [%s]\n}\n", quoted(path), quotedAll(capabilities))
}

func quoted(s string) string {
	return strconv.Quote(s) // as HCL has it
}

func quotedAll(all []string) string {
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = quoted(s)
	}
	return strings.Join(out, ", ")
}

// TokenRole gives the body of auth/token/roles/NAME that makes fit guards, which
// have the policies named.
func TokenRole(guardPolicies ...string) map[string]any {
	return map[string]any{
		"allowed_policies": guardPolicies, "token_no_default_policy": true, "orphan": true, "renewable": true,
		"token_type": "service", "token_period": 0, "token_explicit_max_ttl": 0, "token_num_uses": 0,
	}
}

// Setup renders the commands that set up what [Policy], [GuardPolicy] and
// [TokenRole] say, for the program bao or vault. The guards' policy is named
// guardRole + "-guard".
func Setup(program, policy, guardRole string, paths ...Access) string {
	var b strings.Builder
	write := func(name, text string) {
		fmt.Fprintf(&b, "%s policy write %s - <<'EOF'\n%sEOF\n", program, name, text)
	}
	write(policy, Policy(guardRole, paths...))
	if guardRole == "" {
		return b.String()
	}
	write(guardRole+"-guard", GuardPolicy(paths...))
	role := TokenRole(guardRole + "-guard")
	keys := make([]string, 0, len(role))
	for k := range role {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	fmt.Fprintf(&b, "%s write auth/token/roles/%s", program, guardRole)
	for _, k := range keys {
		v := role[k]
		if list, ok := v.([]string); ok {
			v = strings.Join(list, ",")
		}
		fmt.Fprintf(&b, " %s=%v", k, v)
	}
	b.WriteString("\n")
	return b.String()
}
