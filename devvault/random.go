package devvault

import (
	"crypto/rand"
	"fmt"
	"strings"
)

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// randomBase62 returns n random characters of base62.
func randomBase62(n int) string { return randomOf(base62, n) }

func randomOf(alphabet string, n int) string {
	// 256 is not a multiple of 62: values past the last full turn are thrown
	// away, so that no character is likelier than another.
	limit := byte(256 - 256%len(alphabet))
	var b strings.Builder
	buf := make([]byte, n)
	for b.Len() < n {
		_, _ = rand.Read(buf) // never fails (crypto/rand aborts the process instead)
		for _, c := range buf {
			if (limit == 0 || c < limit) && b.Len() < n {
				b.WriteByte(alphabet[int(c)%len(alphabet)])
			}
		}
	}
	return b.String()
}

func randomUUID() string {
	var u [16]byte
	_, _ = rand.Read(u[:])
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[0:4], u[4:6], u[6:8], u[8:10], u[10:16])
}

// randomPassword returns 20 characters with at least one of each class that
// databases like to ask for: lower, upper, digit, and a dash.
func randomPassword() string {
	for {
		p := randomOf(base62+"-", 20)
		if strings.ContainsAny(p, "0123456789") && strings.ContainsRune(p[1:19], '-') && p[0] != '-' && p[19] != '-' &&
			strings.ToLower(p) != p && strings.ToUpper(p) != p {
			return p
		}
	}
}
