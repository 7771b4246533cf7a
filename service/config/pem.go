package config

import (
	encoding "encoding/pem"
)

// certificates are PEM texts, the only ones that may have lines.
type certificates struct{ to *string }

func (c certificates) read(d *decoder, n *node, p place) {
	if n.kind != scalar || n.typ != pem {
		d.fail(n, p, `%s where certificates are expected; write them after "|", each with its BEGIN and END lines`, n.describe())
		return
	}
	rest, some := []byte(n.text), false
	for {
		var block *encoding.Block
		if block, rest = encoding.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			d.fail(n, p, "holds something else than certificates; only those belong here, no key")
			return
		}
		some = true
	}
	if !some {
		d.fail(n, p, "is no PEM certificate; is a part of it missing?")
		return
	}
	*c.to = n.text
}

func (certificates) typ() string                  { return "PEM certificates" }
func (certificates) children(func(string, field)) {}
