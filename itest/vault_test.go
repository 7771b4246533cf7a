package itest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/internal/process"
	"github.com/leasesvc/leasesvc/itest/secrettest"
	"github.com/leasesvc/leasesvc/secret"
)

// vaultServer is a Vault that a test configures and a service uses.
type vaultServer struct {
	name    string
	address string
	root    string
	dev     *devvault.Server // nil: a real one
	audit   string           // a real one's audit log, in the clear
}

// vaultTargets gives what starts each Vault there is here: devvault always, a
// real one where its binary is found.
func vaultTargets(t *testing.T) map[string]func(*testing.T) *vaultServer {
	t.Helper()
	targets := map[string]func(*testing.T) *vaultServer{"devvault": startDevvault}
	binary := os.Getenv("LEASESVC_TEST_BAO")
	for _, name := range []string{"bao", "vault"} {
		if path, err := exec.LookPath(name); binary == "" && err == nil {
			binary = path
		}
	}
	if binary == "" {
		t.Log("no bao or vault on the PATH or in LEASESVC_TEST_BAO: devvault alone")
		return targets
	}
	targets["real"] = func(t *testing.T) *vaultServer { return startReal(t, binary) }
	return targets
}

func startDevvault(t *testing.T) *vaultServer {
	t.Helper()
	srv, err := devvault.New(devvault.Config{Accounts: devvault.NewPostgres(secret.String{}), Answered: secrettest.Answered})
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	return &vaultServer{name: "devvault", address: srv.URL(), root: srv.RootToken().Reveal(), dev: srv}
}

