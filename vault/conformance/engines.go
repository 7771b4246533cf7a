package conformance

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/vault"
)

func testCheckGuard(t *testing.T, a *admin) {
	check, err := a.service(t, "").CheckGuard(t.Context(), 2*time.Hour)
	if err != nil || len(check.Faults) > 0 || check.Extended != 2*time.Hour {
		t.Errorf("%+v, %v", check, err)
	}
	limited := a.service(t, a.tokenRole(t, "limited-check", map[string]any{"token_explicit_max_ttl": "90s"}))
	if check, err = limited.CheckGuard(t.Context(), 2*time.Hour); err != nil || len(check.Faults) == 0 {
		t.Errorf("a role with an explicit max TTL: %+v, %v", check, err)
	}
}

func testVerified(t *testing.T, a *admin) {
	c := a.service(t, "")
	got := a.acquire(t, c, "app", time.Minute)
	for range 2 {
		if _, err := c.RevokeLease(t.Context(), got.grant.LeaseID, vault.Verified()); err != nil {
			t.Error(err)
		}
	}
	if a.exists(t, got.user) {
		t.Error("the account is there after a verified revocation")
	}
	a.giveBack(t, c, got)
}

func testKV1(t *testing.T, a *admin) {
	mount := "conf-kv1-" + a.suffix
	a.mount(t, mount, "kv", map[string]string{"version": "1"})
	a.must(t, "POST", mount+"/app", map[string]any{"password": "p", "nested": map[string]any{"a.b": []any{1, nil}}})
	c := a.client(t, a.target.RootToken, "")
	g, err := c.Read(t.Context(), mount+"/app", nil, vault.ReadOptions{})
	if err != nil || g.LeaseID != "" || g.Renewable || strings.Join(g.Keys, " ") != "nested password" {
		t.Errorf("%s, %v", g, err)
	}
	_, err = c.Read(t.Context(), mount+"/app", nil, vault.ReadOptions{KVv2: true})
	wantKind(t, "read as version 2", err, vault.KindMalformed)
	_, err = c.Read(t.Context(), mount+"/absent", nil, vault.ReadOptions{})
	wantKind(t, "a secret that never was", err, vault.KindNotFound)
}

func testKVVersions(t *testing.T, a *admin) {
	c := a.client(t, a.target.RootToken, "")
	path, kv := a.kv()+"/data/versions", a.kv()
	for _, v := range []string{"one", "two", "three", "four"} {
		a.must(t, "POST", path, map[string]any{"data": map[string]any{"password": v}})
	}
	read := func(version int64) (vault.Grant, error) {
		return c.Read(t.Context(), path, nil, vault.ReadOptions{KVv2: true, Version: version})
	}
	if g, err := read(1); err != nil || g.Version != 1 || string(g.Data) != `{"password":"one"}` {
		t.Errorf("version 1: %s %s, %v", g, g.Data, err)
	}
	if g, err := read(0); err != nil || g.Version != 4 {
		t.Errorf("the latest: version %d, %v", g.Version, err)
	}
	a.must(t, "POST", kv+"/delete/versions", map[string]any{"versions": []int{2}})
	a.must(t, "POST", kv+"/destroy/versions", map[string]any{"versions": []int{3}})
	_, err := read(2)
	wantKind(t, "a deleted version", err, vault.KindNotFound)
	if !errors.Is(err, vault.ErrDeleted) {
		t.Errorf("a deleted version: %v", err)
	}
	if _, err = read(3); !errors.Is(err, vault.ErrDestroyed) {
		t.Errorf("a destroyed version: %v", err)
	}
	_, err = read(99)
	wantKind(t, "a version that never was", err, vault.KindNotFound)
	if errors.Is(err, vault.ErrDeleted) || errors.Is(err, vault.ErrDestroyed) {
		t.Errorf("a version that never was: %v", err)
	}
	a.must(t, "POST", kv+"/undelete/versions", map[string]any{"versions": []int{2}})
	if g, err := read(2); err != nil || g.Version != 2 {
		t.Errorf("an undeleted version: %v", err)
	}
	_, err = c.Read(t.Context(), kv+"/versions", nil, vault.ReadOptions{})
	wantKind(t, "a path without data/", err, vault.KindNotFound)
	a.must(t, "DELETE", kv+"/metadata/versions", nil)
}

