package events

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/cockroachdb/apd/v3"
)

// Seconds is an exact decimal number of seconds: a TTL, a fraction of one, a
// back-off, a sum in the ledger. It never goes through a binary fraction, so a
// replay of the same events gives the same digits on every machine.
//
// The zero value is 0. Values are immutable; the methods return new ones.
type Seconds struct{ d apd.Decimal }

// MaxSeconds bounds what [ParseSeconds] and arithmetic accept: ten thousand
// years, far above any TTL and far below what overflows a [time.Duration]
// conversion elsewhere ([Seconds.Duration] clamps on its own).
const MaxSeconds = 315_360_000_000

// arith rounds half even at 34 digits, which no sum of ours ever needs.
var arith = apd.Context{Precision: 34, Rounding: apd.RoundHalfEven, MaxExponent: 999, MinExponent: -999, Traps: apd.DefaultTraps}

// FromDuration gives d as exact seconds (nanosecond resolution, no loss).
func FromDuration(d time.Duration) Seconds {
	var s Seconds
	s.d.SetFinite(int64(d), -9)
	s.d.Reduce(&s.d)
	s.normalise()
	return s
}

// WholeSeconds gives n seconds.
func WholeSeconds(n int64) Seconds {
	var s Seconds
	s.d.SetInt64(n)
	return s
}

// ErrSeconds is wrapped by every refusal of [ParseSeconds].
var ErrSeconds = errors.New("not a number of seconds")

// ParseSeconds reads a decimal literal such as "3600", "0.5" or "1e3".
// NaN, infinities and magnitudes above [MaxSeconds] are refused (ErrSeconds).
func ParseSeconds(text string) (Seconds, error) {
	var s Seconds
	if fast, n := plainSeconds(text); n > 0 && n == len(text) {
		return fast, nil
	}
	if len(text) > 64 {
		return s, fmt.Errorf("%w: %d characters, at most 64 are allowed", ErrSeconds, len(text))
	}
	_, cond, err := s.d.SetString(text)
	if err != nil || cond.Any() && !cond.Inexact() {
		return Seconds{}, fmt.Errorf("%w: %q", ErrSeconds, text)
	}
	if s.d.Form != apd.Finite {
		return Seconds{}, fmt.Errorf("%w: %q is not finite", ErrSeconds, text)
	}
	var limit apd.Decimal
	limit.SetInt64(MaxSeconds)
	var abs apd.Decimal
	abs.Abs(&s.d)
	if abs.Cmp(&limit) > 0 || s.d.Exponent < -30 {
		return Seconds{}, fmt.Errorf("%w: %q is out of range", ErrSeconds, text)
	}
	s.normalise()
	return s, nil
}

// What [plainSeconds] takes; more goes through apd.
const (
	plainWhole    = 9 // digits before the point; with the fraction an int64 holds them
	plainFraction = 9
)

// plainSeconds reads what nearly every number of seconds looks like at the
// beginning of text, as JSON writes it, and gives how many bytes it has; 0: it
// is none, or more than this takes.
func plainSeconds[T string | []byte](text T) (s Seconds, length int) {
	i, n, negative := 0, int64(0), false
	if i < len(text) && text[i] == '-' {
		negative, i = true, i+1
	}
	begin := i
	for ; i < len(text) && text[i]-'0' <= 9; i++ {
		if i-begin >= plainWhole {
			return s, 0
		}
		n = 10*n + int64(text[i]-'0')
	}
	if i == begin || text[begin] == '0' && i > begin+1 {
		return s, 0
	}
	fraction := int32(0)
	if i < len(text) && text[i] == '.' {
		for i++; i < len(text) && text[i]-'0' <= 9; i++ {
			if fraction >= plainFraction {
				return s, 0
			}
			n, fraction = 10*n+int64(text[i]-'0'), fraction+1
		}
		if fraction == 0 {
			return s, 0
		}
	}
	for fraction > 0 && n%10 == 0 {
		n, fraction = n/10, fraction-1
	}
	if negative {
		n = -n
	}
	s.d.SetFinite(n, -fraction)
	return s, i
}

