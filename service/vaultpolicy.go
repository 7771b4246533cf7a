package service

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/service/config"
	"github.com/leasesvc/leasesvc/vault"
)

// access is a path that definitions read, and which.
type access struct {
	vault.Access
	names []string
}

// accessesOf gives what definitions read at a connection, by path and method.
func accessesOf(connection string, scopes map[string]*config.Definitions) []access {
	var all []access
	for _, defs := range scopes {
		for name, def := range defs.Leases {
			if def.Vault != connection {
				continue
			}
			i := slices.IndexFunc(all, func(a access) bool { return a.Path == def.Path && a.Method == def.Method })
			if i < 0 {
				i = len(all)
				all = append(all, access{Access: vault.Access{Path: def.Path, Method: def.Method, Leased: leased(&def)}})
			}
			all[i].Leased = all[i].Leased || leased(&def)
			all[i].names = append(all[i].names, name)
		}
	}
	for i := range all {
		slices.Sort(all[i].names)
		all[i].names = slices.Compact(all[i].names)
	}
	slices.SortFunc(all, func(a, b access) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Method, b.Method))
	})
	return all
}

// leased tells whether what a definition reads can have a lease. That a
// certificate has one is up to its role.
func leased(def *events.Definition) bool {
	return def.Kind != events.KindKV && !strings.Contains(def.Path, "/static-creds/")
}

// ownPolicy is the name of the policy of the service's own token.
const ownPolicy = "leasesvc"

// asksItself lets a guard ask what it may do, which is how the doctor finds out
// whether the definitions' paths can be read without reading one.
var asksItself = vault.Access{Path: "sys/capabilities-self", Method: http.MethodPost}

// place is where a policy is written.
type place struct{ address, namespace string }

// VaultPolicy prints the shell commands that set Vault up for the definitions
// of a configuration, with the program bao or vault. Connections to one place
// with one guard role share a policy.
func VaultPolicy(cfg *config.Config, program string) (string, error) {
	scopes := map[string]*config.Definitions{}
	for _, scope := range cfg.ScopeNames() {
		defs, err := loadDefinitions(cfg, scope)
		if err != nil {
			return "", err
		}
		scopes[scope] = defs
	}
	type group struct {
		place
		role  string
		names []string
		paths []vault.Access
	}
	var groups []*group
	roles := map[place]int{}
	for _, name := range cfg.VaultNames() {
		v := cfg.Vaults[name]
		at := place{v.Address, v.Namespace}
		i := slices.IndexFunc(groups, func(g *group) bool { return g.place == at && g.role == v.GuardRole })
		if i < 0 {
			i = len(groups)
			groups = append(groups, &group{place: at, role: v.GuardRole, paths: []vault.Access{asksItself}})
			roles[at]++
		}
		groups[i].names = append(groups[i].names, name)
		for _, a := range accessesOf(name, scopes) {
			groups[i].paths = append(groups[i].paths, a.Access)
		}
	}
	var b strings.Builder
	for i, g := range groups {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "# For %s at %s. Needs a token that may write policies and token roles.\n", strings.Join(g.names, ", "), g.address)
		if len(roles) > 1 {
			b.WriteString(setVariable(program, "ADDR", g.address))
		}
		if len(roles) > 1 || g.namespace != "" {
			b.WriteString(setVariable(program, "NAMESPACE", g.namespace))
		}
		policy := ownPolicy
		if roles[g.place] > 1 {
			policy = ownPolicy + "-of-" + cmp.Or(g.role, "unguarded")
		}
		b.WriteString(vault.Setup(program, policy, g.role, g.paths...))
		fmt.Fprintf(&b, "# Then give the policy %s to what leasesvc logs in with, such as one of:\n", policy)
		fmt.Fprintf(&b, "#   %s write auth/approle/role/leasesvc token_policies=%s\n", program, policy)
		fmt.Fprintf(&b, "#   %s token create -orphan -period=24h -policy=%s\n", program, policy)
	}
	return b.String(), nil
}

// setVariable renders the setting of a variable of the program's.
func setVariable(program, name, value string) string {
	full := map[string]string{"bao": "BAO_", "vault": "VAULT_"}[program] + name
	if value == "" {
		return "unset " + full + "\n"
	}
	return "export " + full + "='" + strings.ReplaceAll(value, "'", `'\''`) + "'\n"
}
