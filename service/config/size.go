package config

import (
	"math/big"
	"regexp"
	"strconv"
)

// size is a number of bytes: 1GiB, 500MB, or plain bytes.
type size struct {
	to       *int64
	min, max string
}

var sizeForm = regexp.MustCompile(`^([0-9]{1,15}(?:\.[0-9]{1,6})?) ?(B|KiB|MiB|GiB|TiB|KB|MB|GB|TB)?$`)

// bytesPer gives the bytes of each unit.
var bytesPer = map[string]int64{
	"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
	"KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
}

func (s size) read(d *decoder, n *node, p place) {
	if n.kind != scalar || n.isBool() {
		d.fail(n, p, "%s where a size is expected; write 1GiB, 500MB or a number of bytes; allowed: %s to %s", n.describe(), s.min, s.max)
		return
	}
	v, ok := parseSize(n.text)
	if !ok {
		d.fail(n, p, "%s is not a size; write 1GiB, 500MB or a number of bytes; allowed: %s to %s", shownValue(n.text), s.min, s.max)
		return
	}
	least, _ := parseSize(s.min)
	most, _ := parseSize(s.max)
	if v < least || v > most {
		d.fail(n, p, "%s is out of range; allowed: %s to %s", shownValue(n.text), s.min, s.max)
		return
	}
	*s.to = v
}

// parseSize reads a size; part of a byte is no size.
func parseSize(s string) (int64, bool) {
	m := sizeForm.FindStringSubmatch(s)
	if m == nil {
		return 0, false
	}
	v, ok := new(big.Rat).SetString(m[1])
	if !ok {
		return 0, false
	}
	v.Mul(v, new(big.Rat).SetInt64(bytesPer[m[2]]))
	if !v.IsInt() {
		return 0, false
	}
	n, err := strconv.ParseInt(v.Num().String(), 10, 64)
	return n, err == nil
}

func (s size) typ() string                { return "size, " + s.min + " to " + s.max }
func (size) children(func(string, field)) {}
