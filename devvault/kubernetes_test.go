package devvault_test

import (
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/secret"
)

func TestKubernetesLogin(t *testing.T) {
	v := newVault(t)
	v.ok("POST", "sys/auth/kubernetes", map[string]any{"type": "kubernetes"})
	v.ok("POST", "auth/kubernetes/role/r", map[string]any{
		"bound_service_account_names": "app-*", "bound_service_account_namespaces": "prod", "policies": "app", "ttl": "5m", "audience": "vault",
	})
	login := func(jwt, role string) map[string]any { return map[string]any{"jwt": jwt, "role": role} }
	const path = "auth/kubernetes/login"
	trust := func(jwt string, change func(*devvault.ServiceAccount)) {
		account := devvault.ServiceAccount{
			Namespace: "prod", Name: "app-1", UID: "uid", Audiences: []string{"vault"}, Expires: v.clock.now().Add(time.Hour),
		}
		change(&account)
		v.TrustServiceAccount(secret.New(jwt), account)
	}
	trust("good", func(*devvault.ServiceAccount) {})
	v.refused(nobody, "POST", path, login("good", "r"), 500, "could not load backend configuration")
	v.ok("POST", "auth/kubernetes/config", map[string]any{"kubernetes_host": "https://127.0.0.1:6443"})

	got := v.login(path, login("good", "r"))
	look := v.okAs(got.token, "GET", "auth/token/lookup-self", nil)["data"].(map[string]any)
	meta := look["meta"].(map[string]any)
	if look["display_name"] != "kubernetes-prod-app-1" || meta["service_account_name"] != "app-1" || meta["service_account_namespace"] != "prod" ||
		meta["service_account_uid"] != "uid" || meta["role"] != "r" || number(look["ttl"]) != "300" {
		t.Errorf("lookup: %v", look)
	}
	v.creds(got.token)

	trust("namespace", func(a *devvault.ServiceAccount) { a.Namespace = "test" })
	trust("name", func(a *devvault.ServiceAccount) { a.Name = "web" })
	trust("audience", func(a *devvault.ServiceAccount) { a.Audiences = nil })
	trust("expired", func(a *devvault.ServiceAccount) { a.Expires = v.clock.now().Add(-61 * time.Second) })
	for jwt, message := range map[string]string{
		"namespace": "namespace not authorized",
		"name":      "service account name not authorized",
		"audience":  "invalid audience (aud) claim: audience claim does not match any expected audience",
		"expired":   "invalid expiration time (exp) claim: token is expired",
		"unknown":   "permission denied",
	} {
		v.refused(nobody, "POST", path, login(jwt, "r"), 403, message)
	}
	v.refused(nobody, "POST", path, login("good", "none"), 400, `invalid role name "none"`)
	v.refused(nobody, "POST", path, login("", "r"), 400, "missing jwt")
	v.refused(nobody, "POST", path, login("good", ""), 400, "missing role")

	// The kubelet renews the file: the new token counts, the old one does not.
	trust("renewed", func(*devvault.ServiceAccount) {})
	v.DistrustServiceAccount(secret.New("good"))
	v.login(path, login("renewed", "r"))
	v.refused(nobody, "POST", path, login("good", "r"), 403, "permission denied")
}
