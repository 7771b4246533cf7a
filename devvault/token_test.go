package devvault_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/devvault"
)

func TestLeaseDiesWithTheTokenThatAskedForIt(t *testing.T) {
	for _, c := range []struct {
		how string
		end func(*vault, issued)
	}{
		{"expiry", func(v *vault, _ issued) { v.pass(61 * time.Second) }},
		{"revoke-self", func(v *vault, g issued) { v.okAs(g.token, "POST", "auth/token/revoke-self", nil) }},
		{"revoke", func(v *vault, g issued) {
			v.ok("POST", "auth/token/revoke", map[string]any{"token": g.token.Reveal()})
		}},
		{"revoke-accessor", func(v *vault, g issued) {
			v.ok("POST", "auth/token/revoke-accessor", map[string]any{"accessor": g.accessor})
		}},
		{"revoke-orphan", func(v *vault, g issued) {
			v.ok("POST", "auth/token/revoke-orphan", map[string]any{"token": g.token.Reveal()})
		}},
		{"revoke-prefix", func(v *vault, _ issued) { v.ok("PUT", "sys/leases/revoke-prefix/auth/token/create/guard", nil) }},
	} {
		t.Run(c.how, func(t *testing.T) {
			v := newVault(t)
			v.ok("POST", "database/roles/app", map[string]any{"default_ttl": "1h", "max_ttl": "2h"})
			g := v.token(v.RootToken(), "auth/token/create/guard", map[string]any{"ttl": "60s"})
			got := v.creds(g.token)
			v.creds(v.RootToken()) // another token's: it stays
			if err := v.directory.Login(got.user, got.password); err != nil {
				t.Fatalf("before: %v", err)
			}
			c.end(v, g)
			v.pass(0)
			v.wantAccounts(1, "after "+c.how)
			v.refused(g.token, "GET", "auth/token/lookup-self", nil, 403, "permission denied")
			v.refused(v.RootToken(), "PUT", "sys/leases/lookup", map[string]any{"lease_id": got.lease}, 400, "invalid lease")
			v.refused(v.RootToken(), "PUT", "sys/leases/renew", map[string]any{"lease_id": got.lease}, 400, "lease not found")
			v.refused(v.RootToken(), "POST", "auth/token/lookup-accessor", map[string]any{"accessor": g.accessor}, 400, "1 error occurred:\n\t* invalid accessor\n\n")
		})
	}
}

func TestChildrenDieWithTheirParentAndOrphansDoNot(t *testing.T) {
	v := newVault(t)
	v.ok("PUT", "sys/policies/acl/parent", map[string]any{"policy": `
		path "auth/token/create*" { capabilities = ["update"] }
		path "database/creds/*" { capabilities = ["read"] }`})
	parent := v.token(v.RootToken(), "auth/token/create", map[string]any{"policies": []string{"parent"}, "ttl": "1m"})
	child := v.token(parent.token, "auth/token/create", map[string]any{"ttl": "1h"})
	grandchild := v.token(child.token, "auth/token/create", map[string]any{"ttl": "1h"})
	orphan := v.token(parent.token, "auth/token/create-orphan", map[string]any{"ttl": "1h"})
	for _, by := range []issued{parent, child, grandchild, orphan} {
		v.creds(by.token)
	}
	if child.answer["orphan"] != false || orphan.answer["orphan"] != true {
		t.Fatalf("orphan: child %v, orphan %v", child.answer["orphan"], orphan.answer["orphan"])
	}
	v.pass(59 * time.Second)
	v.wantAccounts(4, "before the parent's end")
	v.pass(500 * time.Millisecond)
	v.ok("POST", "auth/token/renew", map[string]any{"token": orphan.token.Reveal()})
	v.pass(500 * time.Millisecond)
	// The leases themselves lived for a minute too: only tokens tell here.
	if n := len(v.Tokens()); n != 2 { // root and the orphan
		t.Fatalf("%d tokens left: %+v", n, v.Tokens())
	}
	v.okAs(orphan.token, "GET", "auth/token/lookup-self", nil)
}

func TestRevokeOrphanLeavesTheChildren(t *testing.T) {
	v := newVault(t)
	v.ok("PUT", "sys/policies/acl/parent", map[string]any{"policy": `path "auth/token/create*" { capabilities = ["update"] }`})
	parent := v.token(v.RootToken(), "auth/token/create", map[string]any{"policies": []string{"parent"}})
	child := v.token(parent.token, "auth/token/create", nil)
	v.refused(parent.token, "POST", "auth/token/revoke-orphan", map[string]any{"token": parent.token.Reveal()}, 403, "1 error occurred:\n\t* permission denied\n\n")
	v.ok("POST", "auth/token/revoke-orphan", map[string]any{"token": parent.token.Reveal()})
	data := v.okAs(child.token, "GET", "auth/token/lookup-self", nil)["data"].(map[string]any)
	if data["orphan"] != true {
		t.Fatal("the child is no orphan")
	}
}

