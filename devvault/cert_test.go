package devvault_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/secret"
)

// authority is the PKI engine of a server, for certificates to try.
type authority struct {
	v    *vault
	pool *x509.CertPool
	ca   string
}

// newAuthority makes a server with a PKI at the time of now: TLS looks at the
// machine's clock.
func newAuthority(t *testing.T) authority {
	v := newVault(t)
	v.clock.set(time.Now())
	v.ok("POST", "sys/mounts/pki", map[string]any{"type": "pki"})
	root := v.data("POST", "pki/root/generate/internal", map[string]any{"common_name": "ca", "ttl": "24h", "key_type": "ec"})
	v.ok("POST", "pki/roles/any", map[string]any{"allow_any_name": true, "key_type": "ec", "ttl": "1h"})
	a := authority{v: v, pool: x509.NewCertPool(), ca: root["certificate"].(string)}
	if !a.pool.AppendCertsFromPEM([]byte(a.ca)) {
		t.Fatal("the root is no certificate")
	}
	return a
}

func (a authority) issue(name string) tls.Certificate {
	a.v.t.Helper()
	data := a.v.data("POST", "pki/issue/any", map[string]any{"common_name": name, "ip_sans": "127.0.0.1"})
	c, err := tls.X509KeyPair([]byte(data["certificate"].(string)), []byte(data["private_key"].(string)))
	if err != nil {
		a.v.t.Fatal(err)
	}
	return c
}

// post makes a call over TLS, with client certificates or none.
func (a authority) post(path, token string, certificates ...tls.Certificate) (int, map[string]any) {
	a.v.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.v.URL()+"/v1/"+path, strings.NewReader("{}"))
	if err != nil {
		a.v.t.Fatal(err)
	}
	r.Header.Set("X-Vault-Token", token)
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: a.pool, Certificates: certificates},
	}}
	resp, err := client.Do(r)
	if err != nil {
		a.v.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		a.v.t.Fatal(err)
	}
	var out map[string]any
	_ = json.Unmarshal(body, &out)
	return resp.StatusCode, out
}

func TestCertificateLogin(t *testing.T) {
	a, stranger := newAuthority(t), newAuthority(t)
	v := a.v
	v.ok("POST", "sys/auth/cert", map[string]any{"type": "cert"})
	v.ok("POST", "auth/cert/certs/web", map[string]any{"certificate": a.ca, "allowed_common_names": "*.example.com", "token_policies": "app", "token_ttl": "5m"})
	if err := v.StartTLS("127.0.0.1:0", nil); err == nil {
		t.Fatal("started without a certificate")
	}
	if err := v.StartTLS("127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{a.issue("server")}}); err != nil {
		t.Fatal(err)
	}
	web := a.issue("web.example.com")
	status, out := a.post("auth/cert/login", "", web)
	if status != 200 {
		t.Fatalf("login: %d %v", status, out)
	}
	auth := out["auth"].(map[string]any)
	meta := auth["metadata"].(map[string]any)
	if meta["cert_name"] != "web" || meta["common_name"] != "web.example.com" || auth["lease_duration"] != 300.0 {
		t.Errorf("auth: %v", auth)
	}
	token := auth["client_token"].(string)
	look := v.okAs(secret.New(token), "GET", "auth/token/lookup-self", nil)["data"].(map[string]any)
	if look["display_name"] != "cert-web" {
		t.Errorf("lookup: %v", look)
	}
	want := func(what string, status int, message string, path, token string, certificates ...tls.Certificate) {
		t.Helper()
		got, out := a.post(path, token, certificates...)
		if errs, _ := out["errors"].([]any); got != status || message != "" && (len(errs) != 1 || !strings.Contains(errs[0].(string), message)) {
			t.Errorf("%s: %d %v, want %d %q", what, got, out["errors"], status, message)
		}
	}
	const login, renew = "auth/cert/login", "auth/token/renew-self"
	want("no certificate", 400, "no client certificate found", login, "")
	want("a stranger's", 400, "invalid certificate or no client certificate supplied", login, "", stranger.issue("web.example.com"))
	want("another name", 400, "no chain matching all constraints could be found for this login certificate", login, "", a.issue("other.test"))

	// A renewal wants the very certificate of the login.
	want("renewal", 200, "", renew, token, web)
	want("renewal without", 400, "no client certificate found", renew, token)
	want("renewal with a new certificate of the same name", 500, "client identity during renewal not matching", renew, token, a.issue("web.example.com"))

	v.ok("DELETE", "auth/cert/certs/web", nil)
	want("renewal without its role", 500, `role "web" does not exist during renewal`, renew, token, web)
}

func TestCertificateItselfIsTrusted(t *testing.T) {
	a := newAuthority(t)
	data := a.v.data("POST", "pki/issue/any", map[string]any{"common_name": "leaf"})
	leaf, err := tls.X509KeyPair([]byte(data["certificate"].(string)), []byte(data["private_key"].(string)))
	if err != nil {
		t.Fatal(err)
	}
	a.v.ok("POST", "sys/auth/cert", map[string]any{"type": "cert"})
	a.v.ok("POST", "auth/cert/certs/leaf", map[string]any{"certificate": data["certificate"]})
	if err := a.v.StartTLS("127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{a.issue("server")}}); err != nil {
		t.Fatal(err)
	}
	if status, out := a.post("auth/cert/login", "", leaf); status != 200 {
		t.Errorf("the certificate: %d %v", status, out["errors"])
	}
	if status, _ := a.post("auth/cert/login", "", a.issue("leaf")); status != 400 {
		t.Errorf("another of that name: %d", status)
	}
}
