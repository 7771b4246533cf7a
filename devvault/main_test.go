package devvault_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/itest/mysqltest"
	"github.com/leasesvc/leasesvc/itest/pgtest"
	"github.com/leasesvc/leasesvc/itest/rabbittest"
	"github.com/leasesvc/leasesvc/itest/redistest"
	"github.com/leasesvc/leasesvc/secret"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(mysqltest.Main(rabbittest.Main(redistest.Main(pgtest.Main(m)))))
}

// clock is a clock that moves when it is told to.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = t
}

// vault is a server under test with a database role "app" (1 min, at most
// 200 s) on a directory, a policy "app" and a token role "guard".
type vault struct {
	*devvault.Server
	t         *testing.T
	clock     *clock
	directory *devvault.Directory
}

func newVault(t *testing.T, change ...func(*devvault.Config)) *vault {
	t.Helper()
	c := newClock()
	v := &vault{t: t, clock: c, directory: &devvault.Directory{Clock: c.now}}
	cfg := devvault.Config{RootToken: secret.New("root-token-of-the-test"), Clock: c.now, Accounts: v.directory, RevokeRetryBase: time.Second}
	for _, f := range change {
		f(&cfg)
	}
	s, err := devvault.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	v.Server = s
	v.ok("POST", "sys/mounts/database", map[string]any{"type": "database"})
	v.ok("POST", "sys/mounts/kv", map[string]any{"type": "kv"})
	v.ok("POST", "database/config/db", map[string]any{"plugin_name": "postgresql-database-plugin", "allowed_roles": "*", "verify_connection": false})
	v.ok("POST", "database/roles/app", map[string]any{"db_name": "db", "default_ttl": "1m", "max_ttl": 200})
	v.ok("PUT", "sys/policies/acl/app", map[string]any{"policy": `
		path "database/creds/*" { capabilities = ["read"] }
		path "auth/token/create/guard" { capabilities = ["update"] }
		path "auth/token/renew-accessor" { capabilities = ["update"] }`})
	v.ok("POST", "auth/token/roles/guard", map[string]any{"orphan": true, "allowed_policies": "app"})
	return v
}

// call makes a call and returns status (0 for any success) and answer.
func (v *vault) call(token secret.String, method, path string, body any) (int, map[string]any) {
	v.t.Helper()
	out, err := v.DoAs(context.Background(), token, method, path, body)
	var failed *devvault.StatusError
	if errors.As(err, &failed) {
		return failed.Status, out
	}
	if err != nil {
		v.t.Fatalf("%s %s: %v", method, path, err)
	}
	return 0, out
}

// ok makes a call as root that must succeed.
func (v *vault) ok(method, path string, body any) map[string]any {
	v.t.Helper()
	return v.okAs(v.RootToken(), method, path, body)
}

func (v *vault) okAs(token secret.String, method, path string, body any) map[string]any {
	v.t.Helper()
	status, out := v.call(token, method, path, body)
	if status != 0 {
		v.t.Fatalf("%s %s: %d %v", method, path, status, out["errors"])
	}
	return out
}

// refused makes a call that must answer status with exactly that error.
func (v *vault) refused(token secret.String, method, path string, body any, want int, message string) {
	v.t.Helper()
	status, out := v.call(token, method, path, body)
	if status != want {
		v.t.Fatalf("%s %s: status %d %v, want %d", method, path, status, out["errors"], want)
	}
	if got := fmt.Sprint(out["errors"]); got != "["+message+"]" {
		v.t.Fatalf("%s %s: errors %s, want [%s]", method, path, got, message)
	}
}

// pass moves the clock and lets everything that is due happen.
func (v *vault) pass(d time.Duration) {
	v.t.Helper()
	v.clock.mu.Lock()
	v.clock.t = v.clock.t.Add(d)
	v.clock.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := v.Settle(ctx); err != nil {
		v.t.Fatalf("settling: %v", err)
	}
}

type issued struct {
	token    secret.String
	accessor string
	answer   map[string]any
}

// token creates one through path as by.
func (v *vault) token(by secret.String, path string, body map[string]any) issued {
	v.t.Helper()
	auth := v.okAs(by, "POST", path, body)["auth"].(map[string]any)
	return issued{token: secret.New(auth["client_token"].(string)), accessor: auth["accessor"].(string), answer: auth}
}

type cred struct{ lease, user, password string }

func (v *vault) creds(by secret.String) cred {
	v.t.Helper()
	out := v.okAs(by, "GET", "database/creds/app", nil)
	data := out["data"].(map[string]any)
	return cred{out["lease_id"].(string), data["username"].(string), data["password"].(string)}
}

func (v *vault) accounts() []string {
	v.t.Helper()
	names, err := v.Accounts().List(context.Background())
	if err != nil {
		v.t.Fatal(err)
	}
	return names
}

func (v *vault) wantAccounts(want int, why string) {
	v.t.Helper()
	if got := v.accounts(); len(got) != want {
		v.t.Fatalf("%s: %d accounts %v, want %d", why, len(got), got, want)
	}
}

func number(x any) string {
	if n, ok := x.(json.Number); ok {
		return n.String()
	}
	return fmt.Sprint(x)
}
