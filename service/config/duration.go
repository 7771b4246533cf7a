package config

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/leasesvc/leasesvc/events"
)

// duration is a span of time: Go's way ("1h30m") or a number of seconds
// (0.5), exact, within min and max.
type duration struct {
	to       *events.Seconds
	min, max string // as a person would write them
}

const durationExamples = `write 30s, 1h30m or 500ms, or seconds as a number: 30, 0.5`

var (
	plainSeconds = regexp.MustCompile(`^[0-9]{1,12}(\.[0-9]{1,9})?$`)
	spans        = regexp.MustCompile(`^([0-9]{1,12}(\.[0-9]{1,9})?(h|ms|m|s|us|µs|μs|ns))+$`)
	span         = regexp.MustCompile(`([0-9]+(?:\.[0-9]+)?)(h|ms|m|s|us|µs|μs|ns)`)
)

// unit gives the seconds of each unit.
var unit = map[string]events.Seconds{
	"h": events.WholeSeconds(3600), "m": events.WholeSeconds(60), "s": events.WholeSeconds(1),
	"ms": events.MustSeconds("0.001"), "us": events.MustSeconds("0.000001"), "µs": events.MustSeconds("0.000001"),
	"μs": events.MustSeconds("0.000001"), "ns": events.MustSeconds("0.000000001"),
}

func (t duration) read(d *decoder, n *node, p place) {
	if n.kind != scalar || n.isBool() {
		d.fail(n, p, "%s where a duration is expected; %s; allowed: %s to %s", n.describe(), durationExamples, t.min, t.max)
		return
	}
	v, err := parseDuration(n.text, n.isPlain())
	if err != nil {
		d.fail(n, p, "%v; allowed: %s to %s", err, t.min, t.max)
		return
	}
	if v.Cmp(bound(t.min)) < 0 || v.Cmp(bound(t.max)) > 0 {
		d.fail(n, p, "%s is out of range; allowed: %s to %s", shownValue(n.text), t.min, t.max)
		return
	}
	*t.to = v
}

// bound reads a bound of ours.
func bound(s string) events.Seconds {
	v, err := parseDuration(s, true)
	if err != nil {
		panic(err) // a literal in this package; the documentation's test reads them all
	}
	return v
}

// parseDuration reads a duration to the nanosecond; plain says that the text
// stands without quotes, so that bare digits are a number.
func parseDuration(s string, plain bool) (events.Seconds, error) {
	none := events.Seconds{}
	switch {
	case len(s) > 64:
		return none, fmt.Errorf("%s is not a duration; %s", shownValue(s), durationExamples)
	case strings.HasPrefix(s, "-"):
		return none, fmt.Errorf("%s is negative; %s", shownValue(s), durationExamples)
	case plainSeconds.MatchString(s) && !plain:
		return none, fmt.Errorf("%s is a text without a unit; %s", shownValue(s), durationExamples)
	case plainSeconds.MatchString(s):
		v, err := events.ParseSeconds(s)
		if err != nil {
			return none, fmt.Errorf("%s is out of range", shownValue(s))
		}
		return v, nil
	case !spans.MatchString(s):
		hint := ""
		if strings.HasSuffix(s, "d") || strings.HasSuffix(s, "w") {
			hint = " (days and weeks are written in hours: 24h, 168h)"
		}
		return none, fmt.Errorf("%s is not a duration%s; %s", shownValue(s), hint, durationExamples)
	}
	sum := none
	for _, part := range span.FindAllStringSubmatch(s, -1) {
		count, err := events.ParseSeconds(part[1])
		if err != nil {
			return none, fmt.Errorf("%s is out of range", shownValue(s))
		}
		sum = sum.Add(count.Mul(unit[part[2]]))
	}
	if sum.Cmp(events.WholeSeconds(events.MaxSeconds)) > 0 {
		return none, fmt.Errorf("%s is out of range", shownValue(s))
	}
	if !events.FromDuration(sum.Duration()).Equal(sum) && sum.Cmp(events.WholeSeconds(9_000_000_000)) < 0 {
		return none, fmt.Errorf("%s is finer than a nanosecond", shownValue(s))
	}
	return sum, nil
}

func (t duration) typ() string                { return "duration, " + t.min + " to " + t.max }
func (duration) children(func(string, field)) {}

// fraction is an exact decimal above 0 and below 1.
type fraction struct{ to *events.Seconds }

var decimal = regexp.MustCompile(`^0?\.[0-9]{1,9}$`)

func (f fraction) read(d *decoder, n *node, p place) {
	if n.kind != scalar || n.isBool() {
		d.fail(n, p, "%s where a fraction is expected; allowed: %s", n.describe(), f.typ())
		return
	}
	v, err := events.ParseSeconds(n.text)
	if !n.isPlain() || !decimal.MatchString(n.text) || err != nil || v.Sign() <= 0 {
		d.fail(n, p, "%s is not allowed; allowed: %s, such as 0.5", shownValue(n.text), f.typ())
		return
	}
	*f.to = v
}

func (fraction) typ() string                  { return "decimal above 0 and below 1, at most 9 digits" }
func (fraction) children(func(string, field)) {}
