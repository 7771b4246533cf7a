package devvault

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // RFC 5280 names a key by its SHA-1
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
)

// keySpec is the kind of key that is asked for. Empty is RSA, zero bits the
// kind's usual.
type keySpec struct {
	kind string
	bits int
}

func (k keySpec) kindName() string {
	if k.kind == "" {
		return "rsa"
	}
	return k.kind
}

// size is bits with the usual filled in.
func (k keySpec) size() int {
	switch {
	case k.bits != 0 || k.kind == "ed25519":
		return k.bits
	case k.kind == "ec":
		return 256
	}
	return 2048
}

func (k keySpec) check() error {
	sizes := map[string][]int{"rsa": {2048, 3072, 4096, 8192}, "ec": {224, 256, 384, 521}, "ed25519": {0}}
	allowed, ok := sizes[k.kindName()]
	if !ok {
		return badRequest("unknown key type " + k.kind)
	}
	for _, n := range allowed {
		if n == k.size() {
			return nil
		}
	}
	return badRequest(fmt.Sprintf("unsupported bit length for %s key: %d", strings.ToUpper(k.kindName()), k.bits))
}

func (k keySpec) generate() (crypto.Signer, error) {
	if err := k.check(); err != nil {
		return nil, err
	}
	var key crypto.Signer
	var err error
	switch k.kindName() {
	case "rsa":
		key, err = rsa.GenerateKey(rand.Reader, k.size())
	case "ec":
		curve := map[int]elliptic.Curve{224: elliptic.P224(), 256: elliptic.P256(), 384: elliptic.P384(), 521: elliptic.P521()}[k.size()]
		key, err = ecdsa.GenerateKey(curve, rand.Reader)
	default:
		_, key, err = ed25519.GenerateKey(rand.Reader)
	}
	if err != nil {
		return nil, fmt.Errorf("making a %s key: %w", k.kindName(), err)
	}
	return key, nil
}

// block is a private key in the form of its kind, or in PKCS #8.
func (k keySpec) block(key crypto.Signer, pkcs8 bool) *pem.Block {
	if !pkcs8 {
		switch key := key.(type) {
		case *rsa.PrivateKey:
			return &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
		case *ecdsa.PrivateKey:
			if der, err := x509.MarshalECPrivateKey(key); err == nil {
				return &pem.Block{Type: "EC PRIVATE KEY", Bytes: der}
			}
		}
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic("devvault: encoding a key of our own making: " + err.Error())
	}
	return &pem.Block{Type: "PRIVATE KEY", Bytes: der}
}

func (k keySpec) pem(key crypto.Signer) string {
	return strings.TrimSpace(string(pem.EncodeToMemory(k.block(key, false))))
}

// keyID names a key as RFC 5280 does.
func keyID(key crypto.Signer) []byte {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		panic("devvault: encoding a key of our own making: " + err.Error())
	}
	sum := sha1.Sum(der) //nolint:gosec // a name, not a proof
	return sum[:]
}

// randomSerial has 20 bytes, the first of them never zero nor negative.
func randomSerial() *big.Int {
	var b [20]byte
	_, _ = rand.Read(b[:])
	b[0] = b[0]&0x7f | 0x01
	return new(big.Int).SetBytes(b[:])
}

func serialText(n *big.Int) string { return colons(n.Bytes()) }

func certificatePEM(der []byte) string {
	return strings.TrimSpace(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
}
