package devvault_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/itest/rabbittest"
	"github.com/leasesvc/leasesvc/secret"
)

const allOfRoot = `{"/":{"configure":".*","write":".*","read":".*"}}`

// newRabbitVault is a vault with a role "r" of a minute, at most two, on the
// virtual host "/".
func newRabbitVault(t *testing.T, change ...func(*devvault.Config)) *vault {
	v := newVault(t, change...)
	v.ok("POST", "sys/mounts/rabbitmq", map[string]any{"type": "rabbitmq"})
	v.ok("POST", "rabbitmq/config/lease", map[string]any{"ttl": "60s", "max_ttl": "2m"})
	v.ok("POST", "rabbitmq/roles/r", map[string]any{"vhosts": allOfRoot})
	v.ok("PUT", "sys/policies/acl/app", map[string]any{"policy": `path "rabbitmq/creds/*" { capabilities = ["read"] }`})
	return v
}

func (v *vault) rabbitCreds(by secret.String, role string) cred {
	v.t.Helper()
	out := v.okAs(by, "GET", "rabbitmq/creds/"+role, nil)
	data := out["data"].(map[string]any)
	return cred{out["lease_id"].(string), data["username"].(string), data["password"].(string)}
}

func TestRabbitMQUserLivesAsLongAsItsLease(t *testing.T) {
	var broker devvault.MemoryBroker
	v := newRabbitVault(t, func(c *devvault.Config) { c.Broker = &broker })
	g := v.token(v.RootToken(), "auth/token/create/guard", map[string]any{"ttl": "5m", "display_name": "x"})
	out := v.okAs(g.token, "GET", "rabbitmq/creds/r", nil)
	if number(out["lease_duration"]) != "60" || out["renewable"] != true {
		t.Fatalf("lease: %v", out)
	}
	c := v.rabbitCreds(g.token, "r")
	if !regexp.MustCompile(`^token-x-[0-9a-f-]{36}$`).MatchString(c.user) || len(c.password) != 36 {
		t.Errorf("user name %q, a password of %d characters", c.user, len(c.password))
	}
	if err := broker.Login(c.user, c.password, "/"); err != nil {
		t.Fatal(err)
	}
	if err := broker.Login(c.user, c.password, "other"); !errors.Is(err, devvault.ErrNoPermission) {
		t.Errorf("at another virtual host: %v", err)
	}
	renew := func(increment int) string {
		return number(v.ok("PUT", "sys/leases/renew", map[string]any{"lease_id": c.lease, "increment": increment})["lease_duration"])
	}
	v.pass(30 * time.Second)
	v.ok("DELETE", "rabbitmq/roles/r", nil) // a renewal needs no role
	if d := renew(3000); d != "90" {
		t.Errorf("renewed for %s s, want what is left of 2 min", d)
	}
	v.pass(31 * time.Second)
	if users, _ := broker.Users(context.Background()); len(users) != 1 {
		t.Fatalf("after a minute there are %v, want the renewed one", users)
	}
	v.pass(60 * time.Second)
	if err := broker.Login(c.user, c.password, "/"); !errors.Is(err, devvault.ErrNoAccount) {
		t.Errorf("after its lease: %v", err)
	}
	if n := v.Counters(); n.AccountsCreated != 2 || n.AccountsDropped != 2 {
		t.Errorf("counters: %+v", n)
	}
}

func TestRabbitMQUserDiesWithItsGuard(t *testing.T) {
	var broker devvault.MemoryBroker
	v := newRabbitVault(t, func(c *devvault.Config) { c.Broker = &broker })
	g := v.token(v.RootToken(), "auth/token/create/guard", map[string]any{"ttl": "15s"})
	c := v.rabbitCreds(g.token, "r")
	broker.SetDown(true)
	v.pass(16 * time.Second)
	if n := v.Counters().DropsFailed; n != 1 {
		t.Fatalf("%d failed drops while the broker is down", n)
	}
	broker.SetDown(false)
	v.pass(2 * time.Second)
	if err := broker.Login(c.user, c.password, "/"); !errors.Is(err, devvault.ErrNoAccount) {
		t.Errorf("after its guard: %v", err)
	}
}

