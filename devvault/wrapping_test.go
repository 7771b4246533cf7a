package devvault_test

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/secret"
)

func (v *vault) wrapped(ttl time.Duration, method, path string, body any) secret.String {
	v.t.Helper()
	token, err := v.DoWrapped(context.Background(), ttl, method, path, body)
	if err != nil {
		v.t.Fatal(err)
	}
	return token
}

const noWrapping = "wrapping token is not valid or does not exist"

func TestWrappedSecretIDIsHadOnce(t *testing.T) {
	v := newVault(t)
	roleID := v.appRole(nil)
	w := v.wrapped(time.Minute, "POST", "auth/approle/role/r/secret-id", map[string]any{})
	look := v.okAs(nobody, "POST", "sys/wrapping/lookup", map[string]any{"token": w.Reveal()})["data"].(map[string]any)
	if look["creation_path"] != "auth/approle/role/r/secret-id" || number(look["creation_ttl"]) != "60" {
		t.Fatalf("lookup: %v", look)
	}
	data := v.okAs(w, "POST", "sys/wrapping/unwrap", nil)["data"].(map[string]any)
	v.login("auth/approle/login", map[string]any{"role_id": roleID, "secret_id": data["secret_id"]})
	v.refused(w, "POST", "sys/wrapping/unwrap", nil, 400, noWrapping)
	v.refused(nobody, "POST", "sys/wrapping/lookup", map[string]any{"token": w.Reveal()}, 400, noWrapping)
}

func TestWrappingTokenExpires(t *testing.T) {
	v := newVault(t)
	w := v.wrapped(time.Minute, "GET", "sys/mounts", nil)
	v.pass(61 * time.Second)
	v.refused(w, "POST", "sys/wrapping/unwrap", nil, 400, noWrapping)
}

func TestWaysToUnwrap(t *testing.T) {
	v := newVault(t)
	fresh := func() secret.String { return v.wrapped(time.Minute, "GET", "sys/mounts", nil) }
	plain := v.token(v.RootToken(), "auth/token/create", map[string]any{"policies": []string{"app"}, "no_default_policy": true})
	usual := v.token(v.RootToken(), "auth/token/create", map[string]any{"policies": []string{"app"}})
	w := fresh()
	body := map[string]any{"token": w.Reveal()}
	v.refused(plain.token, "POST", "sys/wrapping/unwrap", body, 403, "1 error occurred:\n\t* permission denied\n\n")
	v.okAs(plain.token, "POST", "sys/wrapping/lookup", body) // needs no permission
	v.okAs(usual.token, "POST", "sys/wrapping/unwrap", body)
	v.okAs(nobody, "POST", "sys/wrapping/unwrap", map[string]any{"token": fresh().Reveal()})
	v.okAs(fresh(), "PUT", "sys/wrapping/unwrap", map[string]any{})
	v.refused(nobody, "POST", "sys/wrapping/unwrap", nil, 403, "error validating wrapping token: token is empty")
	v.refused(v.RootToken(), "POST", "sys/wrapping/unwrap", nil, 400, noWrapping)
	v.refused(v.RootToken(), "POST", "sys/wrapping/unwrap", map[string]any{"token": v.RootToken().Reveal()}, 400, noWrapping)
}

// Whoever tries a wrapping token as if it were a client's spends it.
func TestMisusedWrappingTokenIsSpent(t *testing.T) {
	v := newVault(t)
	w := v.wrapped(time.Minute, "GET", "sys/mounts", nil)
	v.refused(w, "GET", "auth/token/lookup-self", nil, 403, "1 error occurred:\n\t* permission denied\n\n")
	v.refused(w, "POST", "sys/wrapping/unwrap", nil, 400, noWrapping)
}

