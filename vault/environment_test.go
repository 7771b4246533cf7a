package vault

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/secret"
)

// env is an environment to look up.
type env map[string]string

func (e env) lookup(name string) (string, bool) { v, ok := e[name]; return v, ok }

func TestEnvironmentOverAConfiguration(t *testing.T) {
	file := Config{
		Name: "default", Address: "https://from-file:8200", Namespace: "file-ns", TokenFile: "/file/token", OpTimeout: time.Second,
		TLS: TLS{CACert: "/file/ca.pem", ClientCert: "/file/cert.pem", ClientKey: "/file/key.pem", ServerName: "file.name"},
	}
	for _, prefix := range []string{"VAULT_", "BAO_"} {
		e := env{}
		for k, v := range map[string]string{
			"ADDR": "https://from-env:8200", "NAMESPACE": "env-ns", "CACERT_BYTES": "PEM", "CLIENT_CERT": "/env/cert.pem", "CLIENT_KEY": "/env/key.pem",
			"TLS_SERVER_NAME": "env.name", "SKIP_VERIFY": "true", "CLIENT_TIMEOUT": "7", "MAX_RETRIES": "4", "TOKEN": " hvs.Fr0mEnv\n", "RATE_LIMIT": "1:1", "WRAP_TTL": "1m",
		} {
			e[prefix+k] = v
		}
		o, err := Environment(e.lookup)
		if err != nil {
			t.Fatal(err)
		}
		got := file.Override(o)
		want := TLS{CACertPEM: "PEM", ClientCert: "/env/cert.pem", ClientKey: "/env/key.pem", ServerName: "env.name", SkipVerify: true}
		if got.Address != "https://from-env:8200" || got.Namespace != "env-ns" || got.TLS != want || got.OpTimeout != 7*time.Second || got.Retries != 4 ||
			got.Token.Reveal() != "hvs.Fr0mEnv" || got.TokenFile != "" || got.Name != "default" {
			t.Errorf("%s: %+v", prefix, got)
		}
		if strings.Join(o.Ignored, " ") != prefix+"WRAP_TTL "+prefix+"RATE_LIMIT" {
			t.Errorf("ignored: %v", o.Ignored)
		}
		if c, err := New(func() Config { g := got; g.TLS = TLS{}; return g }()); err != nil {
			t.Error(err)
		} else if _, source, err := c.readToken(); err != nil || source != prefix+"TOKEN" {
			t.Errorf("the token's source is %q, %v", source, err)
		}
		// Flags over the environment.
		flag := "https://from-flag:8200"
		if got := file.Override(o).Override(Overrides{Address: &flag}); got.Address != flag || got.Namespace != "env-ns" {
			t.Errorf("with a flag: %+v", got)
		}
	}
	o, err := Environment(env{}.lookup)
	if err != nil {
		t.Fatal(err)
	}
	if got := file.Override(o); got.Address != file.Address || got.TLS != file.TLS || got.TokenFile != file.TokenFile || got.OpTimeout != file.OpTimeout {
		t.Errorf("an empty environment changed something: %+v", got)
	}
}

func TestEnvironmentBaoWinsAsInOpenBao(t *testing.T) {
	o, err := Environment(env{"BAO_ADDR": "http://bao", "VAULT_ADDR": "http://vault", "BAO_NAMESPACE": "", "VAULT_NAMESPACE": "vault-ns", "VAULT_CLIENT_TIMEOUT": "1m30s"}.lookup)
	if err != nil {
		t.Fatal(err)
	}
	if *o.Address != "http://bao" || *o.Timeout != 90*time.Second {
		t.Errorf("%s %s", *o.Address, *o.Timeout)
	}
	if o.Namespace != nil {
		t.Error("an empty BAO_NAMESPACE does not hide VAULT_NAMESPACE")
	}
}

func TestEnvironmentTokenReplacesALogin(t *testing.T) {
	o, err := Environment(env{"VAULT_TOKEN": "hvs.Fr0mEnv"}.lookup)
	if err != nil {
		t.Fatal(err)
	}
	got := Config{Name: "default", Address: "http://127.0.0.1:1", Login: appRole("r")}.Override(o)
	if got.Login.AppRole != nil || got.Token.Reveal() != "hvs.Fr0mEnv" {
		t.Error("the login of the file stays")
	}
	if _, err := New(got); err != nil {
		t.Error(err)
	}
}

