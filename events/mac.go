package events

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"sync"
)

// A MAC is 16 bytes of HMAC-SHA-256, written as 22 characters.
const (
	macBytes    = 16
	macText     = 22
	macField    = `,"mac":"`
	macFieldLen = len(macField) + macText + len(`"}`)
)

// macKey is a key with the hashes that are ready for it: setting one up costs
// as much as the MAC of a small event. It is shared by the copies of a [Chain]
// and safe for concurrent use.
type macKey struct{ ready sync.Pool }

func newMACKey(key []byte) *macKey {
	key = bytes.Clone(key)
	return &macKey{ready: sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}}
}

// sum gives the MAC of what the parts are in a row.
func (k *macKey) sum(parts ...[]byte) (text [macText]byte) {
	h := k.ready.Get().(hash.Hash)
	defer k.ready.Put(h)
	h.Reset()
	for _, p := range parts {
		_, _ = h.Write(p) // never gives an error
	}
	var sum [sha256.Size]byte
	base64.RawURLEncoding.Encode(text[:], h.Sum(sum[:0])[:macBytes])
	return text
}

// genuine tells whether the MAC at the end of a payload is that of the rest.
func (k *macKey) genuine(payload []byte) bool {
	cut := len(payload) - macFieldLen
	if cut <= 0 || !bytes.HasPrefix(payload[cut:], []byte(macField)) || !bytes.HasSuffix(payload, []byte(`"}`)) {
		return false
	}
	want := k.sum(payload[:cut], closing)
	return hmac.Equal(payload[cut+len(macField):len(payload)-len(`"}`)], want[:])
}

var closing = []byte("}")