func TestRewrap(t *testing.T) {
	v := newVault(t)
	w := v.wrapped(time.Minute, "GET", "auth/token/roles/guard", nil)
	v.pass(50 * time.Second)
	info := v.ok("POST", "sys/wrapping/rewrap", map[string]any{"token": w.Reveal()})["wrap_info"].(map[string]any)
	if number(info["ttl"]) != "60" || info["creation_path"] != "auth/token/roles/guard" {
		t.Fatalf("rewrapped: %v", info)
	}
	v.refused(w, "POST", "sys/wrapping/unwrap", nil, 400, noWrapping)
	v.pass(50 * time.Second)
	data := v.okAs(secret.New(info["token"].(string)), "POST", "sys/wrapping/unwrap", nil)["data"].(map[string]any)
	if data["name"] != "guard" {
		t.Errorf("unwrapped: %v", data)
	}
}

func TestWrappingOverHTTP(t *testing.T) {
	v := newVault(t)
	root := v.RootToken().Reveal()
	_, body, err := raw(t, v, "POST", "auth/token/create", root, `{"policies":["app"],"ttl":"1h"}`, "X-Vault-Wrap-TTL", "60s")
	var out struct {
		RequestID string          `json:"request_id"`
		Auth      json.RawMessage `json:"auth"`
		WrapInfo  struct {
			Token, Accessor string
			TTL             int
			CreationPath    string    `json:"creation_path"`
			CreationTime    time.Time `json:"creation_time"`
			WrappedAccessor string    `json:"wrapped_accessor"`
		} `json:"wrap_info"`
	}
	if err != nil || json.Unmarshal([]byte(body), &out) != nil {
		t.Fatalf("%v", err)
	}
	w := out.WrapInfo
	if out.RequestID != "" || string(out.Auth) != "null" || w.TTL != 60 || w.CreationPath != "auth/token/create" || !w.CreationTime.Equal(v.clock.now()) || w.Accessor == "" {
		t.Fatalf("wrapped answer: %+v", out)
	}
	auth := v.okAs(secret.New(w.Token), "POST", "sys/wrapping/unwrap", nil)["auth"].(map[string]any)
	if auth["accessor"] != w.WrappedAccessor {
		t.Errorf("wrapped_accessor %q, the token's is %q", w.WrappedAccessor, auth["accessor"])
	}
	for _, c := range []struct {
		method, path, ttl string
		status            int
	}{
		{"GET", "auth/token/roles/none", "60", 404},
		{"POST", "kv/x", "60", 204},
		{"GET", "auth/token/roles/guard", "-5", 400},
		{"GET", "auth/token/roles/guard", "soon", 400},
		{"POST", "sys/wrapping/wrap", "", 400},
		{"GET", "auth/token/roles/guard", "0", 200},
	} {
		resp, body, err := raw(t, v, c.method, c.path, root, `{"a":"b"}`, "X-Vault-Wrap-TTL", c.ttl)
		var out struct {
			WrapInfo any `json:"wrap_info"`
		}
		_ = json.Unmarshal([]byte(body), &out)
		if err != nil || resp.StatusCode != c.status || out.WrapInfo != nil {
			t.Errorf("%s %s with %q: %v %s, want %d and nothing wrapped", c.method, c.path, c.ttl, resp.StatusCode, body, c.status)
		}
	}
}

func TestOnlyOneOfManyUnwraps(t *testing.T) {
	v := newVault(t)
	for _, by := range []string{"its own", "root's"} {
		for range 20 {
			w := v.wrapped(time.Minute, "GET", "sys/mounts", nil)
			caller, body := w, map[string]any(nil)
			if by == "root's" {
				caller, body = v.RootToken(), map[string]any{"token": w.Reveal()}
			}
			var group sync.WaitGroup
			var had atomic.Int32
			for range 8 {
				group.Go(func() {
					if status, _ := v.call(caller, "POST", "sys/wrapping/unwrap", body); status == 0 {
						had.Add(1)
					}
				})
			}
			group.Wait()
			if n := had.Load(); n != 1 {
				t.Fatalf("with %s token, %d of 8 had the answer", by, n)
			}
		}
	}
}
