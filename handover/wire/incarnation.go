package wire

import (
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrIncarnation says that a text is no incarnation id.
var ErrIncarnation = errors.New("not an incarnation id (26 characters of Crockford's base 32)")

const (
	incarnationLen = 26
	crockford      = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	maxMillis      = 1<<48 - 1
)

// minted is the millisecond of the last id of this process: ids of one
// process grow even when its clock steps back.
var minted struct {
	sync.Mutex
	millis int64
}

// NewIncarnation mints the id of one start of a consumer: a ULID, 48 bits of
// milliseconds and 80 random bits. Comparing ids as text compares their times;
// the ids of one process grow strictly.
//
// after, when not empty, is an id that the new one must be above whatever the
// clock says: the incarnation that a start with a stable instance name found
// registered. An id that nothing can be above is refused.
func NewIncarnation(now time.Time, after string) (string, error) {
	least := int64(0)
	if after != "" {
		millis, err := incarnationMillis(after)
		if err != nil {
			return "", err
		}
		least = millis + 1
	}
	minted.Lock()
	millis := max(now.UnixMilli(), minted.millis+1, least)
	if millis > maxMillis {
		minted.Unlock()
		return "", fmt.Errorf("incarnation after %s: its time is the last there is", after)
	}
	minted.millis = millis
	minted.Unlock()

	var b [16]byte
	for i := range 6 {
		b[i] = byte(millis >> (8 * (5 - i)))
	}
	_, _ = rand.Read(b[6:]) // never fails, by its documentation
	return encodeCrockford(b), nil
}

// CheckIncarnation returns an error that wraps [ErrIncarnation] unless id is
// one.
func CheckIncarnation(id string) error {
	_, err := incarnationMillis(id)
	return err
}

func incarnationMillis(id string) (int64, error) {
	if len(id) != incarnationLen || id[0] > '7' {
		return 0, fmt.Errorf("incarnation %q: %w", clip(id, 40), ErrIncarnation)
	}
	var millis int64
	for i := range incarnationLen {
		v := crockfordValue(id[i])
		if v < 0 {
			return 0, fmt.Errorf("incarnation %q: %w", clip(id, 40), ErrIncarnation)
		}
		if i < 10 {
			millis = millis<<5 | int64(v)
		}
	}
	return millis, nil
}

func crockfordValue(c byte) int {
	for i := range len(crockford) {
		if crockford[i] == c {
			return i
		}
	}
	return -1
}

// encodeCrockford writes 128 bits as 26 characters, most significant first;
// the first character carries the upper 3 bits.
func encodeCrockford(b [16]byte) string {
	var out [incarnationLen]byte
	var acc uint
	bits := 2 // 2 zero bits in front make 130 = 26 * 5
	pos := 0
	for _, x := range b {
		acc = acc<<8 | uint(x)
		bits += 8
		for bits >= 5 {
			bits -= 5
			out[pos] = crockford[acc>>bits&31]
			pos++
		}
		acc &= 1<<bits - 1
	}
	return string(out[:])
}
