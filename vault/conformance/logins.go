package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/secret"
	"github.com/leasesvc/leasesvc/vault"
)

func value(s string) vault.Source { return vault.Source{Value: secret.New(s)} }

// login makes a client that logs in with l, and is not logged in.
func (a *admin) login(t *testing.T, l vault.Login, with ...func(*vault.Config)) *vault.Client {
	t.Helper()
	return a.stranger(t, append([]func(*vault.Config){func(cfg *vault.Config) { cfg.Login = l }}, with...)...)
}

// works does with c what needs a token of the service's policy.
func (a *admin) works(t *testing.T, c *vault.Client) {
	t.Helper()
	if err := c.Login(t.Context()); err != nil {
		t.Error(err)
		return
	}
	if s := c.Token(); !s.LoggedIn || s.TTL.IsZero() || !s.Renewable {
		t.Errorf("after the login: %+v", s)
	}
	got := a.acquire(t, c, "app", time.Minute)
	a.giveBack(t, c, got)
	if err := c.Logout(t.Context()); err != nil || c.Token().LoggedIn {
		t.Errorf("log out: %v", err)
	}
}

// appRole mounts AppRole with a role, and gives its mount and role id.
func (a *admin) appRole(t *testing.T, name string, with map[string]any) (mount, roleID string) {
	t.Helper()
	mount = "conf-" + name + "-" + a.suffix
	a.mount(t, "auth/"+mount, "approle", nil)
	body := map[string]any{"token_policies": a.policy("service"), "token_ttl": "10m", "token_max_ttl": "1h", "token_no_default_policy": true}
	for k, v := range with {
		body[k] = v
	}
	role := "auth/" + mount + "/role/app"
	a.must(t, "POST", role, body)
	return mount, a.field(t, "GET", role+"/role-id", nil, "data", "role_id")
}

func (a *admin) secretID(t *testing.T, mount string) string {
	t.Helper()
	return a.field(t, "POST", "auth/"+mount+"/role/app/secret-id", map[string]any{}, "data", "secret_id")
}

