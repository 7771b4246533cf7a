package service_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/epochkv"
	"github.com/leasesvc/leasesvc/internal/natstest"
	"github.com/leasesvc/leasesvc/secret"
	"github.com/leasesvc/leasesvc/service"
	"github.com/leasesvc/leasesvc/service/config"
)

// healthy gives a Vault that is set up as vault-policy says, and its server.
func healthy(t *testing.T, cfg devvault.Config) (*clinic, *devvault.Server) {
	t.Helper()
	cfg.RootToken = secret.New(rand.Text())
	v, err := devvault.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	c := &clinic{t: t, address: v.URL(), root: cfg.RootToken}
	c.engines("")
	commands, err := service.VaultPolicy(c.configuration(clinicDefinitions, ""), "bao")
	if err != nil {
		t.Fatal(err)
	}
	c.interpret(commands)
	c.newToken("leasesvc")
	return c, v
}

// TestDoctorFindsWhatIsWrongInVault: each fault alone, with what to do, and
// nothing else beside it.
func TestDoctorFindsWhatIsWrongInVault(t *testing.T) {
	role := func(settings string) func(*clinic, *devvault.Server) {
		return func(c *clinic, _ *devvault.Server) {
			c.interpret("bao write auth/token/roles/leasesvc allowed_policies=leasesvc-guard " + settings + "\n")
		}
	}
	token := func(body map[string]any) func(*clinic, *devvault.Server) {
		return func(c *clinic, _ *devvault.Server) {
			body["policies"] = []string{"leasesvc"}
			c.token = c.do("POST", "auth/token/create-orphan", body)["auth"].(map[string]any)["client_token"].(string)
		}
	}
	policy := func(name, text string) func(*clinic, *devvault.Server) {
		return func(c *clinic, _ *devvault.Server) {
			c.do("PUT", "sys/policies/acl/"+name, map[string]any{"policy": text})
		}
	}
	for name, try := range map[string]struct {
		cfg     devvault.Config
		harm    func(*clinic, *devvault.Server)
		verdict service.Verdict
		check   string
		says    string
		do      string
	}{
		"explicit max TTL":  {harm: role("orphan=true renewable=true token_explicit_max_ttl=90s"), check: "guard", says: "token_explicit_max_ttl=0", do: "vault-policy"},
		"period":            {harm: role("orphan=true renewable=true token_period=60s"), check: "guard", says: "token_period=0", do: "vault-policy"},
		"no orphan":         {harm: role("orphan=false renewable=true"), check: "guard", says: "orphan=true", do: "vault-policy"},
		"batch guards":      {harm: role("orphan=true token_type=batch renewable=false"), check: "guard", says: "token_type=service", do: "vault-policy"},
		"sealed":            {harm: func(_ *clinic, v *devvault.Server) { v.Seal() }, check: "health", says: "sealed", do: "unseal it"},
		"use limit":         {harm: token(map[string]any{"num_uses": 100}), check: "login", says: "use limit"},
		"can't be renewed":  {harm: token(map[string]any{"renewable": false, "ttl": "1h"}), check: "token", says: "not renewable", do: "configure a login"},
		"no right on path":  {harm: policy("leasesvc-guard", `path "sys/capabilities-self" { capabilities = ["update"] } path "pki/issue/web" { capabilities = ["update"] } path "database/creds/app" { capabilities = ["read"] }`), check: "path secret/data/mail", says: "does not allow read", do: "vault-policy"},
		"only read of PKI":  {harm: policy("leasesvc-guard", `path "sys/capabilities-self" { capabilities = ["update"] } path "pki/issue/web" { capabilities = ["read"] } path "database/creds/app" { capabilities = ["read"] } path "secret/data/mail" { capabilities = ["read"] }`), check: "path pki/issue/web", says: "does not allow update", do: "vault-policy"},
		"can't ask":         {harm: policy("leasesvc-guard", `path "secret/data/mail" { capabilities = ["read"] }`), verdict: service.VerdictUnchecked, check: "paths", says: "can't be asked", do: "sys/capabilities-self"},
		"guards forbidden":  {harm: policy("leasesvc", `path "auth/token/lookup-self" { capabilities = ["read"] } path "sys/leases/*" { capabilities = ["update"] }`), check: "guard", says: "guards are forbidden", do: "vault-policy"},
		"no revocation":     {harm: policy("leasesvc", `path "auth/token/*" { capabilities = ["create", "update", "read"] }`), check: "lease rights", says: "sys/leases/revoke", do: "vault-policy"},
		"clock":             {cfg: devvault.Config{Clock: func() time.Time { return time.Now().Add(time.Hour) }}, check: "clock", says: "behind the server's", do: "NTP"},
		"nothing is served": {harm: func(_ *clinic, v *devvault.Server) { v.Close() }, check: "health", says: "unreachable", do: "check the address"},
	} {
		t.Run(name, func(t *testing.T) {
			c, v := healthy(t, try.cfg)
			if try.harm != nil {
				try.harm(c, v)
			}
			if try.verdict == "" {
				try.verdict = service.VerdictProblem
			}
			found := false
			all := service.Examine(t.Context(), c.configuration(clinicDefinitions, ""))
			for _, f := range all {
				hit := f.About == "vault main" && f.Check == try.check && f.Verdict == try.verdict && strings.Contains(f.Says, try.says) && strings.Contains(f.Do, try.do)
				found = found || hit
				if f.Verdict == service.VerdictProblem && f.About == "vault main" && f.Check != try.check {
					t.Errorf("a problem beside it: %+v", f)
				}
				if s := fmt.Sprint(f); strings.Contains(s, c.token) || strings.Contains(s, c.root.Reveal()) {
					t.Errorf("%s shows a token", f.Check)
				}
			}
			if !found {
				t.Errorf("not found among %+v", all)
			}
		})
	}
}

