package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// moment is a place in the log: a time, or a sequence.
type moment struct {
	Time time.Time
	Seq  uint64
}

// parseMoment reads what a person types for a moment before now: a time with its
// date (RFC 3339, or without the zone), a time of today, a duration ago ("10m"),
// or a sequence of the log ("#1234").
func parseMoment(text string, now time.Time) (moment, error) {
	if number, ok := strings.CutPrefix(text, "#"); ok {
		seq, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			return moment{}, fmt.Errorf("%q is not the number of an event", text)
		}
		return moment{Seq: seq}, nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return moment{Time: t}, nil
	}
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return moment{Time: t}, nil
		}
	}
	for _, layout := range []string{"15:04:05", "15:04"} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			y, m, d := now.Date()
			return moment{Time: time.Date(y, m, d, t.Hour(), t.Minute(), t.Second(), 0, now.Location())}, nil
		}
	}
	if d, err := time.ParseDuration(strings.TrimPrefix(text, "-")); err == nil && d >= 0 {
		return moment{Time: now.Add(-d)}, nil
	}
	return moment{}, fmt.Errorf("%q is not a time: write 2026-01-31T12:00:00Z, \"2026-01-31 12:00\", 12:00:05, 10m (ago), or #1234 for a sequence", text)
}

// before tells whether an event of this time and sequence is later than m.
func (m moment) before(t time.Time, seq uint64) bool {
	if m.Seq > 0 {
		return seq > m.Seq
	}
	return t.After(m.Time)
}
