package devvault_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/secret"
)

var nobody secret.String

// appRole mounts the method with a role "r" and returns its role id.
func (v *vault) appRole(role map[string]any) string {
	v.t.Helper()
	v.ok("POST", "sys/auth/approle", map[string]any{"type": "approle"})
	v.ok("POST", "auth/approle/role/r", role)
	return v.data("GET", "auth/approle/role/r/role-id", nil)["role_id"].(string)
}

// data makes a call as root and returns its data.
func (v *vault) data(method, path string, body any) map[string]any {
	v.t.Helper()
	data, ok := v.ok(method, path, body)["data"].(map[string]any)
	if !ok {
		v.t.Fatalf("%s %s: no data", method, path)
	}
	return data
}

func (v *vault) secretID(body map[string]any) string {
	v.t.Helper()
	return v.data("POST", "auth/approle/role/r/secret-id", body)["secret_id"].(string)
}

// login logs in without a token.
func (v *vault) login(path string, body map[string]any) issued {
	v.t.Helper()
	return v.token(nobody, path, body)
}

func TestAppRoleLogin(t *testing.T) {
	v := newVault(t)
	roleID := v.appRole(map[string]any{"token_policies": "app", "token_ttl": "20m", "token_max_ttl": "30m"})
	id := v.secretID(map[string]any{"metadata": `{"host":"a"}`})
	got := v.login("auth/approle/login", map[string]any{"role_id": roleID, "secret_id": id})
	a := got.answer
	if number(a["lease_duration"]) != "1200" || a["renewable"] != true || a["orphan"] != true || fmt.Sprint(a["policies"]) != "[app default]" ||
		fmt.Sprint(a["metadata"]) != "map[host:a role_name:r]" || a["token_type"] != "service" {
		t.Fatalf("auth: %v", a)
	}
	look := v.okAs(got.token, "GET", "auth/token/lookup-self", nil)["data"].(map[string]any)
	if look["display_name"] != "approle" || look["path"] != "auth/approle/login" || number(look["ttl"]) != "1200" {
		t.Errorf("lookup: %v", look)
	}
	if c := v.creds(got.token); c.user == "" {
		t.Error("its policy does not count")
	}
	v.pass(10 * time.Minute)
	out := v.okAs(got.token, "POST", "auth/token/renew-self", map[string]any{"increment": "1h"})
	if d := number(out["auth"].(map[string]any)["lease_duration"]); d != "1200" || out["warnings"] == nil {
		t.Errorf("renewed for %s s (%v), want what is left of 30 min", d, out["warnings"])
	}
	v.ok("DELETE", "auth/approle/role/r", nil)
	v.refused(got.token, "POST", "auth/token/renew-self", nil, 500, "1 error occurred:\n\t* failed to renew entry: role \"r\" does not exist during renewal\n\n")
	v.refused(nobody, "POST", "auth/approle/login", map[string]any{"role_id": roleID, "secret_id": id}, 400, "invalid role or secret ID")
	v.pass(20 * time.Minute)
	v.refused(got.token, "GET", "auth/token/lookup-self", nil, 403, "permission denied")
}

func TestAppRoleRenewalFollowsTheRoleOfToday(t *testing.T) {
	v := newVault(t)
	roleID := v.appRole(map[string]any{"token_ttl": "20m"})
	got := v.login("auth/approle/login", map[string]any{"role_id": roleID, "secret_id": v.secretID(nil)})
	renew := func() string {
		return number(v.okAs(got.token, "POST", "auth/token/renew-self", nil)["auth"].(map[string]any)["lease_duration"])
	}
	v.ok("POST", "auth/approle/role/r", map[string]any{"token_period": "7m"})
	if d := renew(); d != "420" {
		t.Errorf("with a period: %s s", d)
	}
	v.ok("POST", "auth/approle/role/r", map[string]any{"token_period": 0, "token_ttl": "5m", "token_max_ttl": "15m"})
	v.pass(2 * time.Minute)
	if d := renew(); d != "300" {
		t.Errorf("with a shorter TTL: %s s", d)
	}
	v.ok("POST", "auth/approle/role/r", map[string]any{"token_ttl": 60, "token_max_ttl": 60})
	v.refused(got.token, "POST", "auth/token/renew-self", nil, 500, "1 error occurred:\n\t* past the max TTL, cannot renew\n\n")
}

