package vault_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/itest/pgtest"
	"github.com/leasesvc/leasesvc/itest/rabbittest"
	"github.com/leasesvc/leasesvc/itest/redistest"
	"github.com/leasesvc/leasesvc/secret"
	"github.com/leasesvc/leasesvc/vault/conformance"
)

// TestConformance runs the suite against devvault, and against a real server
// too when LEASESVC_TEST_BAO names its program or a bao or vault is on the
// PATH. Both make accounts in a real PostgreSQL.
func TestConformance(t *testing.T) {
	mq, redis := rabbittest.Start(t), redistest.Start(t)
	broker := conformance.Backend{
		Address: mq.ManagementURL(), User: mq.Administrator(), Password: secret.New(mq.Password()),
		Login: func(ctx context.Context, user, password string) error { return mq.Login(ctx, user, password, "/") },
	}
	cache := conformance.Backend{Address: redis.Addr(), User: redis.Superuser(), Password: secret.New(redis.Password()), Login: redis.Login}
	t.Run("devvault", func(t *testing.T) {
		pg := pgtest.Start(t)
		cache := cache
		cache.Plugin = "redis-database-plugin"
		root := rand.Text()
		server, err := devvault.New(devvault.Config{RootToken: secret.New(root), Accounts: devvault.NewPostgres(secret.New(pg.DSN())), Broker: &devvault.RabbitMQ{}, Plugins: map[string]devvault.Accounts{cache.Plugin: &devvault.Redis{}}})
		if err != nil {
			t.Fatal(err)
		}
		cert, caFile := serverCertificate(t)
		if err := server.StartTLS("127.0.0.1:0", &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Close)
		conformance.Run(t, conformance.Target{
			Name: "devvault", Address: server.URL(), CACert: caFile, RootToken: secret.New(root), DatabaseURL: secret.New(pg.DSN()), Accounts: pg.Roles, RabbitMQ: broker, Redis: cache,
			ServiceAccount: func(jwt secret.String, namespace, account, uid string) {
				if account == "" {
					server.DistrustServiceAccount(jwt)
					return
				}
				server.TrustServiceAccount(jwt, devvault.ServiceAccount{Namespace: namespace, Name: account, UID: uid})
			},
			Lacks: []string{"Quota", "PolicyLimits"}, // no quotas, no allowed_parameters
		})
	})
	program, how := realServer(t)
	if program == "" {
		t.Log("the suite ran against devvault only: no LEASESVC_TEST_BAO, and neither bao nor vault is on the PATH")
		return
	}
	t.Run("real", func(t *testing.T) {
		pg := pgtest.Start(t)
		cache := cache
		cache.Plugin = "valkey-database-plugin" // OpenBao's; Vault calls it redis-database-plugin
		if filepath.Base(program) == "vault" {
			cache.Plugin = "redis-database-plugin"
		}
		address, caFile, root := startRealServer(t, program)
		conformance.Run(t, conformance.Target{Name: filepath.Base(program), Address: address, CACert: caFile, RootToken: root, DatabaseURL: secret.New(pg.DSN()), Accounts: pg.Roles, RabbitMQ: broker, Redis: cache})
	})
	t.Logf("the suite ran against devvault and against %s (%s)", program, how)
}

func realServer(t *testing.T) (program, how string) {
	if p := os.Getenv("LEASESVC_TEST_BAO"); p != "" {
		if _, err := os.Stat(p); err != nil {
			t.Fatalf("LEASESVC_TEST_BAO: %v", err)
		}
		return p, "LEASESVC_TEST_BAO"
	}
	for _, name := range []string{"bao", "vault"} {
		if p, err := exec.LookPath(name); err == nil {
			return p, "on the PATH"
		}
	}
	return "", ""
}

// serverCertificate gives a certificate for 127.0.0.1 and the file of its authority.
func serverCertificate(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "devvault"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

// startRealServer starts program in dev mode, in memory, over TLS, on a port of
// its own.
func startRealServer(t *testing.T, program string) (address, caFile string, root secret.String) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listen := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	root = secret.New(rand.Text())
	home, certs := t.TempDir(), t.TempDir()
	var out lockedBuffer
	cmd := exec.Command(program, "server", "-dev", "-dev-no-store-token", "-dev-tls", "-dev-tls-cert-dir="+certs,
		"-dev-root-token-id="+root.Reveal(), "-dev-listen-address="+listen)
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + home}
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	address = "https://" + listen
	deadline := time.After(time.Minute)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	// The dev server mounts its KV after it is unsealed; the root token works from then on.
	for {
		if found, _ := filepath.Glob(filepath.Join(certs, "*-ca.pem")); len(found) == 1 && answers(address+"/v1/sys/mounts/secret/tune", found[0], root) {
			return address, found[0], root
		}
		select {
		case <-tick.C:
		case <-ended:
			t.Fatalf("%s ended:\n%s", program, strings.ReplaceAll(out.String(), root.Reveal(), secret.Redacted))
		case <-deadline:
			t.Fatalf("%s is not up after a minute:\n%s", program, strings.ReplaceAll(out.String(), root.Reveal(), secret.Redacted))
		}
	}
}

func answers(url, caFile string, token secret.String) bool {
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return false
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	r.Header.Set("X-Vault-Token", token.Reveal())
	resp, err := (&http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}}}).Do(r)
	if err != nil {
		return false
	}
	defer func() { _ = resp.Body.Close() }()
	return resp.StatusCode == http.StatusOK
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
