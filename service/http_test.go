package service_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/service"
	"github.com/leasesvc/leasesvc/web"
)

// servePage runs an instance that serves its page; the result gives its URL.
func (r *rig) servePage(state string) (url func() string, stop func()) {
	r.t.Helper()
	var at atomic.Value
	svc, err := service.New(r.config(state), service.Options{
		Version: "1.2.3", Logger: slog.New(slog.NewTextHandler(io.MultiWriter(r.out, testWriter{r.t}), nil)),
		OnHTTP: func(url string) { at.Store(url) },
	})
	if err != nil {
		r.t.Fatal(err)
	}
	if r.before != nil {
		r.before(svc)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- svc.Run(ctx) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			if err := <-done; err != nil {
				r.t.Errorf("stopping: %v", err)
			}
		}
	}
	r.t.Cleanup(stop)
	r.await("the page to be served", func() bool { return at.Load() != nil })
	return func() string { return at.Load().(string) }, stop
}

func ask[T any](client *http.Client, url string) (out T, status int) {
	r, err := client.Get(url)
	if err != nil {
		return out, 0
	}
	defer func() { _ = r.Body.Close() }()
	_ = json.NewDecoder(r.Body).Decode(&out)
	return out, r.StatusCode
}

// TestThePageOfEachInstanceKnowsTheLog: that of the holder and that of a standby,
// from the real log.
func TestThePageOfEachInstanceKnowsTheLog(t *testing.T) {
	r := newRig(t, "1h", "2h")
	r.more = "http: {listen: 127.0.0.1:0}\n"
	r.definitions(1, strings.ReplaceAll(appDefinition, "consumers: [{name: shop}]", "consumers: []"))
	holder, _ := r.servePage("state-a")
	r.await("a lease", func() bool { return r.active("app") != 0 })
	standby, _ := r.servePage("state-b")
	transport := &http.Transport{DisableKeepAlives: true}
	client := &http.Client{Transport: transport, Timeout: 30 * time.Second}

	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	live, err := http.NewRequestWithContext(ctx, http.MethodGet, standby()+"/api/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := (&http.Client{Transport: transport}).Do(live)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Body.Close() }()
	before := r.active("app")
	r.done(r.api().Rotate(ctx, "prod", "app"))
	scanner := bufio.NewScanner(stream.Body)
	scanner.Buffer(nil, 4<<20)
	for told := false; !told; {
		if !scanner.Scan() {
			t.Fatalf("the stream ended: %v", scanner.Err())
		}
		told = strings.Contains(scanner.Text(), `"type":"installed"`) && strings.Contains(scanner.Text(), `in place of lease`)
	}
	for who, url := range map[string]string{"holder": holder(), "standby": standby()} {
		r.await("the "+who+"'s page", func() bool {
			o, status := ask[web.Overview](client, url+"/api/overview")
			return status == 200 && len(o.Scopes) == 1 && o.Scopes[0].Led && o.Scopes[0].Leases["active"] == 1 && o.Scopes[0].Holding != nil &&
				o.Scopes[0].Holding.State == "live" && len(o.Scopes[0].Standby) == 1
		})
		r.await("the "+who+"'s detail", func() bool {
			d, status := ask[web.Detail](client, url+"/api/name?scope=prod&name=app")
			return status == 200 && d.State == "active" && len(d.Leases) >= 2 && len(d.Story) > 5 && d.Leases[0].Lease > before
		})
		if r, err := client.Get(url + "/"); err != nil || r.StatusCode != http.StatusOK {
			t.Errorf("%s: %v", who, err)
		} else {
			_ = r.Body.Close()
		}
	}
}

// certificate makes a certificate of its own authority.
func (r *rig) certificate(name string, client bool) (cert, key string, pool *x509.CertPool, pair tls.Certificate) {
	r.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		r.t.Fatal(err)
	}
	usage := x509.ExtKeyUsageServerAuth
	if client {
		usage = x509.ExtKeyUsageClientAuth
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{usage},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		r.t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		r.t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	if pair, err = tls.X509KeyPair(certPEM, keyPEM); err != nil {
		r.t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	return r.write(name+".pem", string(certPEM)), r.write(name+"-key.pem", string(keyPEM)), pool, pair
}

func TestAnExposedPageAsksForATokenOrACertificate(t *testing.T) {
	r := newRig(t, "1h", "2h")
	r.definitions(1, strings.ReplaceAll(appDefinition, "consumers: [{name: shop}]", "consumers: []"))
	cert, key, pool, _ := r.certificate("page", false)
	clientCA, _, _, pair := r.certificate("operator", true)
	_, _, _, stranger := r.certificate("stranger", true)
	token := r.write("page.token", "the token of this test\n")
	r.more = "http: {listen: 0.0.0.0:0, tls: {cert: " + cert + ", key: " + key + ", client_ca: " + clientCA + "}, token_file: " + token + "}\n"
	url, _ := r.servePage("state-a")
	_, port, err := net.SplitHostPort(strings.TrimPrefix(url(), "https://"))
	if err != nil {
		t.Fatal(err)
	}
	at := "https://127.0.0.1:" + port + "/api/overview"
	client := func(certificates ...tls.Certificate) *http.Client {
		return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
			DisableKeepAlives: true, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: certificates},
		}}
	}
	status := func(c *http.Client, bearer string) int {
		q, err := http.NewRequest(http.MethodGet, at, nil)
		if err != nil {
			t.Fatal(err)
		}
		if bearer != "" {
			q.Header.Set("Authorization", "Bearer "+bearer)
		}
		got, err := c.Do(q)
		if err != nil {
			return 0
		}
		defer func() { _ = got.Body.Close() }()
		if got.ProtoMajor != 2 {
			t.Errorf("it speaks %s: a browser has few connections then", got.Proto)
		}
		return got.StatusCode
	}
	r.await("the page", func() bool { return status(client(), "the token of this test") == 200 })
	for what, got := range map[string][2]int{
		"nothing":                  {status(client(), ""), 401},
		"another token":            {status(client(), "the token of another"), 401},
		"a certificate":            {status(client(pair), ""), 200},
		"a stranger's certificate": {status(client(stranger), ""), 0},
	} {
		if got[0] != got[1] && (what != "a stranger's certificate" || got[0] == 200) {
			t.Errorf("with %s: %d, not %d", what, got[0], got[1])
		}
	}
	if strings.Contains(r.out.String(), "the token of this test") {
		t.Error("the token is in the log")
	}
}
