package wire

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// Seconds is a duration on the wire: exact decimal seconds in a JSON string
// ("29.5"). A JSON number is understood too. It is never negative, has at most
// nine decimal places and at most [MaxSeconds]. Durations are sent instead of
// dates because clocks differ.
type Seconds time.Duration

// MaxSeconds bounds every duration on the wire: 100 years.
const MaxSeconds = Seconds(100 * 365 * 24 * time.Hour)

// ErrSeconds says that a duration is malformed or out of range.
var ErrSeconds = errors.New("not a duration in decimal seconds from 0 to 3153600000 with at most 9 decimal places")

// SecondsOf gives d as it is sent: clamped to what the wire can carry.
func SecondsOf(d time.Duration) Seconds { return min(max(Seconds(d), 0), MaxSeconds) }

// Duration gives s as Go's duration.
func (s Seconds) Duration() time.Duration { return time.Duration(s) }

// String gives s in decimal seconds, without trailing zeros.
func (s Seconds) String() string { return string(s.appendTo(nil)) }

func (s Seconds) appendTo(b []byte) []byte {
	whole, frac := int64(s)/int64(time.Second), int64(s)%int64(time.Second)
	b = strconv.AppendInt(b, whole, 10)
	if frac == 0 {
		return b
	}
	b = append(b, '.')
	for unit := int64(time.Second / 10); frac > 0; unit /= 10 {
		b = append(b, '0'+byte(frac/unit))
		frac %= unit
	}
	return b
}

// MarshalJSON implements json.Marshaler.
func (s Seconds) MarshalJSON() ([]byte, error) { return []byte(`"` + s.String() + `"`), nil }

// UnmarshalJSON implements json.Unmarshaler. Its error wraps [ErrSeconds].
func (s *Seconds) UnmarshalJSON(b []byte) error {
	text := string(b)
	if n := len(text); n >= 2 && text[0] == '"' && text[n-1] == '"' {
		text = text[1 : n-1]
	}
	v, err := parseSeconds(text)
	if err != nil {
		return err
	}
	*s = v
	return nil
}

func parseSeconds(text string) (Seconds, error) {
	whole, frac, dot := strings.Cut(text, ".")
	if whole == "" || len(whole) > 10 || dot && frac == "" || len(frac) > 9 || !digits(whole) || !digits(frac) {
		return 0, ErrSeconds
	}
	sec, _ := strconv.ParseInt(whole, 10, 64)
	nano, _ := strconv.ParseInt((frac + "000000000")[:9], 10, 64)
	if sec > int64(MaxSeconds)/int64(time.Second) {
		return 0, ErrSeconds
	}
	v := Seconds(sec*int64(time.Second) + nano)
	if v > MaxSeconds {
		return 0, ErrSeconds
	}
	return v, nil
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}
