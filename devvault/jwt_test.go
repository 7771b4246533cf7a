package devvault_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"strings"
	"testing"
	"time"
)

// signer makes JWTs.
type signer struct {
	t         *testing.T
	algorithm string
	key       crypto.Signer
}

func newSigner(t *testing.T, algorithm string) signer {
	t.Helper()
	var key crypto.Signer
	var err error
	switch algorithm {
	case "RS256":
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	case "ES256":
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	default:
		_, key, err = ed25519.GenerateKey(rand.Reader)
	}
	if err != nil {
		t.Fatal(err)
	}
	return signer{t, algorithm, key}
}

func (s signer) publicPEM() string {
	der, err := x509.MarshalPKIXPublicKey(s.key.Public())
	if err != nil {
		s.t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func (s signer) jwt(claims map[string]any) string { return s.jwtAs(s.algorithm, claims) }

func (s signer) jwtAs(algorithm string, claims map[string]any) string {
	s.t.Helper()
	part := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			s.t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	text := part(map[string]any{"alg": algorithm, "typ": "JWT"}) + "." + part(claims)
	var signature []byte
	var err error
	sum := sha256.Sum256([]byte(text))
	switch key := s.key.(type) {
	case *ecdsa.PrivateKey:
		r, c, signErr := ecdsa.Sign(rand.Reader, key, sum[:])
		signature, err = make([]byte, 64), signErr
		r.FillBytes(signature[:32])
		c.FillBytes(signature[32:])
	case *rsa.PrivateKey:
		signature, err = key.Sign(rand.Reader, sum[:], crypto.SHA256)
	default:
		signature, err = s.key.Sign(rand.Reader, []byte(text), crypto.Hash(0))
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func newJWTVault(t *testing.T, s signer) *vault {
	v := newVault(t)
	v.ok("POST", "sys/auth/jwt", map[string]any{"type": "jwt"})
	v.ok("POST", "auth/jwt/config", map[string]any{"jwt_validation_pubkeys": s.publicPEM(), "bound_issuer": "iss", "default_role": "r"})
	v.ok("POST", "auth/jwt/role/r", map[string]any{"role_type": "jwt", "user_claim": "sub", "bound_audiences": "one,two", "token_policies": "app", "token_ttl": "5m"})
	return v
}

func (v *vault) claims(change map[string]any) map[string]any {
	now := v.clock.now().Unix()
	out := map[string]any{"iss": "iss", "sub": "me", "aud": "one", "iat": now, "exp": now + 300}
	maps.Copy(out, change)
	maps.DeleteFunc(out, func(_ string, x any) bool { return x == nil })
	return out
}

func TestJWTLogin(t *testing.T) {
	for _, algorithm := range []string{"RS256", "ES256", "EdDSA"} {
		t.Run(algorithm, func(t *testing.T) {
			s := newSigner(t, algorithm)
			v := newJWTVault(t, s)
			got := v.login("auth/jwt/login", map[string]any{"role": "r", "jwt": s.jwt(v.claims(nil))})
			look := v.okAs(got.token, "GET", "auth/token/lookup-self", nil)["data"].(map[string]any)
			if look["display_name"] != "jwt-me" || look["path"] != "auth/jwt/login" || number(look["ttl"]) != "300" || number(got.answer["lease_duration"]) != "300" {
				t.Errorf("lookup: %v", look)
			}
			v.creds(got.token)
			v.login("auth/jwt/login", map[string]any{"jwt": s.jwt(v.claims(map[string]any{"aud": []string{"x", "two"}}))}) // the default role
			out := v.okAs(got.token, "POST", "auth/token/renew-self", map[string]any{"increment": 600})
			if d := number(out["auth"].(map[string]any)["lease_duration"]); d != "600" {
				t.Errorf("renewed for %s s", d)
			}
		})
	}
}

func TestJWTRefused(t *testing.T) {
	s := newSigner(t, "EdDSA")
	v := newJWTVault(t, s)
	now := v.clock.now().Unix()
	v.ok("POST", "auth/jwt/role/team", map[string]any{"role_type": "jwt", "user_claim": "sub", "bound_claims": map[string]any{"team": []string{"a", "b"}}})
	v.ok("POST", "auth/jwt/role/subject", map[string]any{"role_type": "jwt", "user_claim": "sub", "bound_subject": "me"})
	for _, c := range []struct {
		name, role string
		change     map[string]any
		message    string
	}{
		{"audience", "r", map[string]any{"aud": "other"}, "error validating token: invalid audience (aud) claim: audience claim does not match any expected audience"},
		{"no audience", "r", map[string]any{"aud": nil}, "error validating token: invalid audience (aud) claim: audience claim does not match any expected audience"},
		{"issuer", "r", map[string]any{"iss": "other"}, "error validating token: invalid issuer (iss) claim"},
		{"expired", "r", map[string]any{"exp": now - 61}, "error validating token: invalid expiration time (exp) claim: token is expired"},
		{"not yet", "r", map[string]any{"nbf": now + 61}, "error validating token: invalid not before (nbf) claim: token not yet valid"},
		{"no times", "r", map[string]any{"exp": nil, "iat": nil}, "error validating token: no issued at (iat), not before (nbf), or expiration time (exp) claims in token"},
		{"no user", "r", map[string]any{"sub": nil}, `claim "sub" not found in token`},
		{"audience without a bound", "subject", nil, "audience claim found in JWT but no audiences bound to the role"},
		{"subject", "subject", map[string]any{"sub": "you", "aud": nil}, "error validating token: invalid subject (sub) claim"},
		{"claim", "team", map[string]any{"team": "c", "aud": nil}, `error validating claims: claim "team" does not match any associated bound claim values`},
		{"no claim", "team", map[string]any{"aud": nil}, `error validating claims: claim "team" is missing`},
		{"role", "none", nil, `role "none" could not be found`},
	} {
		t.Run(c.name, func(t *testing.T) {
			v.refused(nobody, "POST", "auth/jwt/login", map[string]any{"role": c.role, "jwt": s.jwt(v.claims(c.change))}, 400, c.message)
		})
	}
	v.login("auth/jwt/login", map[string]any{"role": "team", "jwt": s.jwt(v.claims(map[string]any{"team": "b", "aud": nil}))})
	// The skew of clocks is granted.
	v.login("auth/jwt/login", map[string]any{"jwt": s.jwt(v.claims(map[string]any{"exp": now - 59}))})
	v.pass(6 * time.Minute)
	v.refused(nobody, "POST", "auth/jwt/login", map[string]any{"jwt": s.jwt(map[string]any{"iss": "iss", "sub": "me", "aud": "one", "exp": now + 200})}, 400,
		"error validating token: invalid expiration time (exp) claim: token is expired")
}

func TestForgedJWT(t *testing.T) {
	s, other := newSigner(t, "RS256"), newSigner(t, "RS256")
	v := newJWTVault(t, s)
	const message = "error validating token: error verifying token signature: no known key successfully validated the token signature"
	good := s.jwt(v.claims(nil))
	parts := strings.Split(good, ".")
	stolen := strings.Split(s.jwt(v.claims(map[string]any{"sub": "you"})), ".")
	for name, jwt := range map[string]string{
		"another key":       other.jwt(v.claims(nil)),
		"no algorithm":      s.jwtAs("none", v.claims(nil)),
		"a symmetric one":   s.jwtAs("HS256", v.claims(nil)),
		"another algorithm": s.jwtAs("ES256", v.claims(nil)),
		"other claims":      parts[0] + "." + stolen[1] + "." + parts[2],
		"no signature":      parts[0] + "." + parts[1] + ".",
	} {
		t.Run(name, func(t *testing.T) {
			v.refused(nobody, "POST", "auth/jwt/login", map[string]any{"jwt": jwt}, 400, message)
		})
	}
	v.refused(nobody, "POST", "auth/jwt/login", map[string]any{"jwt": "x"}, 400, "error validating token: error verifying token signature: compact JWS format must have three parts")
	v.refused(v.RootToken(), "POST", "auth/jwt/config", map[string]any{"jwt_validation_pubkeys": "x"}, 400, "error parsing public key: data does not contain any valid public keys")
}
