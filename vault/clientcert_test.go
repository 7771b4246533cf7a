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
	"testing"
	"time"
)

// authorityCert issues certificates for a test's server and its clients.
type authorityCert struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthorityCert(t *testing.T) *authorityCert {
	t.Helper()
	a := &authorityCert{file: filepath.Join(t.TempDir(), "ca.pem")}
	der, key := a.sign(t, "ca", true)
	a.key = key
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	writePEM(t, a.file, "CERTIFICATE", der)
	return a
}

func (a *authorityCert) sign(t *testing.T, name string, isCA bool) (der []byte, key *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: isCA, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := template, key
	if a.cert != nil {
		parent, signer = a.cert, a.key
	}
	if der, err = x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer); err != nil {
		t.Fatal(err)
	}
	return der, key
}

// issue writes a certificate for name and its key.
func (a *authorityCert) issue(t *testing.T, name, certFile, keyFile string) {
	t.Helper()
	der, key := a.sign(t, name, false)
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, certFile, "CERTIFICATE", der)
	writePEM(t, keyFile, "EC PRIVATE KEY", keyDER)
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// server starts an https server of o that wants a client certificate, whose name
// it adds to a login's proof as "shown".
func (a *authorityCert) server(t *testing.T, o *office) (url, caFile string) {
	t.Helper()
	der, key := a.sign(t, "server", false)
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.serve(w, r, map[string]any{"shown": r.TLS.PeerCertificates[0].Subject.CommonName})
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, a.file
}

func TestClientCertificateIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	ca := newAuthorityCert(t)
	ca.issue(t, "first", certFile, keyFile)
	o := newOffice(time.Hour, 0)
	server, caFile := ca.server(t, o)
	c, err := New(Config{Name: "main", Address: server, TLS: TLS{CACert: caFile, ClientCert: certFile, ClientKey: keyFile}, Login: Login{Cert: &Cert{Role: "app"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	c.pace = pace{first: 10 * time.Millisecond, last: 40 * time.Millisecond, step: 5 * time.Millisecond, refusal: 20 * time.Millisecond, source: 20 * time.Millisecond, again: time.Hour}
	running(t, c)
	last := func() (by any) {
		o.with(func(o *office) {
			if n := len(o.proofs); n > 0 {
				by = o.proofs[n-1]["shown"]
			}
		})
		return by
	}
	eventually(t, "logged in with the first", func() bool { return c.Token().LoggedIn && last() == "first" })
	if s := c.Token(); s.Source != "TLS certificate at auth/cert" {
		t.Errorf("status %+v", s)
	}
	// Half a change: the certificate before stays in use.
	ca.issue(t, "half", certFile, filepath.Join(dir, "elsewhere.pem"))
	if _, err := c.RenewLease(t.Context(), "l", time.Hour); err != nil {
		t.Errorf("while the files do not match: %v", err)
	}
	ca.issue(t, "second", certFile, keyFile)
	eventually(t, "logged in with the second", func() bool { return last() == "second" })
	if n := o.logins(); n != 2 {
		t.Errorf("%d logins", n)
	}
}

// A certificate that the server does not take leaves the token before in force
// and renewed; a later one that it takes is logged in with.
func TestClientCertificateThatIsRefusedIsTriedAgain(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	ca := newAuthorityCert(t)
	ca.issue(t, "first", certFile, keyFile)
	o := newOffice(4*time.Second, 0) // renewed after 2 s: in time on a loaded machine too
	server, caFile := ca.server(t, o)
	c, err := New(Config{Name: "main", Address: server, TLS: TLS{CACert: caFile, ClientCert: certFile, ClientKey: keyFile}, Login: Login{Cert: &Cert{}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	c.pace = pace{first: 10 * time.Millisecond, last: 40 * time.Millisecond, step: 5 * time.Millisecond, refusal: 20 * time.Millisecond, source: 20 * time.Millisecond, again: time.Hour}
	running(t, c)
	eventually(t, "logged in", func() bool { return c.Token().LoggedIn })
	o.with(func(o *office) { o.refuse = 400 })
	ca.issue(t, "second", certFile, keyFile)
	before := 0
	eventually(t, "the refusal is seen, and the token before is renewed", func() bool {
		o.with(func(o *office) { before = o.renewed })
		return before >= 2 && !c.Token().RefusedSince.IsZero() && c.Token().Expires.After(time.Now())
	})
	o.with(func(o *office) { o.refuse = 0 })
	eventually(t, "logged in with the second", func() bool { return o.logins() == 2 })
}
