package devvault_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/itest/redistest"
	"github.com/leasesvc/leasesvc/secret"
)

// newRedisVault is a vault with a database "redis" beside the usual one.
func newRedisVault(t *testing.T, s *redistest.Server, config map[string]any) *vault {
	v := newVault(t, func(c *devvault.Config) {
		c.Plugins = map[string]devvault.Accounts{"redis-database-plugin": &devvault.Redis{}}
	})
	body := map[string]any{"plugin_name": "redis-database-plugin", "allowed_roles": "*", "host": "127.0.0.1", "port": s.Port(), "username": s.Superuser(), "password": s.Password()}
	for k, x := range config {
		body[k] = x
	}
	v.ok("POST", "database/config/redis", body)
	v.ok("POST", "database/roles/cache", map[string]any{"db_name": "redis", "default_ttl": "1m", "max_ttl": "2m"})
	return v
}

func (v *vault) redisCreds(role string) cred {
	v.t.Helper()
	out := v.ok("GET", "database/creds/"+role, nil)
	data := out["data"].(map[string]any)
	return cred{out["lease_id"].(string), data["username"].(string), data["password"].(string)}
}

func ownRedis(t *testing.T, s *redistest.Server) *devvault.Redis {
	t.Helper()
	r, err := devvault.NewRedis(secret.New(s.URL()))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRedisUserLivesAsLongAsItsLease(t *testing.T) {
	s := redistest.Shared(t)
	v := newRedisVault(t, s, nil)
	c := v.redisCreds("cache")
	if !regexp.MustCompile(`^V_TOKEN_CACHE_[0-9A-Z]{20}_\d+$`).MatchString(c.user) {
		t.Errorf("user name %q", c.user)
	}
	if err := s.Login(t.Context(), c.user, c.password); err != nil {
		t.Fatalf("login: %v", err)
	}
	other := v.creds(v.RootToken()) // another plugin's accounts are elsewhere
	if err := v.directory.Login(other.user, other.password); err != nil {
		t.Errorf("the other database: %v", err)
	}
	v.pass(50 * time.Second)
	v.ok("PUT", "sys/leases/renew", map[string]any{"lease_id": c.lease, "increment": 60})
	v.pass(50 * time.Second)
	if err := s.Login(t.Context(), c.user, c.password); err != nil {
		t.Fatalf("login after a renewal: %v", err)
	}
	v.pass(11 * time.Second)
	if err := s.Login(t.Context(), c.user, c.password); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
		t.Fatalf("login after its lease: %v", err)
	}
	v.ok("PUT", "sys/leases/revoke", map[string]any{"lease_id": c.lease}) // gone already: no error
}

func TestRedisRules(t *testing.T) {
	s := redistest.Shared(t)
	v := newRedisVault(t, s, nil)
	for role, statements := range map[string]any{"json": `["~app:*","+get","+acl|whoami"]`, "list": []string{"~app:*", "+get"}} {
		v.ok("POST", "database/roles/"+role, map[string]any{"db_name": "redis", "creation_statements": statements})
		c := v.redisCreds(role)
		if err := s.Login(t.Context(), c.user, c.password); err != nil {
			t.Errorf("%s: %v", role, err)
		}
	}
	v.ok("POST", "database/roles/bad", map[string]any{"db_name": "redis", "creation_statements": `["+nosuch"]`})
	v.refused(v.RootToken(), "GET", "database/creds/bad", nil, 500,
		"1 error occurred:\n\t* ERR Error in ACL SETUSER modifier '+nosuch': Unknown command or category name in ACL\n\n")
	names, err := ownRedis(t, s).List(t.Context())
	if err != nil || len(names) != 2 {
		t.Fatalf("users: %v %v, want the two that were answered", names, err)
	}
	v.ok("PUT", "sys/leases/revoke-prefix/database", nil)
	if names, err := ownRedis(t, s).List(t.Context()); err != nil || len(names) != 0 {
		t.Errorf("users that stay: %v %v", names, err)
	}
}

