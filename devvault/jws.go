package devvault

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"slices"
	"strings"
	"time"
)

// clockSkew and missingLife are what is granted where the clocks, or the
// claims, do not tell exactly.
const (
	clockSkew   = 60 * time.Second
	missingLife = 150 * time.Second
)

// publicKeys reads the public keys and certificates of a PEM text.
func publicKeys(text string) ([]crypto.PublicKey, error) {
	var keys []crypto.PublicKey
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if key, err := x509.ParsePKIXPublicKey(block.Bytes); err == nil {
			keys = append(keys, key)
		} else if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
			keys = append(keys, certificate.PublicKey)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("data does not contain any valid public keys")
	}
	return keys, nil
}

// verifyJWS checks a compact JWS against keys and returns its claims.
func verifyJWS(text string, keys []crypto.PublicKey) (map[string]any, error) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return nil, errors.New("compact JWS format must have three parts")
	}
	var raw [3][]byte
	for i, p := range parts {
		var err error
		if raw[i], err = base64.RawURLEncoding.DecodeString(p); err != nil {
			return nil, errors.New("a part of the JWS is not base64url")
		}
	}
	var header struct {
		Algorithm string `json:"alg"`
	}
	if err := json.Unmarshal(raw[0], &header); err != nil {
		return nil, errors.New("the header of the JWS is not JSON")
	}
	signed := []byte(parts[0] + "." + parts[1])
	if !slices.ContainsFunc(keys, func(k crypto.PublicKey) bool { return verifies(header.Algorithm, k, signed, raw[2]) }) {
		return nil, errors.New("no known key successfully validated the token signature")
	}
	dec := json.NewDecoder(strings.NewReader(string(raw[1])))
	dec.UseNumber()
	var claims map[string]any
	if err := dec.Decode(&claims); err != nil {
		return nil, errors.New("the claims of the JWS are not JSON")
	}
	return claims, nil
}

// verifies tells whether signature is key's under the algorithm named. The
// kind of the key must be the algorithm's: "none" and the symmetric ones have
// none.
func verifies(algorithm string, key crypto.PublicKey, signed, signature []byte) bool {
	hashes := map[string]crypto.Hash{"256": crypto.SHA256, "384": crypto.SHA384, "512": crypto.SHA512}
	if k, ok := key.(ed25519.PublicKey); ok {
		return algorithm == "EdDSA" && ed25519.Verify(k, signed, signature)
	}
	if len(algorithm) != 5 || hashes[algorithm[2:]] == 0 {
		return false
	}
	hash := hashes[algorithm[2:]]
	h := hash.New()
	h.Write(signed)
	sum := h.Sum(nil)
	switch k := key.(type) {
	case *rsa.PublicKey:
		switch algorithm[:2] {
		case "RS":
			return rsa.VerifyPKCS1v15(k, hash, sum, signature) == nil
		case "PS":
			return rsa.VerifyPSS(k, hash, sum, signature, nil) == nil
		}
	case *ecdsa.PublicKey:
		bits := map[string]int{"ES256": 256, "ES384": 384, "ES512": 521}[algorithm]
		size := (k.Curve.Params().BitSize + 7) / 8
		if bits != k.Curve.Params().BitSize || len(signature) != 2*size {
			return false
		}
		r, s := new(big.Int).SetBytes(signature[:size]), new(big.Int).SetBytes(signature[size:])
		return ecdsa.Verify(k, sum, r, s)
	}
	return false
}

// checkTimes looks at exp, nbf and iat. One of them must be there; what is
// missing is taken from the others.
func checkTimes(claims map[string]any, now time.Time) error {
	at := func(name string) time.Time {
		if n, ok := claims[name].(json.Number); ok {
			if f, err := n.Float64(); err == nil && f > 0 {
				return time.UnixMilli(int64(f * 1000))
			}
		}
		return time.Time{}
	}
	issued, notBefore, expires := at("iat"), at("nbf"), at("exp")
	if issued.IsZero() && notBefore.IsZero() && expires.IsZero() {
		return errors.New("no issued at (iat), not before (nbf), or expiration time (exp) claims in token")
	}
	if expires.IsZero() {
		expires = issued.Add(missingLife)
		if notBefore.After(issued) {
			expires = notBefore.Add(missingLife)
		}
	}
	switch {
	case now.Add(-clockSkew).After(expires):
		return errors.New("invalid expiration time (exp) claim: token is expired")
	case now.Add(clockSkew).Before(notBefore):
		return errors.New("invalid not before (nbf) claim: token not yet valid")
	case now.Add(clockSkew).Before(issued):
		return errors.New("invalid issued at (iat) claim: token issued in the future")
	}
	return nil
}

// textsOf reads a claim that is one text or a list of them.
func textsOf(claim any) []string {
	switch v := claim.(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, e := range v {
			if s, ok := e.(string); ok {
				out = append(out, s)
			}
		}
		return out
	}
	return nil
}

// checkAudience tells why none of a token's audiences is wanted.
func checkAudience(claims map[string]any, wanted []string) error {
	if len(wanted) == 0 {
		return nil
	}
	if !slices.ContainsFunc(textsOf(claims["aud"]), func(a string) bool { return slices.Contains(wanted, a) }) {
		return errors.New("invalid audience (aud) claim: audience claim does not match any expected audience")
	}
	return nil
}
