package config

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// maxParam is how many bytes a parameter's value may have.
const maxParam = 4096

// params are what is sent to Vault with a request. They go into the log.
type params struct{ to *map[string]string }

func (l *draft) params() shape { return params{&l.def.Params} }

var (
	paramName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)
	// secretive are names under which a secret would be sent; the log is no
	// place for one.
	secretive = regexp.MustCompile(`(?i)^(.*[_.-])?(password|passwd|secret|secret[_-]id|token|private[_-]key)$`)
)

func (m params) read(d *decoder, n *node, p place) {
	if n.kind != mapping {
		d.fail(n, p, "%s where a mapping of parameters is expected, as in {common_name: app.example.com}", n.describe())
		return
	}
	if len(n.entries) > maxParams {
		d.fail(n, p, "has %d parameters; at most %d are allowed", len(n.entries), maxParams)
		return
	}
	all := map[string]string{}
	for _, e := range n.entries {
		switch {
		case !paramName.MatchString(e.name):
			d.failAt(e.Position, p.key, "a parameter's name (%d characters) has something else than letters, digits, dots, hyphens and underscores, or is longer than 64", utf8.RuneCountInString(e.name))
		case secretive.MatchString(e.name):
			d.failAt(e.Position, p.below(e).key, "sounds like a secret, and parameters stand in the log; set it on the role in Vault instead")
		case e.value.kind == mapping, e.value.kind == list, e.value.kind == nothing, e.value.typ == pem:
			d.fail(e.value, p.below(e), "%s where a text, number or truth value is expected; several values are one text with commas", e.value.describe())
		case len(e.value.text) > maxParam:
			d.fail(e.value, p.below(e), "has %d bytes; at most %d are allowed", len(e.value.text), maxParam)
		default:
			all[e.name] = e.value.text
			if e.value.isBool() {
				all[e.name] = strings.ToLower(e.value.text)
			}
		}
	}
	*m.to = all
	if len(all) == 0 {
		*m.to = nil
	}
}

func (params) typ() string                  { return "mapping of parameters" }
func (params) children(func(string, field)) {}
