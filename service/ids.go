package service

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"time"
)

var idText = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// newID gives an id that nobody else gives: 48 bits of milliseconds, so that ids
// sort roughly by time, and 72 random ones.
func newID() string {
	var b [15]byte
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(time.Now().UnixMilli()))
	copy(b[:6], ms[2:])
	_, _ = rand.Read(b[6:]) // never fails (crypto/rand)
	return idText.EncodeToString(b[:])
}