func TestRenewAccessorExtendsWithinTheMaximum(t *testing.T) {
	v := newVault(t, func(c *devvault.Config) { c.MaxLeaseTTL = 10 * time.Minute })
	service := v.token(v.RootToken(), "auth/token/create", map[string]any{"policies": []string{"app"}, "ttl": "10m"})
	g := v.token(service.token, "auth/token/create/guard", map[string]any{"ttl": "60s"})
	lookup := func() map[string]any {
		return v.ok("POST", "auth/token/lookup-accessor", map[string]any{"accessor": g.accessor})["data"].(map[string]any)
	}
	if d := lookup(); d["id"] != "" || number(d["ttl"]) != "60" || d["path"] != "auth/token/create/guard" || d["role"] != "guard" || d["orphan"] != true {
		t.Fatalf("lookup: %v", d)
	}
	v.pass(30 * time.Second)
	out := v.okAs(service.token, "POST", "auth/token/renew-accessor", map[string]any{"accessor": g.accessor, "increment": "5m"})
	auth := out["auth"].(map[string]any)
	if auth["client_token"] != "" || number(auth["lease_duration"]) != "300" || out["warnings"] != nil {
		t.Fatalf("renewed: %v %v", auth, out["warnings"])
	}
	out = v.okAs(service.token, "POST", "auth/token/renew-accessor", map[string]any{"accessor": g.accessor, "increment": 6000})
	if d := number(out["auth"].(map[string]any)["lease_duration"]); d != "570" {
		t.Fatalf("granted %s s, want what is left of 10 min: 570", d)
	}
	if w := fmt.Sprint(out["warnings"]); w != `[TTL of "1h40m" exceeded the effective max_ttl of "9m30s"; TTL value is capped accordingly]` {
		t.Fatalf("warnings: %s", w)
	}
	v.pass(570 * time.Second)
	v.refused(v.RootToken(), "POST", "auth/token/renew-accessor", map[string]any{"accessor": g.accessor}, 400, "1 error occurred:\n\t* invalid accessor\n\n")
}

func TestRoleWithPeriodOrExplicitMaxTTLDoesNotExtend(t *testing.T) {
	v := newVault(t)
	v.ok("POST", "auth/token/roles/periodic", map[string]any{"orphan": true, "allowed_policies": "app", "period": "1m"})
	v.ok("POST", "auth/token/roles/capped", map[string]any{"orphan": true, "allowed_policies": "app", "explicit_max_ttl": "2m"})
	renew := func(g issued) string {
		out := v.ok("POST", "auth/token/renew-accessor", map[string]any{"accessor": g.accessor, "increment": "1h"})
		return number(out["auth"].(map[string]any)["lease_duration"])
	}
	periodic := v.token(v.RootToken(), "auth/token/create/periodic", map[string]any{"ttl": "30s"})
	capped := v.token(v.RootToken(), "auth/token/create/capped", map[string]any{"ttl": "30s"})
	v.pass(20 * time.Second)
	if d := renew(periodic); d != "60" {
		t.Errorf("periodic: %s s, want its period", d)
	}
	if d := renew(capped); d != "100" {
		t.Errorf("capped: %s s, want what is left of its maximum", d)
	}
	role := v.ok("GET", "auth/token/roles/periodic", nil)["data"].(map[string]any)
	if number(role["token_period"]) != "60" || number(role["period"]) != "60" || role["token_type"] != "default-service" {
		t.Errorf("role read back: %v", role)
	}
}

func TestBatchTokens(t *testing.T) {
	v := newVault(t)
	b := v.token(v.RootToken(), "auth/token/create", map[string]any{"type": "batch", "policies": []string{"app"}, "ttl": "40s"})
	if b.accessor != "" || b.answer["token_type"] != "batch" || b.answer["renewable"] != false {
		t.Fatalf("created: %v", b.answer)
	}
	v.refused(b.token, "POST", "auth/token/renew-self", nil, 400, "batch tokens cannot be renewed")
	v.refused(b.token, "POST", "auth/token/revoke-self", nil, 400, "batch tokens cannot be revoked")
	v.refused(b.token, "POST", "auth/token/create/guard", nil, 400, "batch tokens cannot create more tokens")
	out := v.okAs(b.token, "GET", "database/creds/app", nil)
	if d := number(out["lease_duration"]); d != "40" {
		t.Fatalf("a batch token's lease lives %s s, want no longer than the token: 40", d)
	}
	v.pass(41 * time.Second)
	v.wantAccounts(0, "after the batch token")
	v.refused(b.token, "GET", "auth/token/lookup-self", nil, 403, "permission denied")
	v.refused(v.RootToken(), "POST", "auth/token/create", map[string]any{"type": "batch", "period": "1h"}, 400, `batch tokens cannot have "period" set`)
}

func TestUsesAreCounted(t *testing.T) {
	v := newVault(t)
	u := v.token(v.RootToken(), "auth/token/create", map[string]any{"policies": []string{"app"}, "num_uses": 3})
	if d := v.okAs(u.token, "GET", "auth/token/lookup-self", nil)["data"].(map[string]any); number(d["num_uses"]) != "2" {
		t.Fatalf("uses left: %v", d["num_uses"])
	}
	v.refused(u.token, "POST", "auth/token/create/guard", nil, 400, "restricted use token cannot generate child tokens")
	v.refused(u.token, "GET", "database/creds/app", nil, 400, "Secret cannot be returned; token had one use left, so leased credentials were immediately revoked.")
	v.refused(u.token, "GET", "auth/token/lookup-self", nil, 403, "permission denied")
	v.pass(0)
	v.wantAccounts(0, "after the last use")
}

func TestWrongTokens(t *testing.T) {
	v := newVault(t)
	var none issued
	for _, token := range []issued{none, {token: v.RootToken()}} {
		want := 403
		if !token.token.IsZero() {
			want = 0
		}
		if status, _ := v.call(token.token, "GET", "auth/token/lookup-self", nil); status != want {
			t.Errorf("status %d, want %d", status, want)
		}
	}
	v.refused(v.RootToken(), "POST", "auth/token/lookup", map[string]any{"token": "x"}, 403, "bad token")
	v.refused(v.RootToken(), "POST", "auth/token/renew", map[string]any{"token": "x"}, 400, "token not found")
	out := v.ok("POST", "auth/token/revoke-accessor", map[string]any{"accessor": "x"})
	if !strings.Contains(fmt.Sprint(out["warnings"]), "No token found with this accessor") {
		t.Errorf("warnings: %v", out["warnings"])
	}
}
