package wire

import (
	"crypto/rand"
	"encoding/base64"
	"errors"

	"github.com/nats-io/nkeys"
)

// SignatureHeader is the NATS header that carries a signature: 64 bytes of
// ed25519 in unpadded URL-safe base 64.
const SignatureHeader = "Leasesvc-Signature"

// ErrSignature says that a signature is missing, malformed or wrong.
var ErrSignature = errors.New("the signature is missing or wrong")

// Canonical gives the bytes that are signed for a message: a first line that
// no other protocol signs, the message's type, scope and name, each on a line
// of its own, then the very bytes that are sent.
func Canonical(typ, scope, name string, body []byte) []byte {
	head := "leasesvc-signature-v1\n" + typ + "\n" + scope + "\n" + name + "\n"
	return append([]byte(head), body...)
}

// Sign gives the value of [SignatureHeader] for a message's bytes. key is a
// user nkey with its seed.
func Sign(key nkeys.KeyPair, typ, scope, name string, body []byte) (string, error) {
	sig, err := key.Sign(Canonical(typ, scope, name, body))
	if err != nil {
		return "", errors.New("signing " + typ + ": the key cannot sign; give the consumer a user nkey's seed (SU...)")
	}
	return base64.RawURLEncoding.EncodeToString(sig), nil
}

// Verify returns [ErrSignature] unless signature is that of publicKey ("U...")
// over the message.
func Verify(publicKey, signature, typ, scope, name string, body []byte) error {
	sig, err := base64.RawURLEncoding.DecodeString(signature)
	if err != nil || len(sig) != 64 || !IsPublicKey(publicKey) {
		return ErrSignature
	}
	key, err := nkeys.FromPublicKey(publicKey)
	if err != nil {
		return ErrSignature
	}
	if key.Verify(Canonical(typ, scope, name, body), sig) != nil {
		return ErrSignature
	}
	return nil
}

// IsPublicKey tells whether s is the public part of a user nkey.
func IsPublicKey(s string) bool { return len(s) == 56 && nkeys.IsValidPublicUserKey(s) }

// NewNonce gives 128 random bits as text.
func NewNonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, by its documentation
	return base64.RawURLEncoding.EncodeToString(b[:])
}