func TestRabbitMQRefusals(t *testing.T) {
	v := newRabbitVault(t)
	v.refused(v.RootToken(), "GET", "rabbitmq/creds/none", nil, 400, "unknown role: none")
	v.refused(v.RootToken(), "POST", "rabbitmq/roles/x", nil, 400, "both tags and vhosts not specified")
	v.refused(v.RootToken(), "POST", "rabbitmq/config/connection", map[string]any{"connection_uri": "http://127.0.0.1:1", "username": "a"}, 400, "missing password")
	v.refused(v.RootToken(), "GET", "rabbitmq/config/connection", nil, 405, "1 error occurred:\n\t* unsupported operation\n\n")
	v.ok("POST", "rabbitmq/roles/x", map[string]any{"tags": "monitoring", "vhost_topics": `{"/":{"amq.topic":{"write":"a.*","read":".*"}}}`})
	if got := fmt.Sprint(v.data("GET", "rabbitmq/roles/x", nil)); got != "map[tags:monitoring vhost_topics:map[/:map[amq.topic:map[read:.* write:a.*]]] vhosts:map[]]" {
		t.Errorf("read back: %s", got)
	}
}

// management reads from a real broker.
func management(t *testing.T, s *rabbittest.Server, path string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.ManagementURL()+"/api/"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth(s.Administrator(), s.Password())
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestRabbitMQUsersOfARealBroker(t *testing.T) {
	s := rabbittest.Shared(t)
	v := newRabbitVault(t, func(c *devvault.Config) { c.Broker = &devvault.RabbitMQ{} })
	connection := func(password string) map[string]any {
		return map[string]any{"connection_uri": s.ManagementURL(), "username": s.Administrator(), "password": password}
	}
	v.refused(v.RootToken(), "POST", "rabbitmq/config/connection", connection("wrong"), 500,
		"1 error occurred:\n\t* failed to validate the connection: Error: API responded with a 401 Unauthorized\n\n")
	v.ok("POST", "rabbitmq/config/connection", connection(s.Password()))
	v.ok("POST", "rabbitmq/roles/narrow", map[string]any{
		"tags": "monitoring,management", "vhosts": `{"/":{"configure":"","write":"a","read":".*"}}`,
		"vhost_topics": `{"/":{"amq.topic":{"write":"a.*","read":".*"}}}`,
	})
	v.ok("POST", "rabbitmq/roles/bad", map[string]any{"vhosts": `{"none":{"configure":"","write":"","read":""}}`})

	c := v.rabbitCreds(v.RootToken(), "r")
	if err := s.Login(t.Context(), c.user, c.password, "/"); err != nil {
		t.Fatalf("login: %v", err)
	}
	narrow := v.rabbitCreds(v.RootToken(), "narrow")
	if err := s.Login(t.Context(), narrow.user, narrow.password, "/"); err != nil {
		t.Fatalf("login: %v", err)
	}
	if got := management(t, s, "users/"+narrow.user+"/permissions"); !strings.Contains(got, `"configure":"","write":"a","read":".*"`) {
		t.Errorf("permissions: %s", got)
	}
	if got := management(t, s, "users/"+narrow.user+"/topic-permissions"); !strings.Contains(got, `"exchange":"amq.topic","write":"a.*","read":".*"`) {
		t.Errorf("topic permissions: %s", got)
	}
	if got := management(t, s, "users/"+narrow.user); !strings.Contains(got, `"tags":["monitoring","management"]`) {
		t.Errorf("tags: %s", got)
	}

	status, out := v.call(v.RootToken(), "GET", "rabbitmq/creds/bad", nil)
	if errs := fmt.Sprint(out["errors"]); status != 500 || !strings.Contains(errs, "Error 400 (bad_request): vhost_or_user_not_found") {
		t.Errorf("at a virtual host that is not there: %d %s", status, errs)
	}
	v.ok("PUT", "sys/leases/revoke", map[string]any{"lease_id": c.lease})
	if err := s.Login(t.Context(), c.user, c.password, "/"); err == nil || !strings.Contains(err.Error(), "ACCESS_REFUSED") {
		t.Errorf("after the revocation: %v", err)
	}
	v.pass(61 * time.Second)
	users, err := devvault.NewRabbitMQ(s.ManagementURL(), s.Administrator(), secret.New(s.Password())).Users(t.Context())
	if err != nil || !slices.Equal(users, []string{s.Administrator()}) {
		t.Errorf("users that stay: %v %v", users, err)
	}
}

func TestRabbitMQUserThatWentByItselfIsNoError(t *testing.T) {
	s := rabbittest.Shared(t)
	v := newRabbitVault(t, func(c *devvault.Config) {
		c.Broker = devvault.NewRabbitMQ(s.ManagementURL()+"/", s.Administrator(), secret.New(s.Password()))
	})
	c := v.rabbitCreds(v.RootToken(), "r") // the server's own broker, without a configuration
	broker := devvault.NewRabbitMQ(s.ManagementURL(), s.Administrator(), secret.New(s.Password()))
	if err := broker.DropUser(t.Context(), c.user); err != nil {
		t.Fatal(err)
	}
	v.ok("PUT", "sys/leases/revoke", map[string]any{"lease_id": c.lease})
}