// MustSeconds is [ParseSeconds] for constants; it panics on a bad literal.
func MustSeconds(text string) Seconds {
	s, err := ParseSeconds(text)
	if err != nil {
		panic(err)
	}
	return s
}

// normalise drops trailing zeros and positive exponents, so that equal values
// have equal digits and print the same.
func (s *Seconds) normalise() {
	s.d.Reduce(&s.d)
	if s.d.Exponent > 0 {
		whole, err := s.d.Int64()
		if err == nil {
			s.d.SetFinite(whole, 0)
		}
	}
	if s.d.IsZero() {
		s.d.SetFinite(0, 0)
	}
}

func (s Seconds) with(op func(*apd.Context, *apd.Decimal, *apd.Decimal, *apd.Decimal) (apd.Condition, error), o Seconds) Seconds {
	var r Seconds
	if _, err := op(&arith, &r.d, &s.d, &o.d); err != nil {
		// Both operands are finite and bounded: only a division by zero can
		// come here, and no caller divides by what it has not checked.
		panic(fmt.Sprintf("seconds arithmetic: %v", err))
	}
	r.normalise()
	return r
}

// Add gives s + o.
func (s Seconds) Add(o Seconds) Seconds { return s.with((*apd.Context).Add, o) }

// Sub gives s - o.
func (s Seconds) Sub(o Seconds) Seconds { return s.with((*apd.Context).Sub, o) }

// Mul gives s * o, for fractions.
func (s Seconds) Mul(o Seconds) Seconds { return s.with((*apd.Context).Mul, o) }

// Cmp gives -1, 0 or 1.
func (s Seconds) Cmp(o Seconds) int { return s.d.Cmp(&o.d) }

// Sign gives -1, 0 or 1.
func (s Seconds) Sign() int { return s.d.Sign() }

// IsZero tells whether s is 0; encoding/json's omitzero uses it.
func (s Seconds) IsZero() bool { return s.d.IsZero() }

// Equal tells whether both are the same number.
func (s Seconds) Equal(o Seconds) bool { return s.Cmp(o) == 0 }

// Duration gives s rounded down to the nanosecond and clamped to the range of
// [time.Duration] (about 292 years).
func (s Seconds) Duration() time.Duration {
	if s.d.Exponent >= -9 && s.d.Exponent <= 0 {
		if n, err := s.scaled(); err == nil {
			return n
		}
	}
	var ns, scale apd.Decimal
	scale.SetFinite(1, 9)
	_, _ = arith.Mul(&ns, &s.d, &scale)
	_, _ = arith.Floor(&ns, &ns)
	n, err := ns.Int64()
	switch {
	case err == nil:
		return time.Duration(n)
	case s.d.Negative:
		return math.MinInt64
	default:
		return math.MaxInt64
	}
}

var errNotScalable = errors.New("does not fit")

// scaled is the fast path of Duration for coefficients that fit an int64.
func (s Seconds) scaled() (time.Duration, error) {
	if !s.d.Coeff.IsInt64() {
		return 0, errNotScalable
	}
	n := s.d.Coeff.Int64()
	for range int(9 + s.d.Exponent) {
		if n > math.MaxInt64/10 {
			return 0, errNotScalable
		}
		n *= 10
	}
	if s.d.Negative {
		n = -n
	}
	return time.Duration(n), nil
}

// String prints plain decimal digits, never an exponent.
func (s Seconds) String() string { return s.d.Text('f') }

// Append appends what [Seconds.String] gives.
func (s Seconds) Append(b []byte) []byte { return s.d.Append(b, 'f') }

// MarshalJSON writes a JSON number with exactly the digits of s.
func (s Seconds) MarshalJSON() ([]byte, error) { return s.d.Append(nil, 'f'), nil }

// UnmarshalJSON reads a JSON number (or a string holding one) exactly.
func (s *Seconds) UnmarshalJSON(b []byte) error {
	text := string(b)
	if len(text) >= 2 && text[0] == '"' {
		text = text[1 : len(text)-1]
	}
	v, err := ParseSeconds(text)
	if err != nil {
		return err
	}
	*s = v
	return nil
}
