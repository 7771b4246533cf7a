package wire

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/nats-io/nkeys"
)

// ErrSeal says that something sealed could not be opened: it was sealed to
// another key, by another key, or changed on its way.
var ErrSeal = errors.New("the seal does not open")

// Seal seals what is sent to the holder of the curve key to ("X..."). The
// form is that of nkeys' xkeys, version xkv1: NaCl box with a random nonce.
// Only the two key pairs can open it, so who opens it knows who sealed it.
func Seal(from nkeys.KeyPair, to string, data []byte) ([]byte, error) {
	if !IsPublicXKey(to) {
		return nil, errors.New("sealing: the recipient is no public curve key")
	}
	sealed, err := from.Seal(data, to)
	if err != nil {
		return nil, fmt.Errorf("sealing to %s: %w", to, err)
	}
	if len(sealed) > MaxBytes {
		return nil, fmt.Errorf("sealing to %s: %w", to, ErrTooLarge)
	}
	return sealed, nil
}

// Open opens what from sealed to the key pair. Its errors wrap [ErrSeal] or
// [ErrTooLarge].
func Open(to nkeys.KeyPair, from string, sealed []byte) ([]byte, error) {
	if len(sealed) > MaxBytes {
		return nil, ErrTooLarge
	}
	if !IsPublicXKey(from) {
		return nil, fmt.Errorf("%w: the sender is no public curve key", ErrSeal)
	}
	data, err := to.Open(sealed, from)
	if err != nil {
		return nil, ErrSeal
	}
	return data, nil
}

// IsSealed tells a sealed answer from a [Refusal].
func IsSealed(data []byte) bool { return bytes.HasPrefix(data, []byte(nkeys.XKeyVersionV1)) }

// IsPublicXKey tells whether s is a public curve key. (nkeys looks at the
// length only after it has decoded; we look before.)
func IsPublicXKey(s string) bool { return len(s) == 56 && nkeys.IsValidPublicCurveKey(s) }
