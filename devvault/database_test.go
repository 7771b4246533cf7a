package devvault_test

import (
	"context"
	"errors"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/devvault"
)

func TestCredsAreNewEachTime(t *testing.T) {
	v := newVault(t)
	g := v.token(v.RootToken(), "auth/token/create/guard", map[string]any{"display_name": "x"})
	out := v.okAs(g.token, "GET", "database/creds/app", nil)
	if number(out["lease_duration"]) != "60" || out["renewable"] != true || out["auth"] != nil || out["warnings"] != nil {
		t.Fatalf("answer: %v", out)
	}
	user := out["data"].(map[string]any)["username"].(string)
	if !regexp.MustCompile(`^v-token-x-app-[0-9A-Za-z]{20}-\d+$`).MatchString(user) {
		t.Errorf("user name %q", user)
	}
	if !regexp.MustCompile(`^database/creds/app/[0-9A-Za-z]{24}$`).MatchString(out["lease_id"].(string)) {
		t.Errorf("lease id %q", out["lease_id"])
	}
	a, b := v.creds(g.token), v.creds(g.token)
	if a.user == b.user || a.password == b.password || a.lease == b.lease {
		t.Error("two reads gave the same")
	}
	if err := v.directory.Login(a.user, b.password); !errors.Is(err, devvault.ErrWrongPassword) {
		t.Errorf("login with another's password: %v", err)
	}
}

func TestTTLsAsTextAndNumbers(t *testing.T) {
	v := newVault(t)
	for ttl, want := range map[any]string{"5s": "5", 7: "7", "90": "90", "1m30s": "90", "": "3600"} {
		v.ok("POST", "database/roles/r", map[string]any{"db_name": "db", "default_ttl": ttl, "max_ttl": "1h"})
		if got := number(v.ok("GET", "database/creds/r", nil)["lease_duration"]); got != want {
			t.Errorf("default_ttl %v: %s s, want %s", ttl, got, want)
		}
	}
	v.refused(v.RootToken(), "POST", "database/roles/r", map[string]any{"default_ttl": "soon"}, 400,
		`Field validation failed: error converting input for field "default_ttl": could not parse duration as string`)
}

func TestCredsRefused(t *testing.T) {
	v := newVault(t)
	v.refused(v.RootToken(), "GET", "database/creds/none", nil, 400, "unknown role: none")
	v.ok("POST", "database/config/db", map[string]any{"allowed_roles": "other,b*"})
	v.refused(v.RootToken(), "GET", "database/creds/app", nil, 500, "1 error occurred:\n\t* \"app\" is not an allowed role\n\n")
	v.ok("POST", "database/roles/bb", map[string]any{"db_name": "db"})
	v.ok("GET", "database/creds/bb", nil)
	v.refused(v.RootToken(), "POST", "database/roles/r", nil, 400, "database name is required")
	v.refused(v.RootToken(), "POST", "database/config/x", nil, 400, "empty plugin name")
	v.directory.SetDown(true)
	v.refused(v.RootToken(), "GET", "database/creds/bb", nil, 500, "1 error occurred:\n\t* directory is down\n\n")
	if n := len(v.Leases()); n != 1 {
		t.Errorf("%d leases, want the one that was answered", n)
	}
}

func TestRenewalWithoutItsRole(t *testing.T) {
	v := newVault(t)
	c := v.creds(v.RootToken())
	v.ok("DELETE", "database/roles/app", nil)
	v.refused(v.RootToken(), "PUT", "sys/leases/renew", map[string]any{"lease_id": c.lease}, 400,
		`failed to renew entry: resp: (*logical.Response)(nil) err: error during renew: could not find role with name "app"`)
	v.ok("PUT", "sys/leases/revoke", map[string]any{"lease_id": c.lease})
	v.wantAccounts(0, "revoked without its role")
}

func TestBreakNextAccounts(t *testing.T) {
	v := newVault(t)
	v.BreakNextAccounts(1)
	broken, good := v.creds(v.RootToken()), v.creds(v.RootToken())
	if err := v.directory.Login(broken.user, broken.password); !errors.Is(err, devvault.ErrWrongPassword) {
		t.Errorf("the broken one: %v", err)
	}
	if err := v.directory.Login(good.user, good.password); err != nil {
		t.Errorf("the one after it: %v", err)
	}
}

// slowAccounts holds a creation until the test lets it go.
type slowAccounts struct {
	devvault.Directory
	once             sync.Once
	creating, goAway chan struct{}
}

func (s *slowAccounts) Create(ctx context.Context, a devvault.Account) error {
	s.once.Do(func() { close(s.creating) })
	<-s.goAway
	return s.Directory.Create(ctx, a)
}

func TestTokenThatGoesWhileItsAccountIsMadeLeavesNone(t *testing.T) {
	slow := &slowAccounts{creating: make(chan struct{}), goAway: make(chan struct{})}
	v := newVault(t, func(c *devvault.Config) { c.Accounts = slow })
	g := v.token(v.RootToken(), "auth/token/create/guard", nil)
	status := make(chan int)
	go func() {
		s, _ := v.call(g.token, "GET", "database/creds/app", nil)
		status <- s
	}()
	<-slow.creating
	v.ok("POST", "auth/token/revoke-accessor", map[string]any{"accessor": g.accessor})
	close(slow.goAway)
	if s := <-status; s != 500 {
		t.Errorf("status %d, want 500", s)
	}
	v.wantAccounts(0, "of a token that went")
	if n := v.Counters(); n.AccountsCreated != 1 || n.AccountsDropped != 1 || len(v.Leases()) != 0 {
		t.Errorf("counters %+v, leases %v", n, v.Leases())
	}
}

// L39, C18
func TestStaticRole(t *testing.T) {
	v := newVault(t)
	if err := v.directory.Create(context.Background(), devvault.Account{User: "static"}); err != nil {
		t.Fatal(err)
	}
	v.refused(v.RootToken(), "POST", "database/static-roles/st", map[string]any{"db_name": "db", "username": "static", "rotation_period": 4}, 400, "rotation_period must be 5 seconds or more")
	v.ok("POST", "database/static-roles/st", map[string]any{"db_name": "db", "username": "static", "rotation_period": "1h"})
	read := func() map[string]any {
		out := v.ok("GET", "database/static-creds/st", nil)
		if out["lease_id"] != "" || number(out["lease_duration"]) != "0" || out["renewable"] != false {
			t.Fatalf("a static role has no lease: %v", out)
		}
		data := out["data"].(map[string]any)
		if err := v.directory.Login("static", data["password"].(string)); err != nil {
			t.Fatalf("login: %v", err)
		}
		return data
	}
	first := read()
	v.pass(20 * time.Minute)
	second := read()
	if number(first["ttl"]) != "3600" || number(second["ttl"]) != "2400" || first["password"] != second["password"] || number(second["rotation_period"]) != "3600" {
		t.Fatalf("before the rotation: %v, %v", first["ttl"], second["ttl"])
	}
	v.pass(40 * time.Minute)
	third := read()
	if third["password"] == second["password"] || third["last_vault_rotation"] == second["last_vault_rotation"] || number(third["ttl"]) != "3600" {
		t.Fatal("it was not rotated when its time had come")
	}
	v.ok("POST", "database/rotate-role/st", nil)
	if read()["password"] == third["password"] {
		t.Fatal("a manual rotation changed nothing")
	}
	if n := v.Counters().Rotations; n != 3 {
		t.Errorf("%d rotations, want 3", n)
	}
}
