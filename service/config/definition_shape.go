package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/nats-io/nkeys"

	"github.com/leasesvc/leasesvc/events"
)

// Bounds of what one definition may name.
const (
	maxConsumers = 256
	maxRequire   = 64
	maxParams    = 64
)

func (defs *Definitions) shape(base *draft) shape {
	return object{fields: []field{
		{name: "revision", shape: integer{to: func(v int64) { defs.Revision = uint64(v) }, min: 1, max: math.MaxInt64}, required: true},
		{name: "defaults", shape: newDraft(base.rules).shape(true)},
		{name: "leases", shape: named{"lease", func(name string) shape {
			return lease{name, defs, base.copy()}
		}, 0}, required: true},
		{name: "documents", shape: named{"document", func(name string) shape {
			return documentContent{name, defs, base.rules}
		}, 0}, def: "{}"},
	}}
}

// documentContent reads one settings document.
type documentContent struct {
	name string
	defs *Definitions
	rules
}

func (c documentContent) read(d *decoder, n *node, p place) {
	var tree any
	before := len(d.errs)
	content{&tree, c.checkReference}.read(d, n, p)
	if len(d.errs) > before {
		return
	}
	if c.checkDocument != nil {
		if err := c.checkDocument(c.name, tree); err != nil {
			d.failAt(p.Position, p.key, "%v", err)
		}
	}
	c.defs.Documents[c.name] = tree
	c.defs.places["documents."+c.name] = p.Position
}

func (documentContent) typ() string                  { return "mapping" }
func (documentContent) children(func(string, field)) {}

// lease reads one definition.
type lease struct {
	name string
	defs *Definitions
	*draft
}

func (l lease) read(d *decoder, n *node, p place) {
	l.draft.shape(false).read(d, n, p)
	l.defs.Leases[l.name] = l.def
	l.defs.places[l.name] = p.Position
}

func (l lease) typ() string { return "mapping" }
func (l lease) children(visit func(string, field)) {
	l.draft.shape(false).children(visit)
}

// draft is a definition while it is read: the defaults, and what stands on
// top of them.
type draft struct {
	rules
	def events.Definition
}

func newDraft(r rules) *draft { return &draft{r, events.DefaultDefinition()} }

// copy gives a draft that a lease can change without changing the defaults.
func (l *draft) copy() *draft {
	c := *l
	c.def.Require = slices.Clone(l.def.Require)
	c.def.Consumers = slices.Clone(l.def.Consumers)
	c.def.Params = maps.Clone(l.def.Params)
	if l.def.Verifier != nil {
		v := *l.def.Verifier
		v.Command, v.Headers = slices.Clone(v.Command), maps.Clone(v.Headers)
		c.def.Verifier = &v
	}
	return &c
}

