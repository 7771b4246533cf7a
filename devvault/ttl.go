package devvault

import (
	"errors"
	"fmt"
	"time"
)

// errPastMaxTTL is what a renewal at the end of the maximum TTL meets.
var errPastMaxTTL = errors.New("past the max TTL, cannot renew")

// grant is everything that decides how long something may live from now.
// Durations of zero mean "not given".
type grant struct {
	increment, usual, period, max, explicitMax time.Duration
	// issued is when it began to live; the zero time means now.
	issued time.Time
	// systemDefault and systemMax are the mount's own limits.
	systemDefault, systemMax time.Duration
}

// ttl works out the time to live that is granted at now, in whole seconds,
// and warnings for what was shortened. Order: a period wins over what is
// asked; what is asked wins over the role's default, which wins over the
// mount's. Nothing but a period without an explicit maximum outlives
// issued+maximum.
func (g grant) ttl(now time.Time) (time.Duration, []string, error) {
	now = now.Truncate(time.Second)
	issued := now
	if !g.issued.IsZero() {
		issued = g.issued.Truncate(time.Second)
	}
	limit := g.systemMax
	for _, m := range []time.Duration{g.max, g.explicitMax} {
		if m > 0 && m < limit {
			limit = m
		}
	}
	if limit <= 0 {
		return 0, nil, errors.New("max TTL must be greater than zero")
	}

	var warnings []string
	var ttl time.Duration
	var end time.Time
	if g.period > 0 {
		ttl = g.period
		if ttl > limit {
			warnings = append(warnings, fmt.Sprintf("period of %q exceeded the effective max_ttl of %q; period value is capped accordingly",
				shortDuration(ttl), shortDuration(limit)))
			ttl = limit
		}
		if g.explicitMax > 0 {
			end = issued.Add(g.explicitMax)
		}
	} else {
		ttl = firstPositive(g.increment, g.usual, g.systemDefault)
		end = issued.Add(limit)
	}
	if end.IsZero() {
		return ttl, warnings, nil
	}
	left := end.Sub(now)
	if left <= 0 {
		return 0, nil, errPastMaxTTL
	}
	if ttl > left {
		warnings = append(warnings, fmt.Sprintf("TTL of %q exceeded the effective max_ttl of %q; TTL value is capped accordingly",
			shortDuration(ttl), shortDuration(left)))
		ttl = left
	}
	return ttl, warnings, nil
}

func firstPositive(ds ...time.Duration) time.Duration {
	for _, d := range ds {
		if d > 0 {
			return d
		}
	}
	return 0
}

// secondsLeft is the "ttl" of lookups: whole seconds, counted from the clock
// rounded to the second.
func secondsLeft(expires, now time.Time) int64 {
	return int64(expires.Sub(now.Round(time.Second)).Seconds())
}
