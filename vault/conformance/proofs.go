package conformance

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/secret"
)

// signer signs JWTs with ES256.
type signer struct {
	key    *ecdsa.PrivateKey
	public string // PEM
}

func newSigner(t *testing.T) signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return signer{key: key, public: string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))}
}

func (s signer) sign(t *testing.T, claims map[string]any) string {
	t.Helper()
	part := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	text := part(map[string]string{"alg": "ES256", "typ": "JWT"}) + "." + part(claims)
	sum := sha256.Sum256([]byte(text))
	r, sig, err := ecdsa.Sign(rand.Reader, s.key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	raw := make([]byte, 64)
	r.FillBytes(raw[:32])
	sig.FillBytes(raw[32:])
	return text + "." + base64.RawURLEncoding.EncodeToString(raw)
}

// serviceAccount gives the claims of a pod's token; each is another token.
func serviceAccount(name string) map[string]any {
	now := time.Now()
	return map[string]any{
		"iss": "https://kubernetes.default.svc.cluster.local", "sub": "system:serviceaccount:prod:" + name, "jti": rand.Text(),
		"aud": []string{"https://kubernetes.default.svc"}, "iat": now.Add(-time.Minute).Unix(), "nbf": now.Add(-time.Minute).Unix(), "exp": now.Add(time.Hour).Unix(),
		"kubernetes.io": map[string]any{"namespace": "prod", "serviceaccount": map[string]any{"name": name, "uid": uid(name)}},
	}
}

func uid(name string) string { return "00000000-0000-4000-8000-" + (name + "000000000000")[:12] }

// tokenReviews is the part of a Kubernetes API that says whether a token is good.
type tokenReviews struct {
	*httptest.Server
	ca    string // PEM
	known func(jwt secret.String, namespace, account, uid string)
	mu    sync.Mutex
	ok    map[string]string // token to service account
}

func (a *admin) newTokenReviews(t *testing.T) *tokenReviews {
	t.Helper()
	r := &tokenReviews{ok: map[string]string{}, known: a.target.ServiceAccount}
	r.Server = httptest.NewTLSServer(http.HandlerFunc(r.serve))
	t.Cleanup(r.Close)
	r.ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw}))
	return r
}

// accept has token taken for that of account, or for nobody's when it is empty.
func (r *tokenReviews) accept(token, account string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ok[token] = account
	if r.known != nil {
		r.known(secret.New(token), "prod", account, uid(account))
	}
}

func (r *tokenReviews) serve(w http.ResponseWriter, req *http.Request) {
	var review struct {
		Spec struct {
			Token     string
			Audiences []string
		} `json:"spec"`
	}
	if !strings.HasSuffix(req.URL.Path, "/tokenreviews") || json.NewDecoder(req.Body).Decode(&review) != nil {
		http.NotFound(w, req)
		return
	}
	r.mu.Lock()
	account := r.ok[review.Spec.Token]
	r.mu.Unlock()
	status := map[string]any{"authenticated": account != ""}
	if account != "" {
		status["audiences"] = review.Spec.Audiences
		status["user"] = map[string]any{"username": "system:serviceaccount:prod:" + account, "uid": uid(account), "groups": []string{"system:serviceaccounts"}}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	if err := json.NewEncoder(w).Encode(map[string]any{"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "status": status}); err != nil {
		panic(http.ErrAbortHandler) // who asked went
	}
}

// clientCA issues client certificates.
type clientCA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newClientCA(t *testing.T) *clientCA {
	t.Helper()
	ca := &clientCA{}
	der, key := ca.sign(t, "conformance clients", true)
	ca.key, ca.pem = key, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	var err error
	if ca.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return ca
}

func (ca *clientCA) sign(t *testing.T, name string, isCA bool) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: isCA, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	parent, by := template, key
	if isCA {
		template.KeyUsage |= x509.KeyUsageCertSign
	} else {
		parent, by = ca.cert, ca.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	return der, key
}

func (ca *clientCA) issue(t *testing.T, name, certFile, keyFile string) {
	t.Helper()
	der, key := ca.sign(t, name, false)
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, certFile, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	write(t, keyFile, string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})))
}
