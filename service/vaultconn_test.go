package service

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/service/config"
)

// TestC24_DeadTokensSayNothingOfThePolicy: one login after the other has its token
// taken away, and each time the check of guards comes before the next login. That is
// no policy that forbids guards, and nothing is acquired without one.
func TestC24_DeadTokensSayNothingOfThePolicy(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server, err := devvault.New(devvault.Config{Accounts: &devvault.Directory{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	do := func(method, path string, body any) map[string]any {
		t.Helper()
		out, err := server.Do(ctx, method, path, body)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		return out
	}
	do("POST", "auth/token/roles/leasesvc", map[string]any{"orphan": true, "renewable": true})
	do("POST", "sys/auth/approle", map[string]any{"type": "approle"})
	do("PUT", "sys/policies/acl/all", map[string]any{"policy": `path "*" { capabilities = ["create", "read", "update", "delete", "list", "sudo"] }`})
	do("POST", "auth/approle/role/svc", map[string]any{"bind_secret_id": false, "token_bound_cidrs": "127.0.0.0/8", "token_policies": []string{"all"}, "token_ttl": "1h"})
	dir := t.TempDir()
	role := do("GET", "auth/approle/role/svc/role-id", nil)["data"].(map[string]any)["role_id"].(string)
	for name, text := range map[string]string{"role-id": role, "definitions.yaml": "revision: 1\nleases: {}\n", "seal.key": "-"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := config.Parse(filepath.Join(dir, "leasesvc.yaml"), fmt.Appendf(nil, `
nats: {url: "nats://127.0.0.1:4222"}
state_dir: state
seal_key: {file: seal.key}
vaults: {main: {address: %q, environment: false, login: {approle: {role_id_file: role-id}}}}
scopes: {prod: {definitions: definitions.yaml}}
`, server.URL()))
	if err != nil {
		t.Fatal(err)
	}
	v, err := newVaultConn("main", cfg.Vaults["main"], slog.New(slog.DiscardHandler), func() {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.client.Close)
	login := func() {
		t.Helper()
		if err := v.client.Login(ctx); err != nil {
			t.Fatal(err)
		}
	}
	login()
	if !v.checkGuards(ctx) || !v.guarded() {
		t.Fatal("guards are not said to hold")
	}
	for cycle := range 3 {
		for _, token := range server.Tokens() {
			if token.Path == "auth/approle/login" {
				do("POST", "auth/token/revoke-accessor", map[string]any{"accessor": token.Accessor})
			}
		}
		if v.checkGuards(ctx) {
			t.Errorf("cycle %d: a dead token is said to tell whether guards can be made", cycle)
		}
		if !v.guarded() {
			t.Fatalf("cycle %d: acquisitions are made without guards: %s", cycle, v.withoutGuards())
		}
		login()
	}
	if !v.checkGuards(ctx) || !v.guarded() {
		t.Error("guards are not said to hold in the end")
	}
}
