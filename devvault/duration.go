package devvault

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

var errNotADuration = errors.New("could not parse duration as string")

// parseSeconds reads a duration as the API takes it: a number of seconds, or
// text such as "3600", "1h30m", "2d".
func parseSeconds(v any) (time.Duration, error) {
	switch v := v.(type) {
	case nil:
		return 0, nil
	case json.Number:
		return parseSecondsText(v.String())
	case float64:
		return secondsOf(v)
	case int:
		return time.Duration(v) * time.Second, nil
	case string:
		return parseSecondsText(v)
	case time.Duration:
		return v, nil
	}
	return 0, errNotADuration
}

func parseSecondsText(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return secondsOf(float64(n))
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		return secondsOf(f)
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseInt(days, 10, 64); err == nil {
			return secondsOf(float64(n) * 24 * 3600)
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("reading a duration: %w", errNotADuration)
	}
	return d, nil
}

func secondsOf(f float64) (time.Duration, error) {
	if math.IsNaN(f) || math.Abs(f) > math.MaxInt64/float64(time.Second) {
		return 0, errNotADuration
	}
	return time.Duration(math.Trunc(f)) * time.Second, nil
}

// shortDuration prints d without its zero parts, as the API's warnings do.
func shortDuration(d time.Duration) string {
	if d == 0 {
		return "0s"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
