package config

import (
	"errors"
	"regexp"
	"strings"

	"github.com/leasesvc/leasesvc/events"
)

// serviceAccountToken is where Kubernetes puts a pod's token.
const serviceAccountToken = "/var/run/secrets/kubernetes.io/serviceaccount/token"

func (c *Config) vault(name string) shape {
	v := Vault{
		GuardRole: "leasesvc", GuardTTL: events.WholeSeconds(60), Timeout: events.WholeSeconds(10),
		Limits: VaultLimits{InFlight: 64, RecoveryRate: 50, ProbeFirst: events.MustSeconds("0.5"), ProbeLast: events.WholeSeconds(10)},
	}
	return object{fields: []field{
		{name: "address", shape: text{to: &v.Address, what: "URL", check: checkVaultAddress, allowed: "https://host:8200 or http://host:8200"}, required: true},
		{name: "namespace", shape: text{to: &v.Namespace, check: checkPlain(0, 512)}, def: `""`},
		{name: "environment", shape: either{&v.environment}, def: "true for the only connection and for one named default"},
		{name: "login", shape: v.Login.shape()},
		{name: "token_file", shape: path{&v.TokenFile}},
		{name: "token_env", shape: variable(&v.TokenEnv)},
		{name: "token", shape: confidential{&v.Token}},
		{name: "guard_role", shape: text{to: &v.GuardRole, what: "name of a token role, or empty", check: checkGuardRole}, def: "leasesvc"},
		{name: "guard_ttl", shape: duration{&v.GuardTTL, "1s", "1h"}, def: "60s"},
		{name: "timeout", shape: duration{&v.Timeout, "100ms", "5m"}, def: "10s"},
		{name: "retries", shape: integer{to: func(n int64) { v.Retries = int(n) }, min: 0, max: 10}, def: "0"},
		{name: "verify_revocations", shape: boolean{&v.VerifyRevocations}, def: "false"},
		{name: "tls", shape: v.TLS.shape("ca", "ca_pem", "ca_path", "cert", "key", "server_name", "skip_verify")},
		{name: "limits", shape: v.Limits.shape()},
	}, check: func(d *decoder, f *found) {
		f.exclusive(d, false, "login", "token_file", "token_env", "token")
		v.http = strings.HasPrefix(v.Address, "http://")
		if f.has("tls") && f.ok("address") && v.http {
			f.fail(d, []string{"tls"}, "stands beside an address without TLS; write https:// in address, or leave tls out")
		}
		if f.ok("guard_ttl", "timeout") && v.GuardRole != "" && v.GuardTTL.Cmp(v.Timeout) <= 0 {
			f.fail(d, []string{"guard_ttl", "timeout"}, "guard_ttl must be longer than timeout: a guard has to outlive the read it guards")
		}
		c.Vaults[name] = v
	}}
}

// settleVaults fills in what only all connections together tell, and checks
// what the environment could change.
func (c *Config) settleVaults(d *decoder) {
	for _, name := range c.VaultNames() {
		v := c.Vaults[name]
		v.Environment = len(c.Vaults) == 1 || name == "default"
		if v.environment != nil {
			v.Environment = *v.environment
		}
		key := "vaults." + name + ".login.cert"
		if at, there := d.places[key]; there && v.Login.Cert != nil && !v.Environment {
			if v.TLS.Cert == "" {
				d.failAt(at, key, "logs in with the certificate of tls, which names none; add tls.cert and tls.key")
			} else if v.http {
				d.failAt(at, key, "needs TLS; write https:// in address")
			}
		}
		c.Vaults[name] = v
	}
}

func (l *Login) shape() shape {
	methods := []string{"approle", "kubernetes", "cert", "jwt"}
	return object{fields: []field{
		{name: "approle", shape: appRoleShape(&l.AppRole)},
		{name: "kubernetes", shape: kubernetesShape(&l.Kubernetes)},
		{name: "cert", shape: certShape(&l.Cert)},
		{name: "jwt", shape: jwtShape(&l.JWT)},
	}, check: func(d *decoder, f *found) { f.exclusive(d, true, methods...) }}
}

// mount is where an auth method is mounted.
func mount(to *string) field {
	return field{name: "mount", shape: text{to: to, what: "path below auth/", check: checkMount, allowed: "such as approle, or team/approle"}, def: *to}
}

