package devvault_test

import (
	"fmt"
	"testing"
)

func TestPolicies(t *testing.T) {
	for _, c := range []struct {
		name, policy, method, path string
		want                       int
	}{
		{"exact", `path "kv/a" { capabilities = ["read"] }`, "GET", "kv/a", 404},
		{"exact is not a prefix", `path "kv/a" { capabilities = ["read"] }`, "GET", "kv/a/b", 403},
		{"prefix", `path "kv/*" { capabilities = ["read"] }`, "GET", "kv/a/b", 404},
		{"glob inside a segment", `path "kv/a*" { capabilities = ["read"] }`, "GET", "kv/abc/d", 404},
		{"glob must match", `path "kv/a*" { capabilities = ["read"] }`, "GET", "kv/b", 403},
		{"segment", `path "kv/+/x" { capabilities = ["read"] }`, "GET", "kv/a/x", 404},
		{"segment is one segment", `path "kv/+/x" { capabilities = ["read"] }`, "GET", "kv/a/b/x", 403},
		{"segment and glob", `path "kv/+/x*" { capabilities = ["read"] }`, "GET", "kv/a/xyz/q", 404},
		{"wrong capability", `path "kv/*" { capabilities = ["list"] }`, "GET", "kv/a", 403},
		{"create is not update", `path "kv/*" { capabilities = ["update"] }`, "POST", "kv/new", 403},
		{"create", `path "kv/*" { capabilities = ["create"] }`, "POST", "kv/new", 0},
		{"update", `path "kv/*" { capabilities = ["update"] }`, "POST", "kv/there", 0},
		{"delete", `path "kv/*" { capabilities = ["read"] }`, "DELETE", "kv/there", 403},
		{"list with the slash", `path "kv/" { capabilities = ["list"] }`, "LIST", "kv", 0},
		{"list without the slash", `path "kv" { capabilities = ["list"] }`, "LIST", "kv/", 0},
		{"the longer prefix counts", `path "kv/*" { capabilities = ["read"] } path "kv/a/*" { capabilities = ["deny"] }`, "GET", "kv/a/b", 403},
		{"prefix before segment at the same place", `path "kv/a*" { capabilities = ["read"] } path "kv/+" { capabilities = ["deny"] }`, "GET", "kv/ab", 404},
		{"a later wildcard counts", `path "kv/+/b" { capabilities = ["deny"] } path "kv/a/+" { capabilities = ["read"] }`, "GET", "kv/a/b", 404},
		{"deny wins on the same path", `path "kv/*" { capabilities = ["read"] } path "kv/*" { capabilities = ["deny"] }`, "GET", "kv/a", 403},
		{"the same path twice is both", `path "kv/*" { capabilities = ["list"] } path "kv/*" { capabilities = ["read"] }`, "GET", "kv/a", 404},
		{"the word of old", `path "kv/*" { policy = "read" }`, "GET", "kv/a", 404},
		{"sudo is needed", `path "sys/leases/lookup/*" { capabilities = ["list"] }`, "LIST", "sys/leases/lookup/database", 403},
		{"sudo", `path "sys/leases/lookup/*" { capabilities = ["list", "sudo"] }`, "LIST", "sys/leases/lookup/database", 404},
		{"JSON", `{"path": {"kv/*": {"capabilities": ["read"]}}}`, "GET", "kv/a", 404},
		{"nothing said", `path "secret/*" { capabilities = ["read"] }`, "GET", "kv/a", 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := newVault(t)
			v.ok("POST", "kv/there", map[string]any{"a": 1})
			v.ok("PUT", "sys/policies/acl/p", map[string]any{"policy": c.policy})
			who := v.token(v.RootToken(), "auth/token/create", map[string]any{"policies": []string{"p"}})
			if status, out := v.call(who.token, c.method, c.path, map[string]any{"a": 2}); status != c.want {
				t.Fatalf("%d %v, want %d", status, out["errors"], c.want)
			}
		})
	}
}

func TestGuardsNotPermitted(t *testing.T) {
	v := newVault(t)
	v.ok("PUT", "sys/policies/acl/plain", map[string]any{"policy": `path "database/creds/*" { capabilities = ["read"] }`})
	who := v.token(v.RootToken(), "auth/token/create", map[string]any{"policies": []string{"plain"}})
	v.refused(who.token, "POST", "auth/token/create/guard", map[string]any{"ttl": "60s"}, 403, "1 error occurred:\n\t* permission denied\n\n")
	v.creds(who.token)
	out := v.okAs(who.token, "POST", "sys/capabilities-self", map[string]any{"paths": []string{"auth/token/create/guard", "database/creds/app"}})
	if got := fmt.Sprint(out["auth/token/create/guard"], out["database/creds/app"]); got != "[deny] [read]" {
		t.Fatalf("capabilities: %s", got)
	}
}

func TestPoliciesOfANewToken(t *testing.T) {
	v := newVault(t)
	out := v.token(v.RootToken(), "auth/token/create", map[string]any{"policies": []string{"App", "nope"}})
	if p := fmt.Sprint(out.answer["policies"]); p != "[app default nope]" {
		t.Errorf("policies %s", p)
	}
	v.refused(out.token, "POST", "auth/token/create/guard", map[string]any{"policies": []string{"root"}}, 400,
		`token policies (["root"]) must be subset of the role's allowed policies (["app" "default"]) or glob policies ([])`)
	v.refused(v.RootToken(), "POST", "auth/token/create/none", nil, 400, "unknown role none")
	if p := fmt.Sprint(v.token(out.token, "auth/token/create/guard", nil).answer["policies"]); p != "[app default]" {
		t.Errorf("policies of a guard %s", p)
	}
}

func TestPolicyAPI(t *testing.T) {
	v := newVault(t)
	v.refused(v.RootToken(), "PUT", "sys/policies/acl/p", nil, 400, "'policy' parameter not supplied or empty")
	v.refused(v.RootToken(), "PUT", "sys/policies/acl/p", map[string]any{"policy": `path "x" { capabilities = ["fly"] }`}, 400,
		`failed to parse policy: path "x": invalid capability "fly"`)
	if status, _ := v.call(v.RootToken(), "PUT", "sys/policies/acl/p", map[string]any{"policy": `path "x" {`}); status != 400 {
		t.Errorf("broken HCL: %d", status)
	}
	v.refused(v.RootToken(), "GET", "sys/policies/acl/p", nil, 404, "")
	if k := fmt.Sprint(v.ok("LIST", "sys/policies/acl", nil)["data"].(map[string]any)["keys"]); k != "[app default root]" {
		t.Errorf("list: %s", k)
	}
	v.ok("DELETE", "sys/policies/acl/app", nil)
	v.refused(v.RootToken(), "GET", "sys/policies/acl/app", nil, 404, "")
}