func TestSecretIDUsesAndLife(t *testing.T) {
	v := newVault(t)
	roleID := v.appRole(map[string]any{"secret_id_num_uses": 2, "secret_id_ttl": "10m"})
	login := func(id string) int {
		status, _ := v.call(nobody, "POST", "auth/approle/login", map[string]any{"role_id": roleID, "secret_id": id})
		return status
	}
	twice := v.secretID(nil)
	look := v.data("POST", "auth/approle/role/r/secret-id/lookup", map[string]any{"secret_id": twice})
	if number(look["secret_id_num_uses"]) != "2" || number(look["secret_id_ttl"]) != "600" || look["expiration_time"] == "" {
		t.Fatalf("lookup: %v", look)
	}
	if got := [3]int{login(twice), login(twice), login(twice)}; got != [3]int{0, 0, 400} {
		t.Errorf("three logins with a secret id of two uses: %v", got)
	}
	short := v.secretID(map[string]any{"ttl": "1m", "num_uses": 1})
	v.pass(61 * time.Second)
	if login(short) != 400 {
		t.Error("a secret id worked past its time")
	}
	v.refused(v.RootToken(), "POST", "auth/approle/role/r/secret-id", map[string]any{"num_uses": 5}, 400, "num_uses cannot be higher than the role's secret_id_num_uses")
	v.refused(v.RootToken(), "POST", "auth/approle/role/r/secret-id", map[string]any{"ttl": "1h"}, 400, "ttl cannot be longer than the role's secret_id_ttl")

	gone := v.data("POST", "auth/approle/role/r/secret-id", nil)
	v.ok("POST", "auth/approle/role/r/secret-id/destroy", map[string]any{"secret_id": gone["secret_id"]})
	if login(gone["secret_id"].(string)) != 400 {
		t.Error("a destroyed secret id worked")
	}
	byAccessor := v.data("POST", "auth/approle/role/r/secret-id", nil)
	accessor := map[string]any{"secret_id_accessor": byAccessor["secret_id_accessor"]}
	if keys := v.data("LIST", "auth/approle/role/r/secret-id", nil)["keys"]; fmt.Sprint(keys) != fmt.Sprintf("[%s]", byAccessor["secret_id_accessor"]) {
		t.Errorf("listed: %v", keys)
	}
	v.ok("POST", "auth/approle/role/r/secret-id-accessor/lookup", accessor)
	v.ok("POST", "auth/approle/role/r/secret-id-accessor/destroy", accessor)
	if status, _ := v.call(v.RootToken(), "POST", "auth/approle/role/r/secret-id-accessor/lookup", accessor); status != 404 {
		t.Errorf("looked up when destroyed: %d", status)
	}
	v.ok("POST", "auth/approle/role/r/custom-secret-id", map[string]any{"secret_id": "mine"})
	if login("mine") != 0 {
		t.Error("a secret id of one's own did not work")
	}
}

func TestAppRoleRefusals(t *testing.T) {
	v := newVault(t)
	v.refused(nobody, "POST", "auth/approle/login", map[string]any{}, 403, "permission denied")
	roleID := v.appRole(map[string]any{})
	for _, c := range []struct {
		body    map[string]any
		status  int
		message string
	}{
		{map[string]any{}, 500, "missing role_id"},
		{map[string]any{"role_id": roleID}, 400, "missing secret_id"},
		{map[string]any{"role_id": "x", "secret_id": "y"}, 400, "invalid role or secret ID"},
		{map[string]any{"role_id": roleID, "secret_id": "y"}, 400, "invalid role or secret ID"},
	} {
		v.refused(secret.New("no token of this server's"), "POST", "auth/approle/login", c.body, c.status, c.message)
	}
	v.refused(nobody, "GET", "auth/approle/role/r", nil, 403, "permission denied")
	v.refused(v.RootToken(), "POST", "auth/approle/role/x", map[string]any{"token_ttl": "2h", "token_max_ttl": "1h"}, 400, "'token_ttl' cannot be greater than 'token_max_ttl'")
	v.refused(v.RootToken(), "POST", "auth/approle/role/x", map[string]any{"token_type": "batch", "token_num_uses": 2}, 400,
		"'token_type' cannot be 'batch' or 'default_batch' when set to generate tokens with limited use count")
	v.refused(v.RootToken(), "POST", "sys/auth/approle", map[string]any{"type": "approle"}, 400, "path is already in use at approle/")
	v.ok("POST", "auth/approle/role/r", map[string]any{"token_policies": "root"})
	v.refused(nobody, "POST", "auth/approle/login", map[string]any{"role_id": roleID, "secret_id": v.secretID(nil)}, 400, "auth methods cannot create root tokens")
}

