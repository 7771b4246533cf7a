package config

import (
	"regexp"
	"strconv"
)

// rate is how many times in a second: a decimal above 0.
type rate struct{ to *float64 }

// maxRate bounds a rate; the client has the same bound.
const maxRate = 1e6

var rates = regexp.MustCompile(`^[0-9]{1,7}(\.[0-9]{1,6})?$`)

func (r rate) read(d *decoder, n *node, p place) {
	if n.kind != scalar || n.isBool() {
		d.fail(n, p, "%s where a number is expected; allowed: %s", n.describe(), r.typ())
		return
	}
	v, err := strconv.ParseFloat(n.text, 64)
	if !n.isPlain() || !rates.MatchString(n.text) || err != nil || v <= 0 || v > maxRate {
		d.fail(n, p, "%s is not allowed; allowed: %s, such as 50 or 0.5", shownValue(n.text), r.typ())
		return
	}
	*r.to = v
}

func (rate) typ() string                  { return "number above 0, up to 1000000" }
func (rate) children(func(string, field)) {}