func TestEnvironmentErrorsNameTheVariable(t *testing.T) {
	for name, value := range map[string]string{
		"BAO_SKIP_VERIFY": "hunter2", "VAULT_SKIP_VERIFY": "hunter2", "VAULT_CLIENT_TIMEOUT": "hunter2", "BAO_CLIENT_TIMEOUT": "-1", "VAULT_MAX_RETRIES": "hunter2", "BAO_MAX_RETRIES": "-1",
	} {
		_, err := Environment(env{name: value}.lookup)
		if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"BAO_ADDR": "no-url", "VAULT_ADDR": "http://u:hunter2@h", "VAULT_NAMESPACE": "a b", "BAO_CACERT": filepath.Join(dir, "absent"), "BAO_CACERT_BYTES": "hunter2",
		"BAO_CAPATH": dir, "BAO_CLIENT_CERT": empty, "BAO_CLIENT_KEY": empty,
	} {
		o, err := Environment(env{name: value}.lookup)
		if err != nil {
			t.Fatal(err)
		}
		_, err = New(Config{Name: "default", Address: "http://127.0.0.1:1"}.Override(o))
		if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
	o, err := Environment(env{"BAO_CLIENT_CERT": empty, "BAO_CLIENT_KEY": empty, "BAO_MAX_RETRIES": "99"}.lookup)
	if err != nil || o.Origins["client"] != "BAO_CLIENT_CERT and BAO_CLIENT_KEY" || *o.Retries != maxRetries {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestAuthoritiesOfADirectoryAndOfAText(t *testing.T) {
	ca := newAuthorityCert(t)
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "c.pem"), filepath.Join(dir, "k.pem")
	ca.issue(t, "client", certFile, keyFile)
	o := newOffice(time.Hour, 0)
	o.expires[plainToken] = time.Now().Add(time.Hour)
	url, caFile := ca.server(t, o)
	text, err := os.ReadFile(caFile)
	if err != nil {
		t.Fatal(err)
	}
	mounted := t.TempDir() // as Kubernetes mounts a volume
	if err := os.MkdirAll(filepath.Join(mounted, "..data"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"..data/ca.pem": string(text), "README": "no certificate", ".hidden": ""} {
		if err := os.WriteFile(filepath.Join(mounted, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join("..data", "ca.pem"), filepath.Join(mounted, "ca.pem")); err != nil {
		t.Fatal(err)
	}
	for name, with := range map[string]TLS{"text": {CACertPEM: string(text)}, "directory": {CAPath: mounted}} {
		with.ClientCert, with.ClientKey = certFile, keyFile
		c, err := New(Config{Name: "main", Address: url, Token: secret.New(plainToken), TLS: with})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		if err := c.Login(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMaxRetriesNeverCountsForReadsAndGuards: the variable that users set for
// everything is not for what makes credentials (P5, C30).
func TestC30_MaxRetriesNeverCountsForReadsAndGuards(t *testing.T) {
	f := newFake(t, says(500, `{"errors":["internal error"]}`))
	o, err := Environment(env{"VAULT_MAX_RETRIES": "2"}.lookup)
	if err != nil {
		t.Fatal(err)
	}
	c := f.client(t, func(cfg *Config) { *cfg = cfg.Override(o) })
	_, e1 := c.Read(t.Context(), "db/creds/app", testGuard(), ReadOptions{})
	_, e2 := c.CreateGuard(t.Context(), GuardOptions{})
	wantKind(t, e1, KindTransient)
	wantKind(t, e2, KindTransient)
	if a, b := len(f.requests("creds")), len(f.requests("create")); a != 1 || b != 1 {
		t.Errorf("%d reads and %d guards were asked for", a, b)
	}
	_, err = c.RenewLease(t.Context(), "l", time.Hour)
	wantKind(t, err, KindTransient)
	if n := len(f.requests("renew")); n != 3 {
		t.Errorf("a renewal was sent %d times, 3 were to be", n)
	}
	for _, once := range []int{403, 404, 429} {
		f := newFake(t, says(once, `{"errors":["no"]}`))
		c := f.client(t, func(cfg *Config) { cfg.Retries = 3 })
		_, _ = c.RenewLease(t.Context(), "l", time.Hour)
		if n := len(f.requests("renew")); n != 1 {
			t.Errorf("after a %d a renewal was sent %d times", once, n)
		}
	}
}

func ExampleEnvironment() {
	set := map[string]string{"VAULT_ADDR": "https://vault.example.com:8200", "BAO_SKIP_VERIFY": "perhaps"}
	_, err := Environment(func(name string) (string, bool) { v, ok := set[name]; return v, ok })
	fmt.Println(err)
	delete(set, "BAO_SKIP_VERIFY")
	o, _ := Environment(func(name string) (string, bool) { v, ok := set[name]; return v, ok })
	fmt.Println(Config{Name: "default", Address: "https://127.0.0.1:8200"}.Override(o).Address)
	// Output:
	// BAO_SKIP_VERIFY: it must be true or false
	// https://vault.example.com:8200
}
