package handover

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/nats-io/nkeys"

	"github.com/leasesvc/leasesvc/handover/wire"
	"github.com/leasesvc/leasesvc/secret"
)

// Keys is the service's curve key pair, shared by all instances of a scope,
// and what is derived from it. Consumers pin its public half.
type Keys struct {
	pair   nkeys.KeyPair
	box    *wire.Box
	raw    []byte
	public string
}

// ErrSealKey says that a seed is no curve seed.
var ErrSealKey = errors.New("the seal key is not a curve seed (SX..., as `nk -gen curve` prints it)")

// NewKeys makes the keys of a curve seed ("SX..."). Its error is
// [ErrSealKey] and quotes nothing of the seed.
func NewKeys(seed secret.String) (*Keys, error) {
	pair, err := nkeys.FromCurveSeed([]byte(seed.Reveal()))
	if err != nil {
		return nil, ErrSealKey
	}
	prefix, raw, err := nkeys.DecodeSeed([]byte(seed.Reveal()))
	if err != nil || prefix != nkeys.PrefixByteCurve {
		return nil, ErrSealKey
	}
	public, err := pair.PublicKey()
	if err != nil {
		return nil, ErrSealKey
	}
	box, err := wire.NewBox(pair)
	if err != nil {
		return nil, ErrSealKey
	}
	return &Keys{pair: pair, box: box, raw: raw, public: public}, nil
}

// NewSeed makes a fresh seed for [NewKeys].
func NewSeed() (secret.String, error) {
	pair, err := nkeys.CreateCurveKeys()
	if err != nil {
		return secret.String{}, fmt.Errorf("making a seal key: %w", err)
	}
	seed, err := pair.Seed()
	if err != nil {
		return secret.String{}, fmt.Errorf("making a seal key: %w", err)
	}
	return secret.New(string(seed)), nil
}

// Public is the public key that consumers pin ("X...").
func (k *Keys) Public() string { return k.public }

// ID is a short public fingerprint of the key, for `opened` events and status.
func (k *Keys) ID() string {
	sum := sha256.Sum256([]byte("leasesvc key id v1\n" + k.public))
	return hex.EncodeToString(sum[:8])
}

// String gives the id, so that printing the keys prints nothing secret.
func (k *Keys) String() string { return "seal key " + k.ID() }

// GoString implements fmt.GoStringer like [Keys.String].
func (k *Keys) GoString() string { return k.String() }

// MACKey gives the 32-byte key of the event log's chain.
func (k *Keys) MACKey() []byte { return k.derive("leasesvc event mac v1") }

// FingerprintKey gives the 32-byte key under which values are compared ("same"
// or "changed") without being kept.
func (k *Keys) FingerprintKey() []byte { return k.derive("leasesvc value fingerprint v1") }

func (k *Keys) derive(purpose string) []byte {
	key, err := hkdf.Key(sha256.New, k.raw, nil, purpose, 32)
	if err != nil {
		panic("handover: deriving 32 bytes from a seal key: " + err.Error()) // only a length out of range fails
	}
	return key
}

// Seal seals an encoded message to a public curve key.
func (k *Keys) Seal(to string, message []byte) ([]byte, error) {
	return k.box.Seal(to, message)
}

// Open opens what from sealed to the service. Its errors wrap [wire.ErrSeal].
func (k *Keys) Open(from string, sealed []byte) ([]byte, error) {
	return k.box.Open(from, sealed)
}

// SealBody encodes and seals a message: an Answer, a Message, a Got.
func (k *Keys) SealBody(to string, body wire.Body) ([]byte, error) {
	data, err := wire.Encode(body)
	if err != nil {
		return nil, err
	}
	return k.Seal(to, data)
}
