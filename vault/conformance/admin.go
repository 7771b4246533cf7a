package conformance

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/secret"
	"github.com/leasesvc/leasesvc/vault"
)

// Target is a server to be held to the suite.
type Target struct {
	// Name is for the log.
	Name      string
	Address   string
	RootToken secret.String
	// DatabaseURL is where the server's database engine makes accounts, as a
	// superuser of a PostgreSQL.
	DatabaseURL secret.String
	// Accounts lists the accounts there whose name begins with "v-".
	Accounts func(ctx context.Context) ([]string, error)
	// CACert is the PEM file of the authority that the server's certificate is
	// verified with, for an https address.
	CACert string
	// RabbitMQ and Redis are servers that the target's engines make accounts in.
	RabbitMQ, Redis Backend
	// ServiceAccount, where the target asks no cluster, tells it of a Kubernetes
	// service account's token; an empty account means that it is no longer good.
	ServiceAccount func(jwt secret.String, namespace, account, uid string)
	// Lacks names groups of the suite that the target does not claim to have.
	// They do not run, and that is logged.
	Lacks []string
}

// Backend is a server that an engine makes accounts in.
type Backend struct {
	// Plugin is the database plugin to use for it, if it is one's.
	Plugin string
	// Address is the URL of its management API, or host:port.
	Address string
	// User and Password are an administrator's.
	User     string
	Password secret.String
	// Login tries an account.
	Login func(ctx context.Context, user, password string) error
}

// admin configures the target as root, over plain HTTP: the client under test
// has no business with that.
type admin struct {
	target Target
	suffix string // of every name, so that a lasting server can be used again
	http   *http.Client
}

func newAdmin(t *testing.T, target Target) *admin {
	t.Helper()
	a := &admin{target: target, suffix: strings.ToLower(rand.Text()[:8]), http: httpClient(t, target.CACert)}
	db, policy := a.database(), a.policy("service")
	a.must(t, "POST", "sys/mounts/"+db, map[string]any{"type": "database"})
	t.Cleanup(func() { a.must(t, "DELETE", "sys/mounts/"+db, nil) })
	a.must(t, "POST", "sys/mounts/"+a.kv(), map[string]any{"type": "kv", "options": map[string]string{"version": "2"}})
	t.Cleanup(func() { a.must(t, "DELETE", "sys/mounts/"+a.kv(), nil) })
	a.must(t, "POST", db+"/config/pg", map[string]any{
		"plugin_name": "postgresql-database-plugin", "allowed_roles": "*", "connection_url": target.DatabaseURL.Reveal(),
	})
	a.databaseRole(t, "app", "1h", "24h")
	a.databaseRole(t, "short", "4s", "8s")
	a.must(t, "PUT", "sys/policies/acl/"+policy, map[string]any{"policy": a.servicePolicy()})
	a.must(t, "PUT", "sys/policies/acl/"+a.policy("guard"), map[string]any{"policy": fmt.Sprintf(`path "%s/creds/*" { capabilities = ["read"] }`, db)})
	a.must(t, "PUT", "sys/policies/acl/"+a.policy("nothing"), map[string]any{"policy": `path "nothing/at/all" { capabilities = ["read"] }`})
	for _, p := range []string{"service", "guard", "nothing"} {
		t.Cleanup(func() { a.must(t, "DELETE", "sys/policies/acl/"+a.policy(p), nil) })
	}
	a.tokenRole(t, "good", map[string]any{})
	return a
}

func (a *admin) database() string          { return "conf-db-" + a.suffix }
func (a *admin) kv() string                { return "conf-kv-" + a.suffix }
func (a *admin) policy(name string) string { return "conf-" + name + "-" + a.suffix }
func (a *admin) role(name string) string   { return "conf-" + name + "-" + a.suffix }
func (a *admin) creds(role string) string  { return a.database() + "/creds/" + role }

// servicePolicy is the least that the service's own token needs, beside the
// paths it reads without a guard.
func (a *admin) servicePolicy() string {
	return fmt.Sprintf(`
path "auth/token/create/conf-*"    { capabilities = ["create", "update"] }
path "auth/token/lookup-self"      { capabilities = ["read"] }
path "auth/token/renew-self"       { capabilities = ["update"] }
path "auth/token/lookup-accessor"  { capabilities = ["update"] }
path "auth/token/renew-accessor"   { capabilities = ["update"] }
path "auth/token/revoke-accessor"  { capabilities = ["update"] }
path "sys/leases/lookup"           { capabilities = ["update"] }
path "sys/leases/renew"            { capabilities = ["update"] }
path "sys/leases/revoke"           { capabilities = ["update"] }
path "%s/creds/*"                  { capabilities = ["read"] }
path "%s/data/*"                   { capabilities = ["read"] }
`, a.database(), a.kv())
}

func (a *admin) databaseRole(t *testing.T, name, ttl, maxTTL string) {
	t.Helper()
	a.must(t, "POST", a.database()+"/roles/"+name, map[string]any{
		"db_name": "pg", "default_ttl": ttl, "max_ttl": maxTTL,
		"creation_statements": `CREATE ROLE "{{name}}" WITH LOGIN PASSWORD '{{password}}' VALID UNTIL '{{expiration}}';`,
	})
}

