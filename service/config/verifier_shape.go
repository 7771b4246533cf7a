package config

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/leasesvc/leasesvc/events"
)

// The kinds of verifiers, the commonest first.
var verifierKinds = []string{"postgresql", "mysql", "rabbitmq", "redis", "http", "command"}

// Bounds of what one verifier may name.
const (
	maxHeaders           = 16
	maxVerifierArguments = 64
)

func (l *draft) verifier() shape {
	v := events.Verifier{Timeout: events.DefaultVerifierTimeout}
	return object{fields: []field{
		{name: "kind", shape: choice[string]{&v.Kind, verifierKinds}, required: true},
		{name: "dsn", shape: text{to: &v.DSN, what: "DSN template", check: checkTemplate, allowed: `such as "postgres://{{username}}:{{password}}@host:5432/database"`}},
		{name: "headers", shape: headers{&v.Headers}},
		{name: "command", shape: arguments{&v.Command}},
		{name: "pass", shape: choice[string]{&v.Pass, []string{"stdin", "env"}}},
		{name: "timeout", shape: duration{&v.Timeout, "10ms", "1h"}, def: "15s"},
	}, check: func(d *decoder, f *found) {
		l.checkVerifierKeys(d, f, &v)
		l.def.Verifier = &v
	}}
}

// checkVerifierKeys checks that a verifier has what its kind needs and nothing
// that it doesn't, and what its kind thinks of it.
func (l *draft) checkVerifierKeys(d *decoder, f *found, v *events.Verifier) {
	if !f.ok("kind") {
		return
	}
	before := len(d.errs)
	needs := "dsn"
	if v.Kind == "command" {
		needs = "command"
	}
	if !f.has(needs) && f.ok(needs) {
		d.failAt(f.Position, f.key+"."+needs, "is missing, and is required for a verifier of kind %s", v.Kind)
	}
	for key, kind := range map[string]string{"command": "command", "pass": "command", "headers": "http"} {
		if f.has(key) && v.Kind != kind {
			f.fail(d, []string{key}, "is only for a verifier of kind %s", kind)
		}
	}
	if v.Kind == "command" && f.has("dsn") {
		f.fail(d, []string{"dsn"}, "is not for a verifier of kind command: the program knows where to log in")
	}
	if len(d.errs) > before || !f.ok("dsn", "headers", "command", "pass") {
		return
	}
	if v.Kind == "postgresql" {
		if err := checkDSN(v.DSN); err != nil {
			f.fail(d, []string{"dsn"}, `%v; allowed: such as "postgres://{{username}}:{{password}}@host:5432/database"`, err)
			return
		}
	}
	if v.Kind == "command" && l.boundToCommands && !slices.Contains(l.commands, v.Command[0]) {
		f.fail(d, []string{"command"}, "the service file does not allow this program; name it in verifier_commands there")
		return
	}
	if l.checkVerifier != nil {
		if err := l.checkVerifier(*v); err != nil {
			f.fail(d, []string{needs}, "%v", err)
		}
	}
}

// verifierKeys gives the keys that a verifier takes from a credential by name.
func verifierKeys(v *events.Verifier) []string {
	keys := placeholders(v.DSN)
	for _, name := range slices.Sorted(maps.Keys(v.Headers)) {
		for _, key := range placeholders(v.Headers[name]) {
			if !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// checkTemplate checks what every kind's template has in common. Its errors
// never repeat it: a password may stand in it.
func checkTemplate(s string) error {
	if s == "" || len(s) > 2048 {
		return errors.New("is empty or has more than 2048 bytes")
	}
	if rest := placeholder.ReplaceAllString(s, ""); strings.Contains(rest, "{{") || strings.Contains(rest, "}}") {
		return errors.New("has a {{ }} that is no placeholder; write {{username}} and {{password}}, without spaces")
	}
	return nil
}

// headers are what an HTTP verifier sends along.
type headers struct{ to *map[string]string }

var headerName = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)

func (h headers) read(d *decoder, n *node, p place) {
	if n.kind != mapping {
		d.fail(n, p, `%s where a mapping of headers is expected, as in {Authorization: "Bearer {{token}}"}`, n.describe())
		return
	}
	if len(n.entries) > maxHeaders {
		d.fail(n, p, "has %d headers; at most %d are allowed", len(n.entries), maxHeaders)
		return
	}
	all := map[string]string{}
	for _, e := range n.entries {
		if !headerName.MatchString(e.name) {
			d.failAt(e.Position, p.key, "a header's name (%d bytes) has something else than letters, digits and hyphens, or is longer than 64", len(e.name))
			continue
		}
		var value string
		text{to: &value, what: "header's value", check: checkTemplate, allowed: `such as "Bearer {{token}}"`}.read(d, e.value, p.below(e))
		all[e.name] = value
	}
	*h.to = all
}

func (headers) typ() string                  { return "mapping of headers" }
func (headers) children(func(string, field)) {}

// arguments are a program and its arguments.
type arguments struct{ to *[]string }

func (a arguments) read(d *decoder, n *node, p place) {
	if n.kind != list {
		d.fail(n, p, `%s where a list is expected, the program first, as in ["/usr/bin/check", "--quick"]; there is no shell`, n.describe())
		return
	}
	if len(n.items) == 0 || len(n.items) > maxVerifierArguments {
		d.fail(n, p, "has %d items; allowed: 1 to %d, the program first", len(n.items), maxVerifierArguments)
		return
	}
	var all []string
	for i, item := range n.items {
		var arg string
		at := place{fmt.Sprintf("%s[%d]", p.key, i), item.Position}
		text{to: &arg, what: "program's argument", check: func(s string) error {
			switch {
			case len(s) > 4096:
				return errors.New("has more than 4096 bytes")
			case strings.Contains(s, "{{"):
				return errors.New("has a placeholder: everybody on the machine can read a program's arguments; the credential comes on standard input, or in the environment with pass: env")
			case i == 0 && !filepath.IsAbs(s):
				return errors.New("is no absolute path")
			}
			return nil
		}, allowed: "a text"}.read(d, item, at)
		all = append(all, arg)
	}
	*a.to = all
}

func (arguments) typ() string                  { return "list of texts" }
func (arguments) children(func(string, field)) {}