// shape gives the keys of a lease, or those that defaults may have: all but
// path.
func (l *draft) shape(defaults bool) shape {
	def := &l.def
	fields := []field{
		{name: "vault", shape: text{to: &def.Vault, what: "name of a Vault connection", check: l.checkVault}, def: "the only connection"},
		{name: "kind", shape: choice[events.Kind]{&def.Kind, events.Kinds()}, def: "generic"},
		{name: "method", shape: choice[string]{&def.Method, []string{"GET", "POST", "PUT"}}},
		{name: "params", shape: l.params(), def: "{}"},
		{name: "require", shape: l.require(), def: "[]"},
		{name: "renew_at", shape: fraction{&def.RenewAt}, def: "0.5"},
		{name: "fallback_ttl", shape: duration{&def.FallbackTTL, "1s", "87600h"}, def: "1h"},
		{name: "verifier", shape: l.verifier()},
		{name: "consumers", shape: l.consumers(), def: "[]"},
		{name: "width", shape: integer{to: func(v int64) { def.Width = uint64(v) }, min: 0, max: 10_000}, def: "0"},
		{name: "prepare_timeout", shape: duration{&def.PrepareTimeout, "10ms", "1h"}, def: "30s"},
		{name: "rollback_timeout", shape: duration{&def.RollbackTimeout, "10ms", "10m"}, def: "5s"},
		{name: "good_for", shape: duration{&def.GoodFor, "0s", "24h"}, def: "30s"},
		{name: "poll", shape: duration{&def.Poll, "1s", "24h"}, def: "5s"},
		{name: "acquisitions_per_hour", shape: integer{to: func(v int64) { def.AcquisitionsPerHour = int(v) }, min: 1, max: 100_000}, def: "60"},
		{name: "retire_after", shape: duration{&def.RetireAfter, "10ms", "8760h"}, def: "1h"},
		{name: "leave_after", shape: duration{&def.LeaveAfter, "100ms", "24h"}, def: "60s"},
	}
	if !defaults {
		fields = append(fields, field{name: "version", shape: integer{to: func(v int64) { def.Version = uint64(v) }, min: 1, max: math.MaxInt32}})
		fields = slices.Insert(fields, 1, field{name: "path", shape: text{to: &def.Path, what: "Vault path", check: checkVaultPath, allowed: "a path in Vault, such as database/creds/orders"}, required: true})
	}
	return object{fields: fields, check: func(d *decoder, f *found) {
		if f.ok("good_for", "retire_after") && def.RetireAfter.Cmp(def.GoodFor) < 0 && (defaults || f.has("retire_after") || f.has("good_for")) {
			f.fail(d, []string{"retire_after", "good_for"}, "retire_after (%ss) is shorter than good_for (%ss): a credential would be revoked while its promise still stands", def.RetireAfter, def.GoodFor)
		}
		if !defaults {
			l.finish(d, f)
		}
	}}
}

// finish checks what only a whole definition can be asked, and puts it in its
// canonical order.
func (l *draft) finish(d *decoder, f *found) {
	def := &l.def
	if def.Vault == "" && f.ok("vault") {
		if len(l.vaults) == 1 {
			def.Vault = l.vaults[0]
		} else {
			d.failAt(f.Position, f.key+".vault", "is missing, and is required where there is more than one Vault connection; known: %s", strings.Join(l.vaults, ", "))
		}
	}
	l.finishRead(d, f)
	slices.Sort(def.Require)
	slices.SortFunc(def.Consumers, func(a, b events.Consumer) int { return cmp.Compare(a.Name, b.Name) })
	if v := def.Verifier; v != nil && f.ok("kind", "require", "verifier") {
		for _, key := range verifierKeys(v) {
			if !slices.Contains(def.Keys(), key) {
				f.fail(d, []string{"verifier", "require", "kind"}, "the verifier uses {{%s}}, which a credential of kind %s need not have; add it to require, or set kind", key, def.Kind)
			}
		}
	}
}

// finishRead settles how the path is read: with POST where there is something to
// send, or a certificate to make, unless the file says otherwise. In the log GET
// is the method that is not named.
func (l *draft) finishRead(d *decoder, f *found) {
	def := &l.def
	if f.ok("version", "kind", "path") && def.Version > 0 && !(def.Kind == events.KindKV && strings.Contains(def.Path, "/data/")) {
		f.fail(d, []string{"version"}, "only a secret of KV version 2 has versions (kind: kv, and a path such as secret/data/NAME)")
	}
	if f.ok("kind", "method", "params") && def.Kind == events.KindKV && (len(def.Params) > 0 || def.Method != "" && def.Method != http.MethodGet) {
		f.fail(d, []string{"params", "method", "kind"}, "a secret of kind kv is read with GET and takes no parameters")
	}
	switch {
	case def.Method == http.MethodGet:
		def.Method = ""
	case def.Method == "" && (def.Kind == events.KindPKI || len(def.Params) > 0):
		def.Method = http.MethodPost
	}
}

func (l *draft) checkVault(s string) error {
	if err := checkName(s); err != nil {
		return err
	}
	if slices.Contains(l.vaults, s) {
		return nil
	}
	hint := ""
	if best := nearest(s, l.vaults); best != "" {
		hint = fmt.Sprintf(", did you mean %q?", best)
	}
	return fmt.Errorf("there is no Vault connection %s%s; known: %s", shownValue(s), hint, strings.Join(l.vaults, ", "))
}

