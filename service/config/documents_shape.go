package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

const maxVariables = 256

func (s *Documents) shape() shape {
	return object{fields: []field{
		{name: "vault", shape: text{to: &s.Vault, what: "name of a Vault connection", check: checkName}, def: "the only connection"},
		{name: "environment", shape: s.environment(), def: "[]"},
		{name: "poll", shape: duration{&s.Poll, "1s", "24h"}, def: "60s"},
		{name: "wait", shape: duration{&s.Wait, "10ms", "5m"}, def: "5s"},
	}}
}

func (s *Documents) environment() shape {
	var names []string
	return sequence{max: maxVariables, elem: func() shape {
		var name string
		v := variable(&name)
		check := v.check
		v.check = func(text string) error {
			if err := check(text); err != nil {
				return err
			}
			names = append(names, text)
			return nil
		}
		return v
	}, check: func(*decoder, *node, place) { s.Environment = names }}
}

// settleDocuments fills in the only Vault connection, and looks for those that
// are named.
func (c *Config) settleDocuments(d *decoder) {
	known := c.VaultNames()
	for _, name := range c.ScopeNames() {
		s := c.Scopes[name]
		key := "scopes." + name + ".documents.vault"
		switch {
		case s.Documents.Vault == "" && len(known) == 1:
			s.Documents.Vault = known[0]
			c.Scopes[name] = s
		case s.Documents.Vault != "" && !slices.Contains(known, s.Documents.Vault):
			d.failAt(d.places[key], key, "there is no Vault connection %s; known: %s", shownValue(s.Documents.Vault), strings.Join(known, ", "))
		}
	}
}

// content is the tree of a settings document, of any shape.
type content struct {
	to *any
	// check says what is wrong with a text; nil: nothing is looked for.
	check func(text string) error
}

func (t content) read(d *decoder, n *node, p place) {
	if n.kind != mapping && n.kind != list {
		d.fail(n, p, "%s where a mapping is expected: the content of the document", n.describe())
		return
	}
	*t.to = t.value(d, n, p)
}

func (t content) value(d *decoder, n *node, p place) any {
	switch {
	case n.kind == mapping:
		fields := make(map[string]any, len(n.entries))
		for _, e := range n.entries {
			fields[e.name] = t.value(d, e.value, p.below(e))
		}
		return fields
	case n.kind == list:
		items := make([]any, len(n.items))
		for i, item := range n.items {
			items[i] = t.value(d, item, place{fmt.Sprintf("%s[%d]", p.key, i), item.Position})
		}
		return items
	case n.kind == nothing:
		return nil
	case n.isBool():
		return strings.EqualFold(n.text, "true")
	case n.typ == number:
		return t.number(d, n, p)
	}
	if t.check != nil {
		if err := t.check(n.text); err != nil {
			d.fail(n, p, "%v", err)
		}
	}
	return n.text
}

// number takes what YAML and JSON write alike; 0x10, .inf and 1_000 are numbers
// of YAML's alone.
func (t content) number(d *decoder, n *node, p place) any {
	if !json.Valid([]byte(n.text)) {
		d.fail(n, p, "a number that JSON does not have; write it in decimal digits, or in quotes if it is meant as text")
		return nil
	}
	return json.Number(n.text)
}

func (content) typ() string                  { return "mapping" }
func (content) children(func(string, field)) {}
