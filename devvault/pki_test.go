package devvault_test

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"
)

func newPKIVault(t *testing.T) *vault {
	v := newVault(t)
	v.ok("POST", "sys/mounts/pki", map[string]any{"type": "pki", "config": map[string]any{"max_lease_ttl": "87600h"}})
	v.ok("POST", "pki/root/generate/internal", map[string]any{"common_name": "ca", "ttl": "8760h", "key_type": "ec"})
	v.ok("POST", "pki/roles/r", map[string]any{"allowed_domains": "example.com", "allow_subdomains": true, "ttl": "1h", "max_ttl": "72h", "key_type": "ec"})
	return v
}

func certificate(t *testing.T, text any) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode([]byte(text.(string)))
	if block == nil {
		t.Fatal("no PEM")
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestIssuedCertificate(t *testing.T) {
	v := newPKIVault(t)
	out := v.ok("POST", "pki/issue/r", map[string]any{"common_name": "a.example.com", "alt_names": "b.example.com", "ip_sans": "127.0.0.1"})
	if out["lease_id"] != "" || number(out["lease_duration"]) != "0" || out["renewable"] != false {
		t.Fatalf("a certificate has no lease, its own end is its end: %v", out["lease_id"])
	}
	data := out["data"].(map[string]any)
	c := certificate(t, data["certificate"])
	now := v.clock.now()
	if !c.NotAfter.Equal(now.Add(time.Hour)) || number(data["expiration"]) != fmt.Sprint(c.NotAfter.Unix()) || !c.NotBefore.Equal(now.Add(-30*time.Second)) {
		t.Errorf("from %v to %v (%v), now is %v", c.NotBefore, c.NotAfter, data["expiration"], now)
	}
	roots := x509.NewCertPool()
	roots.AddCert(certificate(t, data["issuing_ca"]))
	for _, name := range []string{"a.example.com", "b.example.com", "127.0.0.1"} {
		if _, err := c.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, DNSName: name}); err != nil {
			t.Errorf("for %s: %v", name, err)
		}
	}
	if got := certificate(t, v.data("GET", "pki/cert/"+data["serial_number"].(string), nil)["certificate"]); !got.Equal(c) {
		t.Error("cert/:serial is another one")
	}
	if _, body, err := raw(t, v, "GET", "pki/ca/pem", v.RootToken().Reveal(), ""); err != nil || strings.TrimSpace(body) != data["issuing_ca"] {
		t.Errorf("ca/pem: %v", err)
	}
}

func TestCertificateTTLs(t *testing.T) {
	v := newPKIVault(t)
	life := func(body map[string]any) (time.Duration, any) {
		body["common_name"] = "a.example.com"
		out := v.ok("POST", "pki/issue/r", body)
		return certificate(t, out["data"].(map[string]any)["certificate"]).NotAfter.Sub(v.clock.now()), out["warnings"]
	}
	if d, w := life(map[string]any{"ttl": "45s"}); d != 45*time.Second || w != nil {
		t.Errorf("45 s: %v %v", d, w)
	}
	if d, w := life(map[string]any{"ttl": "100h"}); d != 72*time.Hour || fmt.Sprint(w) != `[TTL "100h0m0s" is longer than permitted maxTTL "72h0m0s", so maxTTL is being used]` {
		t.Errorf("100 h: %v %v", d, w)
	}
	v.pass(8700 * time.Hour)
	status, out := v.call(v.RootToken(), "POST", "pki/issue/r", map[string]any{"common_name": "a.example.com", "ttl": "72h"})
	if errs := fmt.Sprint(out["errors"]); status != 400 || !strings.Contains(errs, "beyond the expiration of the CA certificate") {
		t.Errorf("beyond the authority's own end: %d %s", status, errs)
	}
}

func TestCertificateRefused(t *testing.T) {
	v := newPKIVault(t)
	v.refused(v.RootToken(), "POST", "pki/issue/none", map[string]any{"common_name": "a.example.com"}, 400, "unknown role: none")
	v.refused(v.RootToken(), "POST", "pki/issue/r", map[string]any{"common_name": "a.other.com"}, 400, "common name a.other.com not allowed by this role")
	v.refused(v.RootToken(), "POST", "pki/issue/r", map[string]any{"common_name": "example.com"}, 400, "common name example.com not allowed by this role")
	v.refused(v.RootToken(), "POST", "pki/issue/r", map[string]any{"common_name": "a.example.com", "alt_names": "x.other.com"}, 400, "subject alternate name x.other.com not allowed by this role")
	v.refused(v.RootToken(), "POST", "pki/issue/r", nil, 400, `the common_name field is required, or must be provided in a CSR with "use_csr_common_name" set to true, unless "require_cn" is set to false`)
	v.refused(v.RootToken(), "POST", "pki/roles/x", map[string]any{"ttl": "2h", "max_ttl": "1h"}, 400, `"ttl" value must be less than "max_ttl" value`)
	v.refused(v.RootToken(), "POST", "pki/roles/x", map[string]any{"key_type": "weird"}, 400, "unknown key type weird")
	v.ok("DELETE", "pki/root", nil)
	v.refused(v.RootToken(), "POST", "pki/issue/r", map[string]any{"common_name": "a.example.com"}, 500,
		"1 error occurred:\n\t* could not fetch the CA certificate (was one set?): no default issuer currently configured\n\n")
}

