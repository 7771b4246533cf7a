package vault

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/secret"
)

func TestEnvironmentDecidesNothing(t *testing.T) {
	for name, value := range map[string]string{
		"VAULT_ADDR": "http://127.0.0.1:1", "VAULT_AGENT_ADDR": "http://127.0.0.1:1", "VAULT_NAMESPACE": "evil",
		"VAULT_HEADERS": `{"X-Evil":"1"}`, "VAULT_WRAP_TTL": "60s", "VAULT_MAX_RETRIES": "5", "VAULT_RATE_LIMIT": "0.0001:1",
		"VAULT_CLIENT_TIMEOUT": "1ms", "VAULT_PROXY_ADDR": "http://127.0.0.1:1", "VAULT_HTTP_PROXY": "http://127.0.0.1:1",
		"HTTP_PROXY": "http://127.0.0.1:1", "VAULT_TOKEN": "hvs.Fr0mTheEnvironment", "VAULT_SKIP_VERIFY": "true", "VAULT_SRV_LOOKUP": "true",
		"VAULT_DISABLE_REDIRECTS": "true", "BAO_ADDR": "http://127.0.0.1:1",
	} {
		t.Setenv(name, value)
	}
	f := newFake(t, says(500, `{"errors":["x"]}`))
	c := f.client(t)
	for range 3 {
		_, err := c.LookupLease(t.Context(), "l")
		wantKind(t, err, KindTransient)
	}
	if _, err := f.stranger(t).Health(t.Context()); err == nil {
		t.Error("a 500 is healthy")
	}
	seen := f.requests("")
	if len(seen) != 5 {
		t.Errorf("%d requests arrived, 5 were to", len(seen))
	}
	for _, r := range seen {
		if r.namespace != "" || r.header.Get("X-Evil") != "" || r.header.Get("X-Vault-Wrap-TTL") != "" || r.token == "hvs.Fr0mTheEnvironment" {
			t.Errorf("the environment came through: %s %v", r.path, r.header)
		}
	}
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	_, err := f.stranger(t, func(cfg *Config) { cfg.Address = secure.URL }).Health(t.Context())
	wantKind(t, err, KindUnreachable)
}

func TestMalformedEnvironmentIsSaid(t *testing.T) {
	t.Setenv("VAULT_SKIP_VERIFY", "perhaps")
	_, err := New(Config{Address: "http://127.0.0.1:1"})
	if err == nil || !strings.Contains(err.Error(), "VAULT_SKIP_VERIFY") || !strings.Contains(err.Error(), "environment") {
		t.Errorf("got %v", err)
	}
}

func TestConfigurationErrors(t *testing.T) {
	good := Config{Name: "main", Address: "http://127.0.0.1:8200"}
	for name, change := range map[string]func(*Config){
		"no address":          func(c *Config) { c.Address = "" },
		"no scheme":           func(c *Config) { c.Address = "127.0.0.1:8200" },
		"other scheme":        func(c *Config) { c.Address = "unix:///x" },
		"no URL":              func(c *Config) { c.Address = "http://%zz" },
		"user in address":     func(c *Config) { c.Address = "http://u:hunter2@h" },
		"query in address":    func(c *Config) { c.Address = "http://h/?a=b" },
		"namespace":           func(c *Config) { c.Namespace = "a b" },
		"guard role":          func(c *Config) { c.GuardRole = "../x" },
		"timeout":             func(c *Config) { c.OpTimeout = -1 },
		"long timeout":        func(c *Config) { c.OpTimeout = time.Hour },
		"CA not there":        func(c *Config) { c.TLS.CACert = "/nonexistent" },
		"CA no PEM":           func(c *Config) { c.TLS.CACert = os.DevNull },
		"certificate, no key": func(c *Config) { c.TLS.ClientCert = "x" },
		"certificate missing": func(c *Config) { c.TLS.ClientCert, c.TLS.ClientKey = "/nonexistent", "/nonexistent" },
	} {
		cfg := good
		change(&cfg)
		_, err := New(cfg)
		if err == nil || !strings.HasPrefix(err.Error(), "vault main: ") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(good); err != nil {
		t.Error(err)
	}
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"vault.internal"}, IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	certFile, keyFile := write("cert.pem", "CERTIFICATE", der), write("key.pem", "EC PRIVATE KEY", keyDER)
	pool := x509.NewCertPool()
	ca, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(ca)
	server := httptest.NewUnstartedServer(says(200, selfAnswer(60, 0)))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are the point
	server.StartTLS()
	t.Cleanup(server.Close)
	for name, try := range map[string]struct {
		tls TLS
		ok  bool
	}{
		"all given":            {TLS{CACert: certFile, ClientCert: certFile, ClientKey: keyFile, ServerName: "vault.internal"}, true},
		"not verified":         {TLS{ClientCert: certFile, ClientKey: keyFile, SkipVerify: true}, true},
		"no CA":                {TLS{ClientCert: certFile, ClientKey: keyFile, ServerName: "vault.internal"}, false},
		"another name":         {TLS{CACert: certFile, ClientCert: certFile, ClientKey: keyFile, ServerName: "other.internal"}, false},
		"the address's name":   {TLS{CACert: certFile, ClientCert: certFile, ClientKey: keyFile}, false},
		"no client's own cert": {TLS{CACert: certFile, ServerName: "vault.internal"}, false},
	} {
		c, err := New(Config{Name: "main", Address: server.URL, Token: secret.New(plainToken), TLS: try.tls})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		err = c.Login(t.Context())
		if (err == nil) != try.ok {
			t.Errorf("%s: %v", name, err)
		}
		if !try.ok && KindOf(err) != KindUnreachable {
			t.Errorf("%s: kind %s", name, KindOf(err))
		}
	}
}