func TestDoctorReadsNoCredentialAndLeavesNothing(t *testing.T) {
	c, v := healthy(t, devvault.Config{})
	before := len(v.Tokens())
	for _, f := range service.Examine(t.Context(), c.configuration(clinicDefinitions, "")) {
		if f.About == "vault main" && f.Verdict != service.VerdictOK {
			t.Errorf("%+v", f)
		}
	}
	for path, method := range map[string]string{"database/creds/app": "", "secret/data/mail": "GET", "pki/issue/web": ""} {
		if n := v.Count(method, path); n > 0 {
			t.Errorf("%s was read %d times", path, n)
		}
	}
	if n := v.Count("", "sys/capabilities-self"); n == 0 {
		t.Error("no request was counted at all")
	}
	if after := len(v.Tokens()); after != before || len(v.Leases()) > 0 {
		t.Errorf("%d tokens became %d, %d leases", before, after, len(v.Leases()))
	}
}

func TestDoctorGivesALoginsTokenBack(t *testing.T) {
	c, v := healthy(t, devvault.Config{})
	c.do("POST", "sys/auth/approle", map[string]any{"type": "approle"})
	c.do("POST", "auth/approle/role/leasesvc", map[string]any{"token_policies": "leasesvc", "bind_secret_id": false, "secret_id_bound_cidrs": []string{"127.0.0.0/8"}, "token_bound_cidrs": []string{"127.0.0.0/8"}})
	role := c.do("GET", "auth/approle/role/leasesvc/role-id", nil)["data"].(map[string]any)["role_id"].(string)
	before := len(v.Tokens())
	cfg := c.configuration(clinicDefinitions, "")
	main := cfg.Vaults["main"]
	main.Token = secret.String{}
	cfg.Vaults["main"] = main
	file := filepath.Join(t.TempDir(), "role-id")
	if err := os.WriteFile(file, []byte(role), 0o600); err != nil {
		t.Fatal(err)
	}
	main.Login.AppRole = appRole(file)
	cfg.Vaults["main"] = main
	loggedIn := false
	for _, f := range service.Examine(t.Context(), cfg) {
		if f.About != "vault main" {
			continue
		}
		if f.Verdict != service.VerdictOK {
			t.Errorf("%+v", f)
		}
		loggedIn = loggedIn || f.Check == "login" && strings.Contains(f.Says, "AppRole")
	}
	if after := len(v.Tokens()); !loggedIn || after != before {
		t.Errorf("logged in: %v; %d tokens became %d", loggedIn, before, after)
	}
}

func TestDoctorFindsWhatIsWrongInNATS(t *testing.T) {
	ns := natstest.Start(t)
	js := ns.JS(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c, _ := healthy(t, devvault.Config{})
	cfg := c.configuration(clinicDefinitions, "")
	cfg.NATS.Embedded, cfg.NATS.URL = nil, ns.URL()

	for _, f := range service.Examine(ctx, cfg) {
		if f.Verdict == service.VerdictProblem {
			t.Errorf("before anything is there: %+v", f)
		}
	}
	if info, err := js.AccountInfo(ctx); err != nil || info.Streams != 0 {
		t.Fatalf("the doctor made %d streams, %v", info.Streams, err)
	}

	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "LEASESVC", Subjects: []string{"lease.>"}, MaxAge: time.Hour}); err != nil {
		t.Fatal(err)
	}
	bucket := epochkv.StreamConfig(epochkv.DefaultBucket, 1)
	bucket.AllowDirect = true
	if _, err := js.CreateStream(ctx, bucket); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, f := range service.Examine(ctx, cfg) {
		if f.Verdict == service.VerdictProblem {
			found[f.Check] += f.Says + " -> " + f.Do + "\n"
		}
	}
	if says := found["stream settings"]; !strings.Contains(says, "max_age") || !strings.Contains(says, "administrator") {
		t.Errorf("of the stream it says %q", says)
	}
	if says := found["bucket"]; !strings.Contains(says, "allow_direct is true, want false") {
		t.Errorf("of the bucket it says %q", says)
	}
	if len(found) != 2 {
		t.Errorf("it finds %v", found)
	}
}

func appRole(file string) *config.AppRole { return &config.AppRole{Mount: "approle", RoleIDFile: file} }