func testAppRole(t *testing.T, a *admin) {
	mount, roleID := a.appRole(t, "approle", nil)
	secretID := a.secretID(t, mount)
	dir := t.TempDir()
	idFile, secretFile := filepath.Join(dir, "role-id"), filepath.Join(dir, "secret-id")
	write(t, idFile, roleID+"\n")
	write(t, secretFile, secretID+"\n")
	a.works(t, a.login(t, vault.Login{AppRole: &vault.AppRole{Mount: mount, RoleID: value(roleID), SecretID: value(secretID)}}))
	files := a.login(t, vault.Login{AppRole: &vault.AppRole{Mount: mount, RoleID: vault.Source{File: idFile}, SecretID: vault.Source{File: secretFile}}})
	a.works(t, files)
	for name, role := range map[string]*vault.AppRole{
		"an unknown role id":   {Mount: mount, RoleID: value("aaaaaaaa-0000-0000-0000-000000000000"), SecretID: value(secretID)},
		"an unknown secret id": {Mount: mount, RoleID: value(roleID), SecretID: value("bbbbbbbb-1111-0000-0000-000000000000")},
		"no secret id":         {Mount: mount, RoleID: value(roleID)},
	} {
		err := a.login(t, vault.Login{AppRole: role}).Login(t.Context())
		wantKind(t, name, err, vault.KindPermission)
		if err != nil && (strings.Contains(err.Error(), secretID) || strings.Contains(err.Error(), "bbbbbbbb-1111")) {
			t.Errorf("%s: the error repeats the secret id", name)
		}
	}
	a.must(t, "POST", "auth/"+mount+"/role/app/secret-id/destroy", map[string]any{"secret_id": secretID})
	wantKind(t, "a destroyed secret id", files.Login(t.Context()), vault.KindPermission)
	write(t, secretFile, a.secretID(t, mount))
	a.works(t, files)

	limited, limitedID := a.appRole(t, "limited", map[string]any{"token_num_uses": 3})
	err := a.login(t, vault.Login{AppRole: &vault.AppRole{Mount: limited, RoleID: value(limitedID), SecretID: value(a.secretID(t, limited))}}).Login(t.Context())
	if !errors.Is(err, vault.ErrUseLimited) {
		t.Errorf("C25: a role with token_num_uses: %v", err)
	}
	batch, batchID := a.appRole(t, "batch", map[string]any{"token_type": "batch"})
	c := a.login(t, vault.Login{AppRole: &vault.AppRole{Mount: batch, RoleID: value(batchID), SecretID: value(a.secretID(t, batch))}})
	if err := c.Login(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateGuard(t.Context(), vault.GuardOptions{}); !errors.Is(err, vault.ErrGuardForbidden) {
		t.Errorf("a guard made by a batch token: %v", err)
	}
}

// testAppRoleCycles lets Run carry a login over max TTL twice (C24), while a
// lease under a guard lives on.
func testAppRoleCycles(t *testing.T, a *admin) {
	mount, roleID := a.appRole(t, "cycles", map[string]any{"token_ttl": "6s", "token_max_ttl": "9s"})
	c := a.login(t, vault.Login{AppRole: &vault.AppRole{Mount: mount, RoleID: value(roleID), SecretID: value(a.secretID(t, mount))}})
	if err := c.Login(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := a.acquire(t, c, "app", time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	eventually(t, "two more logins, the lease there and renewable all the while", func() bool {
		if _, err := c.RenewLease(t.Context(), got.grant.LeaseID, time.Hour); err != nil {
			t.Fatalf("with the token of login %d: %v", c.Token().Logins, err)
		}
		return c.Token().Logins >= 3
	})
	if !a.exists(t, got.user) {
		t.Error("the lease under the guard died with a token before")
	}
	// The token is taken away behind our back: a 403, and another login.
	before := c.Token().Logins
	a.must(t, "POST", "sys/leases/revoke-prefix/auth/"+mount, nil)
	eventually(t, "a token is in force again", func() bool {
		_, err := c.RenewLease(t.Context(), got.grant.LeaseID, time.Hour)
		return err == nil && c.Token().Logins > before
	})
	a.giveBack(t, c, got)
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
}

func testWrappedSecretID(t *testing.T, a *admin) {
	mount, roleID := a.appRole(t, "wrapped", nil)
	wrap := func(method, path string, body any) string {
		t.Helper()
		status, answer := a.sendWith(t, method, path, body, map[string]string{"X-Vault-Wrap-TTL": "60s"})
		var doc struct {
			Wrap struct{ Token string } `json:"wrap_info"`
		}
		if err := json.Unmarshal(answer, &doc); err != nil || doc.Wrap.Token == "" {
			t.Fatalf("wrapping %s: HTTP %d, no token (%v)", path, status, err)
		}
		return doc.Wrap.Token
	}
	secretIDPath := "auth/" + mount + "/role/app/secret-id"
	file := filepath.Join(t.TempDir(), "wrapped")
	role := &vault.AppRole{Mount: mount, RoleID: value(roleID), SecretID: vault.Source{File: file}, Wrapped: true}
	first := wrap("POST", secretIDPath, map[string]any{})
	write(t, file, first)
	c := a.login(t, vault.Login{AppRole: role})
	a.works(t, c)
	a.works(t, c) // from memory
	stranger := a.login(t, vault.Login{AppRole: role})
	if err := stranger.Login(t.Context()); !errors.Is(err, vault.ErrWrapping) || strings.Contains(err.Error(), first) {
		t.Errorf("a wrapping token that was used: %v", err)
	}
	elsewhere := wrap("POST", "sys/wrapping/wrap", map[string]any{"secret_id": "planted"})
	write(t, file, elsewhere)
	if err := c.Login(t.Context()); !errors.Is(err, vault.ErrWrapping) || !strings.Contains(err.Error(), "sys/wrapping/wrap") {
		t.Errorf("a wrapping token that was made elsewhere: %v", err)
	}
	if status, _ := a.send(t, "POST", "sys/wrapping/lookup", map[string]any{"token": elsewhere}); status != 200 {
		t.Errorf("refusing it used it up: HTTP %d", status)
	}
	write(t, file, wrap("POST", secretIDPath, map[string]any{}))
	a.works(t, stranger)
}

func testJWT(t *testing.T, a *admin) {
	mount := "conf-jwt-" + a.suffix
	a.mount(t, "auth/"+mount, "jwt", nil)
	key := newSigner(t)
	a.must(t, "POST", "auth/"+mount+"/config", map[string]any{"jwt_validation_pubkeys": []string{key.public}, "bound_issuer": "https://issuer.example"})
	a.must(t, "POST", "auth/"+mount+"/role/app", map[string]any{
		"role_type": "jwt", "user_claim": "sub", "bound_audiences": []string{"leasesvc"},
		"token_policies": a.policy("service"), "token_ttl": "10m", "token_max_ttl": "1h", "token_no_default_policy": true,
	})
	claims := func(audience string, expires time.Duration) map[string]any {
		now := time.Now()
		return map[string]any{"iss": "https://issuer.example", "sub": "job-1", "aud": audience, "iat": now.Add(-time.Minute).Unix(), "nbf": now.Add(-time.Minute).Unix(), "exp": now.Add(expires).Unix()}
	}
	file := filepath.Join(t.TempDir(), "jwt")
	write(t, file, key.sign(t, claims("leasesvc", time.Hour)))
	c := a.login(t, vault.Login{JWT: &vault.JWT{Mount: mount, Role: "app", Token: vault.Source{File: file}}})
	a.works(t, c)
	for name, jwt := range map[string]string{
		"for another audience": key.sign(t, claims("other", time.Hour)),
		"out of date":          key.sign(t, claims("leasesvc", -time.Hour)),
		"of another key":       newSigner(t).sign(t, claims("leasesvc", time.Hour)),
		"no JWT":               "not-a-jwt",
	} {
		write(t, file, jwt)
		err := c.Login(t.Context())
		wantKind(t, name, err, vault.KindPermission)
		if err != nil && strings.Contains(err.Error(), jwt) {
			t.Errorf("%s: the error repeats the JWT", name)
		}
	}
	write(t, file, key.sign(t, claims("leasesvc", time.Hour)))
	a.works(t, c)
}

func testKubernetes(t *testing.T, a *admin) {
	mount := "conf-k8s-" + a.suffix
	a.mount(t, "auth/"+mount, "kubernetes", nil)
	key := newSigner(t)
	api := a.newTokenReviews(t)
	a.must(t, "POST", "auth/"+mount+"/config", map[string]any{"kubernetes_host": api.URL, "kubernetes_ca_cert": api.ca, "token_reviewer_jwt": key.sign(t, serviceAccount("reviewer")), "disable_local_ca_jwt": true, "disable_iss_validation": true})
	a.must(t, "POST", "auth/"+mount+"/role/app", map[string]any{
		"bound_service_account_names": "app", "bound_service_account_namespaces": "prod", "audience": "",
		"token_policies": a.policy("service"), "token_ttl": "10m", "token_max_ttl": "1h", "token_no_default_policy": true,
	})
	file := filepath.Join(t.TempDir(), "token")
	jwt := key.sign(t, serviceAccount("app"))
	write(t, file, jwt)
	api.accept(jwt, "app")
	c := a.login(t, vault.Login{Kubernetes: &vault.Kubernetes{Mount: mount, Role: "app", TokenFile: file}})
	a.works(t, c)
	// The pod's token is replaced, and the one before no longer taken.
	api.accept(jwt, "")
	wantKind(t, "a token that the cluster no longer takes", c.Login(t.Context()), vault.KindPermission)
	jwt = key.sign(t, serviceAccount("app"))
	write(t, file, jwt)
	api.accept(jwt, "app")
	a.works(t, c)
	other := key.sign(t, serviceAccount("other"))
	write(t, file, other)
	api.accept(other, "other")
	wantKind(t, "another service account", c.Login(t.Context()), vault.KindPermission)
}

func testCert(t *testing.T, a *admin) {
	mount := "conf-cert-" + a.suffix
	a.mount(t, "auth/"+mount, "cert", nil)
	ca := newClientCA(t)
	a.must(t, "POST", "auth/"+mount+"/certs/app", map[string]any{
		"certificate": ca.pem, "allowed_common_names": "app", "token_policies": a.policy("service"), "token_ttl": "6s", "token_max_ttl": "1h", "token_no_default_policy": true,
	})
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	with := func(cfg *vault.Config) { cfg.TLS.ClientCert, cfg.TLS.ClientKey = certFile, keyFile }
	ca.issue(t, "app", certFile, keyFile)
	c := a.login(t, vault.Login{Cert: &vault.Cert{Mount: mount, Role: "app"}}, with)
	a.works(t, c)
	a.works(t, a.login(t, vault.Login{Cert: &vault.Cert{Mount: mount}}, with))
	ca.issue(t, "stranger", certFile, keyFile)
	wantKind(t, "a certificate with another name", c.Login(t.Context()), vault.KindPermission)
	newClientCA(t).issue(t, "app", certFile, keyFile)
	wantKind(t, "a certificate of another authority", c.Login(t.Context()), vault.KindPermission)
	// Run carries the token over its TTL with a certificate that was replaced:
	// servers bind a token's renewal to the certificate that it was made with.
	ca.issue(t, "app", certFile, keyFile)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	eventually(t, "logged in", func() bool { return c.Token().LoggedIn })
	ca.issue(t, "app", certFile, keyFile)
	until(t, time.Now().Add(8*time.Second), time.Time{}, "there is a token that lives", func() bool { return c.Token().Expires.After(time.Now()) })
	if _, err := c.CreateGuard(t.Context(), vault.GuardOptions{}); err != nil {
		t.Error(err)
	}
	if c.Token().Logins < 2 {
		t.Error("no new login was made with the new certificate")
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}
