package vault

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestPolicyIsTheLeast(t *testing.T) {
	paths := append(Paths("database/creds/orders", "mq/creds/+/x", "db/creds/*"), Access{Path: "pki/issue/app", Method: http.MethodPost}, Access{Path: "secret/data/app"})
	got := Policy("leasesvc", paths...)
	for _, want := range []string{
		`path "auth/token/create/leasesvc" {`, `path "auth/token/renew-accessor" {`, `"lease_id" = ["database/creds/orders/*", "db/creds/*", "mq/creds/*"]`,
		"\"increment\" = []", "\"sync\" = []", `path "auth/token/renew-self" {`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing in:\n%s", want, got)
		}
	}
	for _, not := range []string{`path "database/creds`, `path "secret`, "sudo", "list", "pki"} {
		if strings.Contains(got, not) {
			t.Errorf("%s is in:\n%s", not, got)
		}
	}
	if g := GuardPolicy(append(paths, paths...)...); strings.Count(g, `path "pki/issue/app" {
  capabilities = ["create", "update"]
}`) != 1 || strings.Count(g, "path ") != 5 || strings.Contains(g, "auth/") {
		t.Errorf("the guards' policy:\n%s", g)
	}
	alone := Policy("", paths...)
	if strings.Contains(alone, "accessor") || strings.Contains(alone, "create/") || !strings.Contains(alone, `path "secret/data/app"`) {
		t.Errorf("without guards:\n%s", alone)
	}
	if p := Policy("leasesvc"); strings.Contains(p, "sys/leases") {
		t.Errorf("without paths:\n%s", p)
	}
}

func ExampleSetup() {
	fmt.Print(Setup("bao", "leasesvc", "leasesvc", Paths("database/creds/orders")...))
	// Output:
	// bao policy write leasesvc - <<'EOF'
	// path "auth/token/lookup-self" {
	//   capabilities = ["read"]
	// }
	// path "auth/token/renew-self" {
	//   capabilities = ["update"]
	// }
	// path "auth/token/revoke-self" {
	//   capabilities = ["update"]
	// }
	// path "auth/token/create/leasesvc" {
	//   capabilities = ["create", "update"]
	// }
	// path "auth/token/lookup-accessor" {
	//   capabilities = ["update"]
	// }
	// path "auth/token/renew-accessor" {
	//   capabilities = ["update"]
	// }
	// path "auth/token/revoke-accessor" {
	//   capabilities = ["update"]
	// }
	// path "sys/leases/lookup" {
	//   capabilities = ["update"]
	//   allowed_parameters = {
	//     "lease_id" = ["database/creds/orders/*"]
	//   }
	// }
	// path "sys/leases/renew" {
	//   capabilities = ["update"]
	//   allowed_parameters = {
	//     "lease_id" = ["database/creds/orders/*"]
	//     "increment" = []
	//   }
	// }
	// path "sys/leases/revoke" {
	//   capabilities = ["update"]
	//   allowed_parameters = {
	//     "lease_id" = ["database/creds/orders/*"]
	//     "sync" = []
	//   }
	// }
	// EOF
	// bao policy write leasesvc-guard - <<'EOF'
	// path "database/creds/orders" {
	//   capabilities = ["read"]
	// }
	// EOF
	// bao write auth/token/roles/leasesvc allowed_policies=leasesvc-guard orphan=true renewable=true token_explicit_max_ttl=0 token_no_default_policy=true token_num_uses=0 token_period=0 token_type=service
}

func TestCheckGuard(t *testing.T) {
	for name, try := range map[string]struct {
		extended int
		lookup   string
		faults   []string
	}{
		"good":             {3600, `{"data":{"ttl":60,"orphan":true,"renewable":true,"type":"service"}}`, nil},
		"does not extend":  {60, `{"data":{"ttl":60,"orphan":true}}`, []string{"granted 1m0s"}},
		"period and limit": {3600, `{"data":{"ttl":60,"orphan":false,"period":60,"explicit_max_ttl":90}}`, []string{"token_period=0", "token_explicit_max_ttl=0", "no orphan"}},
	} {
		f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/lookup-accessor"):
				says(200, try.lookup)(w, r)
			case strings.HasSuffix(r.URL.Path, "/renew-accessor"):
				says(200, fmt.Sprintf(`{"auth":{"lease_duration":%d}}`, try.extended))(w, r)
			case strings.HasSuffix(r.URL.Path, "/revoke-accessor"):
				w.WriteHeader(http.StatusNoContent)
			default:
				says(200, `{"auth":{"client_token":"hvs.GuardGuardGuard","accessor":"gacc","lease_duration":60,"renewable":true,"token_type":"service","orphan":true}}`)(w, r)
			}
		})
		check, err := f.client(t).CheckGuard(t.Context(), time.Hour)
		if err != nil || len(check.Faults) != len(try.faults) || check.Granted != time.Minute || check.Extended != time.Duration(try.extended)*time.Second {
			t.Errorf("%s: %+v, %v", name, check, err)
			continue
		}
		for i, want := range try.faults {
			if !strings.Contains(check.Faults[i], want) {
				t.Errorf("%s: %q, want one with %q", name, check.Faults[i], want)
			}
		}
		if n := len(f.requests("revoke-accessor")); n != 1 {
			t.Errorf("%s: the guard was left", name)
		}
	}
}