// tokenRole makes a token role fit for guards, but for what is given.
func (a *admin) tokenRole(t *testing.T, name string, but map[string]any) string {
	t.Helper()
	body := map[string]any{"orphan": true, "renewable": true, "token_type": "service", "allowed_policies": a.policy("guard"), "token_no_default_policy": true}
	for k, v := range but {
		body[k] = v
	}
	role := a.role(name)
	a.must(t, "POST", "auth/token/roles/"+role, body)
	t.Cleanup(func() { a.must(t, "DELETE", "auth/token/roles/"+role, nil) })
	return role
}

// token makes a service token with the named policy.
func (a *admin) token(t *testing.T, policy string, with map[string]any) secret.String {
	t.Helper()
	body := map[string]any{"policies": []string{a.policy(policy)}, "no_default_policy": true, "no_parent": true, "ttl": "10m"}
	for k, v := range with {
		body[k] = v
	}
	var out struct {
		Auth struct {
			Token string `json:"client_token"`
		}
	}
	if err := json.Unmarshal(a.must(t, "POST", "auth/token/create", body), &out); err != nil || out.Auth.Token == "" {
		t.Fatalf("creating a token: no token came (%v)", err)
	}
	return secret.New(out.Auth.Token)
}

// revokeToken revokes a token and waits for its leases to be gone.
func (a *admin) revokeToken(t *testing.T, token secret.String) {
	t.Helper()
	a.must(t, "POST", "auth/token/revoke", map[string]any{"token": token.Reveal()})
}

// client logs in with token; role is the guard role, "good" when empty.
func (a *admin) client(t *testing.T, token secret.String, role string) *vault.Client {
	t.Helper()
	if role == "" {
		role = a.role("good")
	}
	c := a.stranger(t, func(cfg *vault.Config) { cfg.Token, cfg.GuardRole = token, role })
	if err := c.Login(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// stranger makes a client that is not logged in.
func (a *admin) stranger(t *testing.T, with ...func(*vault.Config)) *vault.Client {
	t.Helper()
	cfg := vault.Config{Name: a.target.Name, Address: a.target.Address, GuardRole: a.role("good"), TLS: vault.TLS{CACert: a.target.CACert}}
	for _, w := range with {
		w(&cfg)
	}
	c, err := vault.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// service logs in with a token of the service's policy.
func (a *admin) service(t *testing.T, role string) *vault.Client {
	t.Helper()
	return a.client(t, a.token(t, "service", nil), role)
}

func httpClient(t *testing.T, caFile string) *http.Client {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	if caFile != "" {
		pem, err := os.ReadFile(caFile)
		if err != nil {
			t.Fatal(err)
		}
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
		transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem)
	}
	return &http.Client{Timeout: 20 * time.Second, Transport: transport}
}

// must sends an administrator's request and ends the test unless it succeeds.
func (a *admin) must(t *testing.T, method, path string, body any) []byte {
	t.Helper()
	status, answer := a.send(t, method, path, body)
	if status < 200 || status > 299 {
		t.Fatalf("%s %s as root: HTTP %d: %s", method, path, status, answer)
	}
	return answer
}

// mount enables an engine or an auth method ("auth/NAME") until the test's end.
func (a *admin) mount(t *testing.T, path, kind string, options map[string]string) {
	t.Helper()
	at := "sys/mounts/" + path
	if name, ok := strings.CutPrefix(path, "auth/"); ok {
		at = "sys/auth/" + name
	}
	body := map[string]any{"type": kind}
	if options != nil {
		body["options"] = options
	}
	a.must(t, "POST", at, body)
	t.Cleanup(func() { a.must(t, "DELETE", at, nil) })
}

// field gives a text out of the data, or another part, of a root's answer.
func (a *admin) field(t *testing.T, method, path string, body any, part, name string) string {
	t.Helper()
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(a.must(t, method, path, body), &doc); err != nil {
		t.Fatal(err)
	}
	var fields map[string]json.RawMessage
	var text string
	if json.Unmarshal(doc[part], &fields) != nil || json.Unmarshal(fields[name], &text) != nil || text == "" {
		t.Fatalf("%s %s as root: no %s in its %s", method, path, name, part)
	}
	return text
}

func (a *admin) send(t *testing.T, method, path string, body any) (int, []byte) {
	t.Helper()
	return a.sendWith(t, method, path, body, nil)
}

// sendWith is send with more headers.
func (a *admin) sendWith(t *testing.T, method, path string, body any, headers map[string]string) (int, []byte) {
	t.Helper()
	var in io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		in = bytes.NewReader(b)
	}
	// Not t.Context(): cleanups run after it has ended.
	r, err := http.NewRequestWithContext(context.Background(), method, a.target.Address+"/v1/"+path, in)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Vault-Token", a.target.RootToken.Reveal())
	r.Header.Set("X-Vault-Request", "true")
	for k, v := range headers {
		r.Header.Set(k, v)
	}
	resp, err := a.http.Do(r)
	if err != nil {
		t.Fatalf("%s %s as root: %v", method, path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		t.Fatalf("%s %s as root: %v", method, path, err)
	}
	return resp.StatusCode, answer
}