func TestRevokedCertificate(t *testing.T) {
	v := newPKIVault(t)
	serial := v.data("POST", "pki/issue/r", map[string]any{"common_name": "a.example.com"})["serial_number"].(string)
	if d := v.data("GET", "pki/cert/"+serial, nil); number(d["revocation_time"]) != "0" {
		t.Fatalf("before: %v", d["revocation_time"])
	}
	first := v.data("POST", "pki/revoke", map[string]any{"serial_number": serial})
	v.pass(time.Minute)
	again := v.data("POST", "pki/revoke", map[string]any{"serial_number": serial})
	if first["state"] != "revoked" || first["revocation_time"] != again["revocation_time"] {
		t.Errorf("revoked: %v, again: %v", first, again)
	}
	if d := v.data("GET", "pki/cert/"+strings.ReplaceAll(serial, ":", "-"), nil); number(d["revocation_time"]) != number(first["revocation_time"]) {
		t.Errorf("read back: %v", d["revocation_time"])
	}
	if keys := v.data("LIST", "pki/certs/revoked", nil)["keys"]; fmt.Sprint(keys) != "["+serial+"]" {
		t.Errorf("listed: %v", keys)
	}
	block, _ := pem.Decode([]byte(v.data("GET", "pki/cert/crl", nil)["certificate"].(string)))
	crl, err := x509.ParseRevocationList(block.Bytes)
	if err != nil || len(crl.RevokedCertificateEntries) != 1 {
		t.Fatalf("CRL: %v %v", crl, err)
	}
	if err := crl.CheckSignatureFrom(certificate(t, v.data("GET", "pki/cert/ca", nil)["certificate"])); err != nil {
		t.Error(err)
	}
	v.refused(v.RootToken(), "POST", "pki/revoke", map[string]any{"serial_number": "11:22"}, 400, "certificate with serial 11:22 not found.")
}

func TestCertificateWithALease(t *testing.T) {
	v := newPKIVault(t)
	v.ok("POST", "pki/roles/l", map[string]any{"allow_any_name": true, "generate_lease": true, "ttl": "60s", "key_type": "ec"})
	v.ok("PUT", "sys/policies/acl/app", map[string]any{"policy": `path "pki/issue/*" { capabilities = ["create", "update"] }`})
	g := v.token(v.RootToken(), "auth/token/create/guard", map[string]any{"ttl": "40s"})
	revoked := func(out map[string]any) bool {
		return number(v.data("GET", "pki/cert/"+out["data"].(map[string]any)["serial_number"].(string), nil)["revocation_time"]) != "0"
	}
	out := v.okAs(g.token, "POST", "pki/issue/l", map[string]any{"common_name": "x"})
	lease := map[string]any{"lease_id": out["lease_id"]}
	if number(out["lease_duration"]) != "60" || out["renewable"] != false {
		t.Fatalf("lease: %v %v", out["lease_duration"], out["renewable"])
	}
	v.refused(v.RootToken(), "PUT", "sys/leases/renew", lease, 400, "lease is not renewable")
	if d := v.data("PUT", "sys/leases/lookup", lease); d["renewable"] != false || number(d["ttl"]) != "60" {
		t.Errorf("lookup: %v", d)
	}
	v.ok("PUT", "sys/leases/revoke", lease)
	if !revoked(out) {
		t.Error("its lease went, and it did not")
	}
	byGuard := v.okAs(g.token, "POST", "pki/issue/l", map[string]any{"common_name": "x"})
	v.pass(41 * time.Second)
	if !revoked(byGuard) {
		t.Error("its guard expired, and it was not revoked")
	}
	if n := v.Counters(); n.AccountsCreated != 0 || n.AccountsDropped != 0 || n.LeasesRevoked != 2 {
		t.Errorf("counters: %+v", n)
	}
}

func TestCertificateFormats(t *testing.T) {
	v := newPKIVault(t)
	issue := func(format string) map[string]any {
		return v.data("POST", "pki/issue/r", map[string]any{"common_name": "a.example.com", "format": format})
	}
	bundle := issue("pem_bundle")["certificate"].(string)
	if strings.Count(bundle, "-----BEGIN CERTIFICATE") != 2 || !strings.HasPrefix(bundle, "-----BEGIN EC PRIVATE KEY") {
		t.Error("a bundle is key, certificate and authority")
	}
	if der := issue("der")["certificate"].(string); strings.Contains(der, "BEGIN") {
		t.Error("DER is PEM")
	}
	v.refused(v.RootToken(), "POST", "pki/issue/r", map[string]any{"common_name": "a.example.com", "format": "odd"}, 400, `the "format" path parameter must be "pem", "der", or "pem_bundle"`)
}
