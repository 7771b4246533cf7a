package service_test

import (
	"bytes"
	"cmp"
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
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/itest/pgtest"
	"github.com/leasesvc/leasesvc/secret"
	"github.com/leasesvc/leasesvc/service"
	"github.com/leasesvc/leasesvc/service/config"
	"github.com/leasesvc/leasesvc/vault"
)

// clinic is a Vault with three engines, whose policies are what a test makes
// them.
type clinic struct {
	t       *testing.T
	address string
	root    secret.String
	// setUp runs what vault-policy printed.
	setUp func(commands string)
	token string // of the service
}

// do makes a call as root.
func (c *clinic) do(method, path string, body any) map[string]any {
	c.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		c.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.address+"/v1/"+path, bytes.NewReader(b))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("X-Vault-Token", c.root.Reveal())
	resp, err := (&http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		c.t.Fatalf("%s %s: HTTP %d, %v: %s", method, path, resp.StatusCode, err, raw)
	}
	var out map[string]any
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &out); err != nil {
			c.t.Fatal(err)
		}
	}
	return out
}

// engines mounts what the definitions read.
func (c *clinic) engines(databaseURL string) {
	c.do("POST", "sys/mounts/database", map[string]any{"type": "database"})
	c.do("POST", "database/config/main", map[string]any{"plugin_name": "postgresql-database-plugin", "allowed_roles": "*", "connection_url": databaseURL})
	for _, role := range []string{"app", "other"} {
		c.do("POST", "database/roles/"+role, map[string]any{
			"db_name": "main", "default_ttl": "1h", "max_ttl": "24h",
			"creation_statements": []string{`CREATE ROLE "{{name}}" WITH LOGIN PASSWORD '{{password}}' VALID UNTIL '{{expiration}}';`},
		})
	}
	c.do("POST", "sys/mounts/pki", map[string]any{"type": "pki"})
	c.do("POST", "pki/root/generate/internal", map[string]any{"common_name": "ca", "ttl": "700h", "key_type": "ec"})
	c.do("POST", "pki/roles/web", map[string]any{"allow_any_name": true, "enforce_hostnames": false, "max_ttl": "2h", "key_type": "ec"})
	c.do("POST", "secret/data/mail", map[string]any{"data": map[string]any{"password": "s3cret-of-mail"}})
}

// newToken makes the service's token.
func (c *clinic) newToken(policy string) {
	out := c.do("POST", "auth/token/create-orphan", map[string]any{"policies": []string{policy}, "ttl": "1h", "renewable": true})
	c.token = out["auth"].(map[string]any)["client_token"].(string)
}

const clinicDefinitions = `revision: 1
leases:
  app: {path: database/creds/app, kind: postgresql}
  mail: {path: secret/data/mail, kind: kv}
  web: {path: pki/issue/web, kind: pki, params: {common_name: web.example.com}}
`

// configuration writes and reads the files of a service; more is for the Vault
// connection.
func (c *clinic) configuration(definitions, more string) *config.Config {
	c.t.Helper()
	dir := c.t.TempDir()
	seed, err := handover.NewSeed()
	if err != nil {
		c.t.Fatal(err)
	}
	for name, content := range map[string]string{
		"seal.key": seed.Reveal(), "definitions.yaml": definitions,
		"leasesvc.yaml": fmt.Sprintf("nats: {embedded: {listen: \"127.0.0.1:1\"}}\nstate_dir: state\nseal_key: {file: seal.key}\nscopes: {prod: {definitions: definitions.yaml}}\n"+
			"vaults: {main: {address: %q, token: %q, environment: false%s}}\n", c.address, cmp.Or(c.token, "none"), more),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
	cfg, err := config.Load(filepath.Join(dir, "leasesvc.yaml"))
	if err != nil {
		c.t.Fatal(err)
	}
	return cfg
}

func newDevClinic(t *testing.T) *clinic {
	root := secret.New(rand.Text())
	v, err := devvault.New(devvault.Config{RootToken: root})
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	c := &clinic{t: t, address: v.URL(), root: root}
	c.setUp = c.interpret
	c.engines("")
	return c
}

var (
	policyCommand = regexp.MustCompile(`(?ms)^bao policy write (\S+) - <<'EOF'\n(.*?)^EOF$`)
	writeCommand  = regexp.MustCompile(`(?m)^bao write (\S+) (.*)$`)
)

// interpret does what a shell with the program bao would.
func (c *clinic) interpret(commands string) {
	c.t.Helper()
	left := commands
	for _, m := range policyCommand.FindAllStringSubmatch(commands, -1) {
		c.do("PUT", "sys/policies/acl/"+m[1], map[string]any{"policy": m[2]})
		left = strings.Replace(left, m[0], "", 1)
	}
	for _, m := range writeCommand.FindAllStringSubmatch(left, -1) {
		body := map[string]any{}
		for _, pair := range strings.Fields(m[2]) {
			k, v, _ := strings.Cut(pair, "=")
			body[k] = v
		}
		c.do("POST", m[1], body)
		left = strings.Replace(left, m[0], "", 1)
	}
	for line := range strings.Lines(left) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			c.t.Errorf("a line that was not run: %s", line)
		}
	}
}