func (l *draft) require() shape {
	var keys []string
	return sequence{max: maxRequire, elem: func() shape {
		return text{to: new(string), what: "key of a credential", check: checkCredentialKey}
	}, check: func(d *decoder, n *node, p place) {
		for i, item := range n.items {
			if slices.Contains(keys, item.text) {
				d.failAt(item.Position, fmt.Sprintf("%s[%d]", p.key, i), "%q stands twice", item.text)
				continue
			}
			keys = append(keys, item.text)
		}
		l.def.Require = keys
	}}
}

func checkCredentialKey(s string) error {
	if s == "" || len(s) > 64 {
		return fmt.Errorf("has %d bytes; allowed: 1 to 64", len(s))
	}
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-' && r != '.' {
			return errors.New("has a character that is not allowed; allowed: letters, digits, dots, hyphens and underscores")
		}
	}
	return nil
}

func (l *draft) consumers() shape {
	var all []events.Consumer
	return sequence{max: maxConsumers, elem: func() shape {
		var c events.Consumer
		return object{fields: []field{
			{name: "name", shape: name(&c.Name), required: true},
			{name: "key", shape: text{to: &c.Key, what: "public user nkey", check: checkConsumerKey, allowed: "a public user nkey (56 characters, U first)"}},
			{name: "optional", shape: boolean{&c.Optional}, def: "false"},
		}, check: func(d *decoder, f *found) {
			if !f.has("key") && !l.insecure {
				d.failAt(f.Position, f.key+".key", "is missing, and is required (a public user nkey) unless the service file says insecure_consumers: true")
			}
			for _, other := range all {
				if f.ok("name") && c.Name != "" && other.Name == c.Name {
					f.fail(d, []string{"name"}, "consumer %q stands twice", c.Name)
				}
				if f.ok("key") && c.Key != "" && other.Key == c.Key {
					f.fail(d, []string{"key"}, "is the key of consumer %q too; each needs its own, or one could answer for the other", other.Name)
				}
			}
			all = append(all, c)
		}}
	}, check: func(*decoder, *node, place) { l.def.Consumers = all }}
}

func checkConsumerKey(s string) error {
	switch {
	case nkeys.IsValidPublicUserKey(s):
		return nil
	case strings.HasPrefix(s, "S"):
		return errors.New("looks like a seed, which is a secret and belongs to the consumer only; take it out of this file, replace it, and put the public key here")
	case nkeys.IsValidPublicKey(s):
		return errors.New("is a public key, but not a user's")
	default:
		return errors.New("is not a public user nkey, or has a typing error in it (its checksum does not match)")
	}
}

// checkVaultPath checks what is read in Vault.
func checkVaultPath(s string) error {
	switch {
	case s == "" || len(s) > 512:
		return errors.New("is empty or longer than 512 bytes")
	case strings.HasPrefix(s, "/") || strings.HasSuffix(s, "/"):
		return errors.New("begins or ends with a slash, which is not allowed")
	case strings.HasPrefix(s, "v1/"):
		return errors.New("begins with v1/, which leasesvc adds itself; leave it out")
	}
	for _, r := range s {
		if r <= ' ' || r >= 0x7f || strings.ContainsRune(`?#%\*"<>`+"`", r) {
			return errors.New(`has a space or one of ? # % * \ < > and quotes, which are not allowed`)
		}
	}
	for _, part := range strings.Split(s, "/") {
		switch part {
		case "":
			return errors.New("has two slashes in a row, which is not allowed")
		case ".", "..":
			return errors.New(`has "." or ".." for a part, which is not allowed`)
		}
	}
	if first, _, _ := strings.Cut(s, "/"); first == "sys" || first == "auth" {
		return fmt.Errorf("is under %s/, where no credentials are", first)
	}
	return nil
}