func TestRedisConfiguration(t *testing.T) {
	s := redistest.Shared(t)
	v := newRedisVault(t, s, nil)
	config := func(change map[string]any) map[string]any {
		body := map[string]any{"plugin_name": "redis-database-plugin", "host": "127.0.0.1", "port": s.Port(), "username": s.Superuser(), "password": s.Password()}
		for k, x := range change {
			body[k] = x
		}
		return body
	}
	for message, change := range map[string]map[string]any{
		"host cannot be empty":     {"host": ""},
		"port cannot be empty":     {"port": 0},
		"username cannot be empty": {"username": ""},
		"ca_cert cannot be empty":  {"tls": true},
		"error verifying connection: WRONGPASS invalid username-password pair or user is disabled.": {"password": "wrong"},
	} {
		v.refused(v.RootToken(), "POST", "database/config/x", config(change), 400, "error creating database object: "+message)
	}
	v.ok("POST", "database/config/x", config(map[string]any{"password": "wrong", "verify_connection": false}))
	v.ok("POST", "database/config/y", map[string]any{"plugin_name": "redis-database-plugin", "connection_url": s.URL()})
	details := v.data("GET", "database/config/y", nil)["connection_details"].(map[string]any)
	if u, err := url.Parse(details["connection_url"].(string)); err != nil || strings.Contains(fmt.Sprint(details), s.Password()) || u.Host != s.Addr() {
		t.Errorf("read back: %v %v", u.Redacted(), err)
	}
	_, err := devvault.NewRedis(secret.New("postgres://a:the-password@h/"))
	if err == nil || strings.Contains(err.Error(), "the-password") {
		t.Errorf("a URL of something else: %v", err)
	}
}

// A listener that says yes to everything stands in for a Redis with TLS.
func TestRedisOverTLS(t *testing.T) {
	a := newAuthority(t)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{a.issue("redis")}})
	if err != nil {
		t.Fatal(err)
	}
	commands := make(chan string, 16)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			lines := bufio.NewScanner(conn)
			for lines.Scan() {
				if lines.Text() == "AUTH" || lines.Text() == "SETUSER" {
					commands <- lines.Text()
					_, _ = conn.Write([]byte("+OK\r\n"))
				}
			}
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	port := l.Addr().(*net.TCPAddr).Port
	connect := func(ca string, insecure bool) error {
		accounts, err := (&devvault.Redis{}).Connect(t.Context(), devvault.Connection{
			Username: "u", Password: secret.New("p"),
			Details: map[string]any{"host": "127.0.0.1", "port": fmt.Sprint(port), "tls": true, "ca_cert": ca, "insecure_tls": insecure},
		}, true)
		if err != nil {
			return err
		}
		return accounts.Create(t.Context(), devvault.Account{User: "x", Password: secret.New("y")})
	}
	if err := connect(a.ca, false); err != nil {
		t.Fatal(err)
	}
	if got := []string{<-commands, <-commands, <-commands}; fmt.Sprint(got) != "[AUTH AUTH SETUSER]" {
		t.Errorf("commands: %v", got)
	}
	other := newAuthority(t)
	if err := connect(other.ca, false); err == nil {
		t.Error("a certificate of another authority was taken")
	}
	if err := connect(other.ca, true); err != nil {
		t.Errorf("insecure: %v", err)
	}
}

// Accounts stay over a restart where the configuration says how.
func TestRedisPersistence(t *testing.T) {
	s := redistest.Start(t)
	v := newRedisVault(t, s, nil)
	forgotten := v.redisCreds("cache")
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if err := s.Login(t.Context(), forgotten.user, forgotten.password); err == nil {
		t.Error("an account that was not saved is there after a restart")
	}
	kept := newRedisVault(t, s, map[string]any{"persistence_mode": "ACLFILE"}).redisCreds("cache")
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if err := s.Login(t.Context(), kept.user, kept.password); err != nil {
		t.Errorf("an account that was saved: %v", err)
	}
}

func TestRedisStaticRole(t *testing.T) {
	s := redistest.Shared(t)
	v := newRedisVault(t, s, nil)
	r := ownRedis(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := r.Create(ctx, devvault.Account{User: "static", Password: secret.New("old"), Statements: []string{"~*", "+@all"}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Drop(context.Background(), "static", nil) })
	v.ok("POST", "database/static-roles/st", map[string]any{"db_name": "redis", "username": "static", "rotation_period": "1h"})
	first := v.data("GET", "database/static-creds/st", nil)["password"].(string)
	if err := s.Login(ctx, "static", first); err != nil {
		t.Fatal(err)
	}
	if err := s.Login(ctx, "static", "old"); err == nil {
		t.Error("the password before still works")
	}
	v.pass(time.Hour)
	second := v.data("GET", "database/static-creds/st", nil)["password"].(string)
	if err := s.Login(ctx, "static", second); err != nil || second == first {
		t.Errorf("after its rotation: %v", err)
	}
	if err := r.SetPassword(ctx, "nobody", secret.New("x"), nil); !errors.Is(err, devvault.ErrNoAccount) {
		t.Errorf("of an account that is not there: %v", err)
	}
}