// newRealClinic starts a real server in memory, and has a shell run the commands.
func newRealClinic(t *testing.T, program string) *clinic {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listen := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	root, home := secret.New(rand.Text()), t.TempDir()
	env := []string{"HOME=" + home, "TMPDIR=" + home, "PATH=" + home + ":" + os.Getenv("PATH")}
	var out safeBuffer
	cmd := exec.Command(program, "server", "-dev", "-dev-no-store-token", "-dev-root-token-id="+root.Reveal(), "-dev-listen-address="+listen)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = env, &out, &out, 10*time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	c := &clinic{t: t, address: "http://" + listen, root: root}
	c.awaitUp(ended)
	if err := os.Symlink(program, filepath.Join(home, "bao")); err != nil {
		t.Fatal(err)
	}
	c.setUp = func(commands string) {
		t.Helper()
		sh := exec.CommandContext(t.Context(), "sh", "-eu")
		sh.Stdin = strings.NewReader(commands)
		sh.Env = append(slices.Clone(env), "BAO_ADDR="+c.address, "BAO_TOKEN="+root.Reveal())
		if said, err := sh.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s\n%s", err, said, commands)
		}
	}
	c.engines(pgtest.Start(t).DSN())
	return c
}

func (c *clinic) awaitUp(ended <-chan struct{}) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.address+"/v1/sys/mounts/secret/tune", nil)
		if err != nil {
			c.t.Fatal(err)
		}
		r.Header.Set("X-Vault-Token", c.root.Reveal())
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-tick.C:
		case <-ended:
			c.t.Fatal("the server ended")
		case <-ctx.Done():
			c.t.Fatal("the server is not up after 30 s")
		}
	}
}

// TestVaultPolicyWorks sets servers up by exactly what vault-policy prints, and
// does all that a service does: with guards, and with nothing else.
func TestVaultPolicyWorks(t *testing.T) {
	t.Run("devvault", func(t *testing.T) { policyWorks(t, newDevClinic(t)) })
	if program := os.Getenv("LEASESVC_TEST_BAO"); program != "" {
		t.Run("real", func(t *testing.T) { policyWorks(t, newRealClinic(t, program)) })
	}
}

func policyWorks(t *testing.T, c *clinic) {
	commands, err := service.VaultPolicy(c.configuration(clinicDefinitions, ""), "bao")
	if err != nil {
		t.Fatal(err)
	}
	c.setUp(commands)
	c.newToken("leasesvc")

	for _, f := range service.Examine(t.Context(), c.configuration(clinicDefinitions, "")) {
		if f.About == "vault main" && f.Verdict != service.VerdictOK {
			t.Errorf("the doctor finds: %+v", f)
		}
	}
	client, err := vault.New(vault.Config{Name: "main", Address: c.address, Token: secret.New(c.token), GuardRole: "leasesvc"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.Login(t.Context()); err != nil {
		t.Fatal(err)
	}
	for path, opts := range map[string]vault.ReadOptions{
		"database/creds/app": {}, "secret/data/mail": {KVv2: true},
		"pki/issue/web": {PKI: true, Method: "POST", Params: map[string]any{"common_name": "web.example.com"}},
	} {
		acquired(t, client, path, opts)
		if _, err := client.Read(t.Context(), path, nil, opts); vault.KindOf(err) != vault.KindPermission {
			t.Errorf("%s without a guard: %v", path, err)
		}
	}
	guard, err := client.CreateGuard(t.Context(), vault.GuardOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Read(t.Context(), "database/creds/other", &guard, vault.ReadOptions{}); vault.KindOf(err) != vault.KindPermission {
		t.Errorf("a path that no definition names: %v", err)
	}
	if _, err := client.RevokeGuard(t.Context(), guard.Accessor); err != nil {
		t.Error(err)
	}
}

// acquired takes a credential as the service does, keeps it and gives it back.
func acquired(t *testing.T, client *vault.Client, path string, opts vault.ReadOptions) {
	t.Helper()
	ctx := t.Context()
	guard, err := client.CreateGuard(ctx, vault.GuardOptions{})
	if err != nil {
		t.Fatal(err)
	}
	grant, err := client.Read(ctx, path, &guard, opts)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if extension, err := client.ExtendGuard(ctx, guard.Accessor, 2*time.Hour); err != nil || extension.TTL != 2*time.Hour {
		t.Errorf("%s: the guard was extended by %s, %v", path, extension.TTL, err)
	}
	if grant.LeaseID != "" {
		if r, err := client.RenewLease(ctx, grant.LeaseID, time.Hour); err != nil || r.TTL.IsZero() {
			t.Errorf("%s: renewed by %s, %v", path, r.TTL, err)
		}
		if _, err := client.RevokeLease(ctx, grant.LeaseID, vault.Verified()); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	} else if path == "database/creds/app" {
		t.Errorf("%s: no lease", path)
	}
	if _, err := client.RevokeGuard(ctx, guard.Accessor); err != nil {
		t.Errorf("%s: %v", path, err)
	}
}