func startReal(t *testing.T, binary string) *vaultServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	v := &vaultServer{name: filepath.Base(binary), address: "http://" + addr, root: "root-" + rand.Text()}
	// OpenBao takes an audit device over its API only where it is told to; Vault
	// knows no such setting and goes on without it.
	config := filepath.Join(t.TempDir(), "audit.hcl")
	if err := os.WriteFile(config, []byte("unsafe_allow_api_audit_creation = true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "server", "-dev", "-config="+config, "-dev-no-store-token", "-dev-root-token-id="+v.root, "-dev-listen-address="+addr)
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	// Its output is not ours: a server for development prints its root token.
	p, err := process.Start(cmd, filepath.Join(t.TempDir(), "vault.log"), syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.End(syscall.SIGTERM, 60*time.Second); err != nil {
			t.Errorf("ending %s: %v", v.name, err)
		}
	})
	await(t, 60*time.Second, "the real server to answer", func() bool {
		resp, err := http.Get(v.address + "/v1/sys/health")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	v.audit = filepath.Join(t.TempDir(), "audit.log")
	t.Cleanup(func() {
		log, err := os.ReadFile(v.audit)
		if err != nil {
			t.Errorf("reading the audit log: %v", err)
		}
		secrettest.Audited(log)
	})
	v.must(t, "PUT", "sys/audit/file", map[string]any{"type": "file", "options": map[string]string{"file_path": v.audit, "log_raw": "true"}})
	return v
}

// granted gives the accounts that a real server has ever granted, by its audit
// log, with the ids of their leases.
func (v *vaultServer) granted(t *testing.T) map[string]string {
	t.Helper()
	raw, err := os.ReadFile(v.audit)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for line := range bytes.Lines(raw) {
		var entry struct {
			Type, Error string
			Request     struct{ Path string }
			Response    struct {
				Secret struct {
					LeaseID string `json:"lease_id"`
				}
				Data struct{ Username string }
			}
		}
		if json.Unmarshal(line, &entry) != nil || entry.Type != "response" || !strings.HasPrefix(entry.Request.Path, "database/creds/") {
			continue // what is being written, and what is about others
		}
		if user := entry.Response.Data.Username; user != "" {
			out[user] = entry.Response.Secret.LeaseID
		}
	}
	return out
}

// leases gives the ids of the leases of the role orders.
func (v *vaultServer) leases(t *testing.T) (ids []string) {
	t.Helper()
	if v.dev != nil {
		for _, l := range v.dev.Leases() {
			ids = append(ids, l.ID)
		}
		return ids
	}
	const prefix = "database/creds/orders/"
	req, err := http.NewRequestWithContext(context.Background(), "LIST", v.address+"/v1/sys/leases/lookup/"+prefix, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Vault-Token", v.root)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var list struct{ Data struct{ Keys []string } }
	switch err := json.NewDecoder(resp.Body).Decode(&list); {
	case resp.StatusCode == http.StatusNotFound:
		return nil // none
	case err != nil || resp.StatusCode != http.StatusOK:
		t.Fatalf("listing the leases: %d %v", resp.StatusCode, err)
	}
	for _, k := range list.Data.Keys {
		ids = append(ids, prefix+k)
	}
	return ids
}

// must makes one call of the API as root.
func (v *vaultServer) must(t *testing.T, method, path string, body any) map[string]any {
	t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(context.Background(), method, v.address+"/v1/"+path, bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Vault-Token", v.root)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		t.Fatalf("%s %s: %d %s %v", method, path, resp.StatusCode, text, err)
	}
	var out map[string]any
	if len(text) > 0 {
		if err := json.Unmarshal(text, &out); err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
	}
	return out
}

const (
	loginRole   = `CREATE ROLE "{{name}}" WITH LOGIN PASSWORD '{{password}}' VALID UNTIL '{{expiration}}';`
	nologinRole = `CREATE ROLE "{{name}}" WITH NOLOGIN PASSWORD '{{password}}' VALID UNTIL '{{expiration}}';`
)

// role sets the database role up; the accounts it makes live for ttl, at most
// maxTTL.
func (v *vaultServer) role(t *testing.T, statement, ttl, maxTTL string) {
	t.Helper()
	v.must(t, "POST", "database/roles/orders", map[string]any{
		"db_name": "pg", "default_ttl": ttl, "max_ttl": maxTTL, "creation_statements": []string{statement},
	})
}

// setUp configures the database engine, the token role of guards and the
// service's own token, which may do what it needs and nothing else.
func (v *vaultServer) setUp(t *testing.T, dsn, ttl, maxTTL string) (token string) {
	t.Helper()
	v.must(t, "POST", "sys/mounts/database", map[string]any{"type": "database"})
	v.must(t, "POST", "database/config/pg", map[string]any{
		"plugin_name": "postgresql-database-plugin", "allowed_roles": "*", "connection_url": dsn,
	})
	v.role(t, loginRole, ttl, maxTTL)
	v.must(t, "PUT", "sys/policies/acl/guarded", map[string]any{"policy": `path "database/creds/*" { capabilities = ["read"] }`})
	v.must(t, "PUT", "sys/policies/acl/leasesvc", map[string]any{"policy": servicePolicy})
	v.must(t, "POST", "auth/token/roles/leasesvc", map[string]any{
		"orphan": true, "renewable": true, "allowed_policies": []string{"guarded"},
	})
	return v.serviceToken(t)
}

// serviceToken makes a token for the service, which may do what it needs and
// nothing else.
func (v *vaultServer) serviceToken(t *testing.T) string {
	t.Helper()
	out := v.must(t, "POST", "auth/token/create-orphan", map[string]any{"policies": []string{"leasesvc"}, "period": "1h"})
	auth, ok := out["auth"].(map[string]any)
	if !ok {
		t.Fatalf("no token came: %v", out)
	}
	return fmt.Sprint(auth["client_token"])
}

// servicePolicy is the least that the service needs.
const servicePolicy = `
path "auth/token/create/leasesvc" { capabilities = ["create", "update"] }
path "auth/token/lookup-self"     { capabilities = ["read"] }
path "auth/token/renew-self"      { capabilities = ["update"] }
path "auth/token/renew-accessor"  { capabilities = ["update"] }
path "auth/token/lookup-accessor" { capabilities = ["update"] }
path "auth/token/revoke-accessor" { capabilities = ["update"] }
path "sys/leases/lookup"          { capabilities = ["update"] }
path "sys/leases/renew"           { capabilities = ["update"] }
path "sys/leases/revoke"          { capabilities = ["update"] }
`

// await waits until ok holds, within a bound.
func await(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(within)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s", within, what)
		}
		<-time.After(20 * time.Millisecond)
	}
}
