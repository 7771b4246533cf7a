package vault

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/cockroachdb/apd/v3"
)

// MaxDuration is the longest lease duration that is believed: ten years of 365
// days. Longer ones are clamped, with the reason.
const MaxDuration = 10 * 365 * 24 * time.Hour

// Duration is a lease duration as exact decimal seconds in [0, MaxDuration].
// The zero value is 0.
type Duration struct {
	decimal string
	std     time.Duration
}

// DurationOf gives d as exact seconds, clamped to [0, MaxDuration].
func DurationOf(d time.Duration) Duration {
	var dec apd.Decimal
	dec.SetFinite(int64(min(max(d, 0), MaxDuration)), -9)
	return fromDecimal(&dec)
}

// String gives the seconds as plain decimal digits, such as "3600" or "0.5",
// never with an exponent.
func (d Duration) String() string {
	if d.decimal == "" {
		return "0"
	}
	return d.decimal
}

// Std gives d as a time.Duration, exactly.
func (d Duration) Std() time.Duration { return d.std }

// IsZero tells whether d is 0.
func (d Duration) IsZero() bool { return d.std == 0 }

var (
	maxSeconds = apd.New(int64(MaxDuration/time.Second), 0)
	decimals   = apd.Context{Precision: 80, Rounding: apd.RoundFloor, MaxExponent: 1000, MinExponent: -1000, Traps: apd.DefaultTraps &^ apd.Inexact &^ apd.Rounded}
)

// readDuration reads a duration in whatever form it came (C15). The second
// value says what was odd about it; empty when it was a plain number in range.
// What can't be read counts as 0: L9 and L31 say what the caller makes of that.
func readDuration(field string, raw json.RawMessage) (Duration, string) {
	text := string(raw)
	switch {
	case text == "":
		return Duration{}, field + " is absent, 0 counts"
	case text == "null":
		return Duration{}, field + " is null, 0 counts"
	case text[0] == '"':
		return readTextDuration(field, raw)
	case text[0] == '-' || text[0] >= '0' && text[0] <= '9':
		return clampNumber(field, text)
	case text[0] == '{':
		return Duration{}, field + " is an object, 0 counts"
	case text[0] == '[':
		return Duration{}, field + " is an array, 0 counts"
	}
	return Duration{}, field + " is a boolean, 0 counts"
}

func readTextDuration(field string, raw json.RawMessage) (Duration, string) {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return Duration{}, field + " is an unreadable text, 0 counts"
	}
	text = strings.TrimSpace(text)
	if d, err := time.ParseDuration(text); err == nil && text != "0" {
		exact := apd.New(int64(d), -9)
		value, why := clampNumber(field, exact.Text('f'))
		return value, join(field+" came as a text", why)
	}
	if json.Valid([]byte(text)) && text != "" && (text[0] == '-' || text[0] >= '0' && text[0] <= '9') {
		value, why := clampNumber(field, text)
		return value, join(field+" came as a text", why)
	}
	// The text itself is not repeated: whatever it is, it is no duration.
	return Duration{}, field + " is a text that is no duration, 0 counts"
}

func clampNumber(field, text string) (Duration, string) {
	if len(text) > 64 {
		return Duration{}, fmt.Sprintf("%s is a number of %d characters, 0 counts", field, len(text))
	}
	var d apd.Decimal
	if _, _, err := d.SetString(text); err != nil || d.Form != apd.Finite {
		return Duration{}, fmt.Sprintf("%s %s is out of any range, 0 counts", field, text)
	}
	switch {
	case d.Negative && !d.IsZero():
		return Duration{}, fmt.Sprintf("%s %s is negative, 0 counts", field, text)
	case d.Cmp(maxSeconds) > 0:
		return fromDecimal(maxSeconds), fmt.Sprintf("%s %s is above ten years, %s counts", field, text, maxSeconds)
	}
	whole := fromDecimal(&d)
	var back apd.Decimal
	if _, _, err := back.SetString(whole.String()); err == nil && back.Cmp(&d) != 0 {
		return whole, fmt.Sprintf("%s %s is finer than a nanosecond, %s counts", field, text, whole)
	}
	return whole, ""
}

// fromDecimal takes a number in range and drops what is below a nanosecond.
func fromDecimal(d *apd.Decimal) Duration {
	var ns apd.Decimal
	if _, err := decimals.Mul(&ns, d, apd.New(1, 9)); err != nil {
		return Duration{}
	}
	if _, err := decimals.Floor(&ns, &ns); err != nil {
		return Duration{}
	}
	n, err := ns.Int64()
	if err != nil || n == 0 {
		return Duration{} // one zero, so that values can be compared
	}
	var exact apd.Decimal
	exact.SetFinite(n, -9)
	exact.Reduce(&exact)
	return Duration{decimal: exact.Text('f'), std: time.Duration(n)}
}

func join(a, b string) string {
	if b == "" {
		return a
	}
	return a + "; " + b
}