func TestAppRoleTokens(t *testing.T) {
	v := newVault(t)
	roleID := v.appRole(map[string]any{"token_type": "batch", "token_ttl": "5m", "token_policies": "app"})
	in := func() issued {
		return v.login("auth/approle/login", map[string]any{"role_id": roleID, "secret_id": v.secretID(nil)})
	}
	batch := in()
	if batch.answer["token_type"] != "batch" || batch.accessor != "" || batch.answer["renewable"] != false {
		t.Errorf("batch: %v", batch.answer)
	}
	v.refused(batch.token, "POST", "auth/token/create/guard", nil, 400, "batch tokens cannot create more tokens")

	v.ok("POST", "auth/approle/role/r", map[string]any{"token_type": "service", "token_num_uses": 2})
	limited := in()
	v.okAs(limited.token, "GET", "auth/token/lookup-self", nil)
	v.okAs(limited.token, "GET", "auth/token/lookup-self", nil)
	v.refused(limited.token, "GET", "auth/token/lookup-self", nil, 403, "permission denied")

	v.ok("POST", "auth/approle/role/r", map[string]any{"token_num_uses": 0, "token_explicit_max_ttl": "3m"})
	capped := in()
	if d := number(capped.answer["lease_duration"]); d != "180" {
		t.Errorf("with an explicit maximum: %s s", d)
	}
	v.creds(capped.token)
	v.wantAccounts(1, "of the login")
	v.ok("DELETE", "sys/auth/approle", nil)
	v.pass(0)
	v.wantAccounts(0, "without the method its tokens go, and their leases")
	v.refused(capped.token, "GET", "auth/token/lookup-self", nil, 403, "permission denied")
}

func TestAuthMountLimits(t *testing.T) {
	v := newVault(t)
	roleID := v.appRole(nil)
	v.ok("POST", "sys/auth/approle/tune", map[string]any{"default_lease_ttl": "30m", "max_lease_ttl": "1h"})
	got := v.login("auth/approle/login", map[string]any{"role_id": roleID, "secret_id": v.secretID(nil)})
	if d := number(got.answer["lease_duration"]); d != "1800" {
		t.Errorf("%s s, want the mount's 30 min", d)
	}
	out := v.okAs(got.token, "POST", "auth/token/renew-self", map[string]any{"increment": "9h"})
	if d := number(out["auth"].(map[string]any)["lease_duration"]); d != "3600" {
		t.Errorf("renewed for %s s, want the mount's hour", d)
	}
	if !slices.ContainsFunc(v.Tokens(), func(i devvault.TokenInfo) bool { return i.Accessor == got.accessor && i.Role == "r" }) {
		t.Errorf("the token does not tell its role: %+v", v.Tokens())
	}
	listed := v.ok("GET", "sys/auth", nil)
	if listed["approle/"] == nil || listed["token/"] == nil {
		t.Errorf("sys/auth: %v", listed)
	}
}

func TestOnlyOneLoginWithASecretIDOfOneUse(t *testing.T) {
	v := newVault(t)
	roleID := v.appRole(map[string]any{"secret_id_num_uses": 1})
	for range 20 {
		body := map[string]any{"role_id": roleID, "secret_id": v.secretID(nil)}
		var group sync.WaitGroup
		var in atomic.Int32
		for range 8 {
			group.Go(func() {
				if status, _ := v.call(nobody, "POST", "auth/approle/login", body); status == 0 {
					in.Add(1)
				}
			})
		}
		group.Wait()
		if n := in.Load(); n != 1 {
			t.Fatalf("%d of 8 logged in", n)
		}
	}
}