// role is the name of a role of an auth method.
func role(to *string, required bool) field {
	least, def := 0, `""`
	if required {
		least, def = 1, ""
	}
	return field{name: "role", shape: text{to: to, check: checkPlain(least, 256)}, required: required, def: def}
}

func appRoleShape(to **AppRole) shape {
	a := AppRole{Mount: "approle"}
	return object{fields: []field{
		mount(&a.Mount),
		{name: "role_id", shape: confidential{&a.RoleID}},
		{name: "role_id_file", shape: path{&a.RoleIDFile}},
		{name: "secret_id_file", shape: path{&a.SecretIDFile}},
		{name: "secret_id_env", shape: variable(&a.SecretIDEnv)},
		{name: "wrapped", shape: boolean{&a.Wrapped}, def: "false"},
	}, check: func(d *decoder, f *found) {
		f.exclusive(d, true, "role_id", "role_id_file")
		f.exclusive(d, false, "secret_id_file", "secret_id_env")
		if a.Wrapped && !f.has("secret_id_file") && !f.has("secret_id_env") {
			f.fail(d, []string{"wrapped"}, "there is no secret id that could be wrapped; add secret_id_file or secret_id_env")
		}
		*to = &a
	}}
}

func kubernetesShape(to **Kubernetes) shape {
	k := Kubernetes{Mount: "kubernetes", TokenFile: serviceAccountToken}
	return object{fields: []field{
		mount(&k.Mount),
		role(&k.Role, true),
		{name: "token_file", shape: path{&k.TokenFile}, def: serviceAccountToken},
	}, check: func(*decoder, *found) { *to = &k }}
}

func certShape(to **Cert) shape {
	t := Cert{Mount: "cert"}
	return object{fields: []field{mount(&t.Mount), role(&t.Role, false)}, check: func(*decoder, *found) { *to = &t }}
}

func jwtShape(to **JWT) shape {
	j := JWT{Mount: "jwt"}
	return object{fields: []field{
		mount(&j.Mount),
		role(&j.Role, false),
		{name: "token_file", shape: path{&j.TokenFile}},
		{name: "token_env", shape: variable(&j.TokenEnv)},
	}, check: func(d *decoder, f *found) {
		f.exclusive(d, true, "token_file", "token_env")
		*to = &j
	}}
}

func (l *VaultLimits) shape() shape {
	return object{fields: []field{
		{name: "in_flight", shape: integer{to: func(n int64) { l.InFlight = int(n) }, min: 1, max: 4096}, def: "64"},
		{name: "per_mount", shape: integer{to: func(n int64) { l.PerMount = int(n) }, min: 1, max: 4096}, def: "half of in_flight"},
		{name: "rate", shape: rate{&l.Rate}},
		{name: "recovery_rate", shape: rate{&l.RecoveryRate}, def: "50"},
		{name: "probe_first", shape: duration{&l.ProbeFirst, "1ms", "10m"}, def: "500ms"},
		{name: "probe_last", shape: duration{&l.ProbeLast, "1ms", "10m"}, def: "10s"},
	}, check: func(d *decoder, f *found) {
		if f.ok("in_flight", "per_mount") && l.PerMount > l.InFlight {
			f.fail(d, []string{"per_mount", "in_flight"}, "per_mount is above in_flight (%d), of which it is a part", l.InFlight)
		}
		if f.ok("probe_first", "probe_last") && l.ProbeFirst.Cmp(l.ProbeLast) > 0 {
			f.fail(d, []string{"probe_first", "probe_last"}, "probe_first is longer than probe_last")
		}
	}}
}

// checkMount checks a path below auth/.
func checkMount(s string) error {
	if err := checkVaultPath(s); err != nil {
		if strings.HasPrefix(s, "auth/") {
			return errors.New("begins with auth/, which leasesvc adds itself; leave it out")
		}
		return err
	}
	return nil
}

var tokenRole = regexp.MustCompile(`^\w([\w.@-]{0,126}\w)?$`)

// checkGuardRole takes what the server takes for a role's name, or nothing.
func checkGuardRole(s string) error {
	switch {
	case s == "" || tokenRole.MatchString(s):
		return nil
	case strings.Contains(s, "/"):
		return errors.New("has a slash; the name of the role is wanted, without auth/token/roles/")
	}
	return errors.New("is no name of a token role; allowed: 1 to 128 letters, digits, and _ . @ - within it")
}