// testStaticRole makes the account of a dynamic credential a static role's.
func testStaticRole(t *testing.T, a *admin) {
	c := a.client(t, a.target.RootToken, "")
	got := a.acquire(t, a.service(t, ""), "app", time.Minute)
	t.Cleanup(func() { a.must(t, "PUT", "sys/leases/revoke", map[string]any{"lease_id": got.grant.LeaseID}) })
	role := a.database() + "/static-roles/st"
	a.must(t, "POST", role, map[string]any{
		"db_name": "pg", "username": got.user, "rotation_period": "1h", "rotation_statements": `ALTER USER "{{name}}" WITH PASSWORD '{{password}}';`,
	})
	t.Cleanup(func() { a.must(t, "DELETE", role, nil) })
	read := func() vault.Grant {
		t.Helper()
		g, err := c.Read(t.Context(), a.database()+"/static-creds/st", nil, vault.ReadOptions{StaticRole: true})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	first := read()
	if first.LeaseID != "" || first.Renewable || first.RotatesIn.Std() < 59*time.Minute || first.RotatesIn.Std() > time.Hour || first.LastRotation.IsZero() || userOf(t, first) != got.user {
		t.Errorf("C18: %s, rotates in %s s, last %s", first, first.RotatesIn, first.LastRotation)
	}
	eventually(t, "the clock goes down and nothing else", func() bool {
		g := read()
		if string(g.Lasting()) != string(first.Lasting()) || !g.LastRotation.Equal(first.LastRotation) {
			t.Fatal("it looks changed")
		}
		return g.RotatesIn.Std() < first.RotatesIn.Std()
	})
	a.must(t, "POST", a.database()+"/rotate-role/st", nil)
	if g := read(); g.LastRotation.Equal(first.LastRotation) || string(g.Lasting()) == string(first.Lasting()) {
		t.Errorf("C18: a manual rotation is not noticed: %s", g.LastRotation)
	}
}

func testPKI(t *testing.T, a *admin) {
	mount := "conf-pki-" + a.suffix
	a.mount(t, mount, "pki", nil)
	a.must(t, "POST", "sys/mounts/"+mount+"/tune", map[string]any{"max_lease_ttl": "87600h"})
	a.must(t, "POST", mount+"/root/generate/internal", map[string]any{"common_name": "conformance", "ttl": "8760h", "key_type": "ec", "key_bits": 256})
	role := func(name string, lease bool) {
		a.must(t, "POST", mount+"/roles/"+name, map[string]any{"allow_any_name": true, "enforce_hostnames": false, "max_ttl": "2h", "generate_lease": lease, "key_type": "ec", "key_bits": 256})
	}
	role("app", false)
	role("leased", true)
	c := a.client(t, a.target.RootToken, "")
	issue := func(role string) vault.Grant {
		t.Helper()
		g, err := c.Read(t.Context(), mount+"/issue/"+role, nil, vault.ReadOptions{PKI: true, Method: http.MethodPost, Params: map[string]any{"common_name": "app.internal", "ttl": "1h"}})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	for _, role := range []string{"app", "leased"} {
		g := issue(role)
		if (g.LeaseID != "") != (role == "leased") {
			t.Errorf("%s: %s", role, g)
		}
		if left := g.TTL.Std(); left < 59*time.Minute || left > time.Hour {
			t.Errorf("%s: the certificate lives %s", role, left)
		}
		var data struct {
			Certificate string
			Key         string `json:"private_key"`
		}
		if err := json.Unmarshal(g.Data, &data); err != nil || data.Key == "" {
			t.Fatalf("%s: keys %v, %v", role, g.Keys, err)
		}
		block, _ := pem.Decode([]byte(data.Certificate))
		if block == nil {
			t.Fatal("no PEM certificate")
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil || !cert.NotAfter.Equal(g.Expires) {
			t.Errorf("%s: the certificate ends %s, told %s (%v)", role, cert.NotAfter, g.Expires, err)
		}
		if role == "leased" {
			if _, err := c.RevokeLease(t.Context(), g.LeaseID, vault.Verified()); err != nil {
				t.Error(err)
			}
		}
	}
	_, err := c.Read(t.Context(), mount+"/issue/app", nil, vault.ReadOptions{PKI: true, Method: http.MethodPost})
	wantKind(t, "without a common name", err, vault.KindRefused)
}

// testQuota lets the server's own rate limit refuse.
func testQuota(t *testing.T, a *admin) {
	quota := "sys/quotas/rate-limit/conf-" + a.suffix
	// Without it servers send no Retry-After.
	a.must(t, "POST", "sys/quotas/config", map[string]any{"enable_rate_limit_response_headers": true})
	t.Cleanup(func() {
		a.must(t, "POST", "sys/quotas/config", map[string]any{"enable_rate_limit_response_headers": false})
	})
	a.must(t, "POST", quota, map[string]any{"path": a.kv(), "rate": 1, "interval": "2s"})
	t.Cleanup(func() { a.must(t, "DELETE", quota, nil) })
	c := a.client(t, a.target.RootToken, "")
	var e *vault.Error
	for i := range 50 {
		_, err := c.Read(t.Context(), a.kv()+"/data/quota-"+strconv.Itoa(i), nil, vault.ReadOptions{KVv2: true})
		if errors.As(err, &e) && e.Kind == vault.KindQuota {
			break
		}
	}
	if e.Kind != vault.KindQuota || e.NotSent || e.OutcomeUnknown {
		t.Fatalf("50 reads at 1 in 2 s: %v", e)
	}
	if e.RetryAfter <= 0 || e.RetryAfter > 10*time.Second {
		t.Errorf("the server does not say when to come back: %v", e)
	}
	if paused := c.Circuit().PausedUntil; paused.IsZero() {
		t.Error("the connection is not paused")
	}
}
