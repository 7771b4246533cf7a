package wire

import (
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nkeys"
	"golang.org/x/crypto/nacl/box"
)

const (
	keyBytes   = 32
	nonceBytes = 24
)

// maxPeers bounds the peers whose agreed keys a [Box] remembers.
const maxPeers = 4096

// Box seals and opens as [Seal] and [Open] do, for a key pair that has to do with
// the same peers again and again: agreeing on a key, which is nine tenths of the
// work, is done once for each of them. It is safe for concurrent use.
type Box struct {
	private [keyBytes]byte

	mu     sync.RWMutex
	agreed map[string]*[keyBytes]byte // by the peer's public key
}

// NewBox makes the box of a curve key pair, from its seed.
func NewBox(pair nkeys.KeyPair) (*Box, error) {
	seed, err := pair.Seed()
	if err != nil {
		return nil, fmt.Errorf("making a box: %w", err)
	}
	prefix, raw, err := nkeys.DecodeSeed(seed)
	if err != nil || prefix != nkeys.PrefixByteCurve || len(raw) != keyBytes {
		return nil, errors.New("making a box: it takes a curve key pair")
	}
	b := &Box{agreed: map[string]*[keyBytes]byte{}}
	copy(b.private[:], raw)
	return b, nil
}

// with gives the key that is agreed on with a peer.
func (b *Box) with(peer string) (*[keyBytes]byte, error) {
	b.mu.RLock()
	key := b.agreed[peer]
	b.mu.RUnlock()
	if key != nil {
		return key, nil
	}
	if !IsPublicXKey(peer) {
		return nil, errors.New("the peer is no public curve key")
	}
	raw, err := nkeys.Decode(nkeys.PrefixByteCurve, []byte(peer))
	if err != nil || len(raw) != keyBytes {
		return nil, errors.New("the peer is no public curve key")
	}
	key = new([keyBytes]byte)
	box.Precompute(key, (*[keyBytes]byte)(raw), &b.private)
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.agreed) >= maxPeers {
		clear(b.agreed) // whoever comes again is agreed with again
	}
	b.agreed[peer] = key
	return key, nil
}

// Seal is [Seal] by the box's key pair.
func (b *Box) Seal(to string, data []byte) ([]byte, error) {
	key, err := b.with(to)
	if err != nil {
		return nil, fmt.Errorf("sealing: %w", err)
	}
	var nonce [nonceBytes]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return nil, fmt.Errorf("sealing to %s: %w", to, err)
	}
	out := make([]byte, 0, len(nkeys.XKeyVersionV1)+nonceBytes+len(data)+box.Overhead)
	out = append(append(out, nkeys.XKeyVersionV1...), nonce[:]...)
	out = box.SealAfterPrecomputation(out, data, &nonce, key)
	if len(out) > MaxBytes {
		return nil, fmt.Errorf("sealing to %s: %w", to, ErrTooLarge)
	}
	return out, nil
}

// Open is [Open] by the box's key pair.
func (b *Box) Open(from string, sealed []byte) ([]byte, error) {
	if len(sealed) > MaxBytes {
		return nil, ErrTooLarge
	}
	if !IsPublicXKey(from) {
		return nil, fmt.Errorf("%w: the sender is no public curve key", ErrSeal)
	}
	const head = len(nkeys.XKeyVersionV1) + nonceBytes
	if len(sealed) <= head || !IsSealed(sealed) {
		return nil, ErrSeal
	}
	key, err := b.with(from)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSeal, err)
	}
	data, ok := box.OpenAfterPrecomputation(nil, sealed[head:], (*[nonceBytes]byte)(sealed[len(nkeys.XKeyVersionV1):head]), key)
	if !ok {
		return nil, ErrSeal
	}
	return data, nil
}
