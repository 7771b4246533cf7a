package config_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/service/config"
)

// withVaults gives a service file with these lines under vaults.
func withVaults(lines string) []byte {
	return []byte("nats: {url: \"nats://127.0.0.1:4222\"}\nstate_dir: state\nseal_key: {env: LEASESVC_SEAL_KEY}\nscopes: {prod: {definitions: defs.yaml}}\nvaults:\n" + lines)
}

func TestVaultConnectionIsReadWhole(t *testing.T) {
	c, err := config.Parse("etc/x.yaml", withVaults(`  a:
    address: https://v:8200
    retries: 3
    login: {approle: {mount: team/approle, role_id: S3cret-role, secret_id_file: id, wrapped: true}}
    limits: {in_flight: 8, per_mount: 2, rate: 0.5, recovery_rate: 7, probe_first: 1s, probe_last: 2s}
    tls:
      cert: c.pem
      key: k.pem
      ca_pem: |
        -----BEGIN CERTIFICATE-----
        MIIB
        -----END CERTIFICATE-----
  b: {address: "https://v:8200", login: {kubernetes: {role: r}}}
  c: {address: "https://v:8200", login: {jwt: {role: r, token_env: JWT}}}
  d: {address: "https://v:8200", login: {cert: {role: r}}, tls: {cert: c.pem, key: k.pem, ca_path: ca.d}}
`))
	if err != nil {
		t.Fatal(err)
	}
	a, b := c.Vaults["a"], c.Vaults["b"]
	r := a.Login.AppRole
	if r == nil || r.Mount != "team/approle" || r.RoleID.Reveal() != "S3cret-role" || r.SecretIDFile != "etc/id" || !r.Wrapped || a.Retries != 3 || a.TLS.CAPEM != "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n" {
		t.Errorf("a is read as %+v, %+v", a, r)
	}
	if l := a.Limits; l.InFlight != 8 || l.PerMount != 2 || l.Rate != 0.5 || l.RecoveryRate != 7 || !l.ProbeFirst.Equal(events.WholeSeconds(1)) || !l.ProbeLast.Equal(events.WholeSeconds(2)) {
		t.Errorf("the limits are read as %+v", l)
	}
	if l := b.Limits; l.InFlight != 64 || l.PerMount != 0 || l.Rate != 0 || l.RecoveryRate != 50 {
		t.Errorf("the default limits are %+v", l)
	}
	if k := b.Login.Kubernetes; k == nil || k.Mount != "kubernetes" || k.Role != "r" || k.TokenFile != "/var/run/secrets/kubernetes.io/serviceaccount/token" {
		t.Errorf("b logs in with %+v", k)
	}
	if j := c.Vaults["c"].Login.JWT; j == nil || j.Mount != "jwt" || j.TokenEnv != "JWT" {
		t.Errorf("c logs in with %+v", j)
	}
	if d := c.Vaults["d"]; d.Login.Cert == nil || d.Login.Cert.Role != "r" || d.TLS.CAPath != "etc/ca.d" {
		t.Errorf("d is read as %+v", d)
	}
}

func TestEnvironmentIsForOneConnection(t *testing.T) {
	for name, try := range map[string]struct {
		lines string
		want  map[string]bool
	}{
		"the only one":      {"  main: {address: \"http://v:1\"}\n", map[string]bool{"main": true}},
		"the only one, off": {"  main: {address: \"http://v:1\", environment: false}\n", map[string]bool{"main": false}},
		"default":           {"  default: {address: \"http://v:1\"}\n  b: {address: \"http://v:1\"}\n", map[string]bool{"default": true, "b": false}},
		"none":              {"  a: {address: \"http://v:1\"}\n  b: {address: \"http://v:1\"}\n", map[string]bool{"a": false, "b": false}},
		"asked for":         {"  a: {address: \"http://v:1\", environment: true}\n  b: {address: \"http://v:1\"}\n", map[string]bool{"a": true, "b": false}},
	} {
		c, err := config.Parse("x.yaml", withVaults(try.lines))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for conn, want := range try.want {
			if got := c.Vaults[conn].Environment; got != want {
				t.Errorf("%s: %s has environment %v", name, conn, got)
			}
		}
	}
	// The certificate may come from the environment.
	if _, err := config.Parse("x.yaml", withVaults("  a: {address: \"https://v:1\", login: {cert: {}}}\n")); err != nil {
		t.Error(err)
	}
	_, err := config.Parse("x.yaml", withVaults("  a: {address: \"http://v:1\", environment: false, login: {cert: {}}, tls: }\n"))
	if err == nil || !strings.Contains(err.Error(), "vaults.a.login.cert") {
		t.Errorf("got %v", err)
	}
}

func TestHowAPathIsReadHasOneForm(t *testing.T) {
	defs, err := config.ParseDefinitions("x.yaml", []byte(`revision: 1
defaults: {params: {common_name: a.example.com}}
leases:
  made: {path: pki/issue/a, kind: pki, params: {common_name: b.example.com, ttl: 72h, exclude_cn_from_sans: True, not_before: 30}}
  like-all: {path: pki/issue/a, kind: pki}
  nothing-sent: {path: pki/issue/a, kind: pki, params: {}}
  asked: {path: some/path, method: GET, params: {a: b}}
  written: {path: some/path}
  put: {path: some/path, method: PUT}
  kept: {path: secret/data/a, kind: kv, version: 3, params: {}}
`), []string{"main"})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{"common_name": "a.example.com"}
	for name, want := range map[string]events.Definition{
		"made":         {Method: "POST", Params: map[string]string{"common_name": "b.example.com", "ttl": "72h", "exclude_cn_from_sans": "true", "not_before": "30"}},
		"like-all":     {Method: "POST", Params: all},
		"nothing-sent": {Method: "POST"},
		"asked":        {Params: map[string]string{"a": "b"}},
		"written":      {Method: "POST", Params: all},
		"put":          {Method: "PUT", Params: all},
		"kept":         {Version: 3},
	} {
		got := defs.Leases[name]
		if got.Method != want.Method || !maps.Equal(got.Params, want.Params) || got.Version != want.Version || got.Makes() != (want.Method != "") {
			t.Errorf("%s is read as %q %v version %d", name, got.Method, got.Params, got.Version)
		}
	}
}
