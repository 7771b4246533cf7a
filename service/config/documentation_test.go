package config

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/leasesvc/leasesvc/events"
)

const documentation = "../../docs/configuration.md"

// row is a line of a table of keys in the documentation.
type row struct{ typ, def, example string }

// known gives every key that the shapes read, with what the documentation
// has to say about it.
func known(t *testing.T) map[string]field {
	keys := map[string]field{}
	var walk func(prefix string, s shape)
	walk = func(prefix string, s shape) {
		s.children(func(name string, f field) {
			key := prefix + name
			if prefix != "" && name != "[]" {
				key = prefix + "." + name
			}
			if strings.HasPrefix(key, "defaults.") {
				// The documentation says that defaults has the keys of a lease.
				return
			}
			if _, doubled := keys[key]; doubled && name != "NAME" && name != "[]" {
				t.Errorf("%s is in both files: the documentation needs a table for each", key)
			}
			keys[key] = f
			walk(key, f.shape)
		})
	}
	walk("", defaults().shape())
	walk("", (&Definitions{Leases: map[string]events.Definition{}, Documents: map[string]any{}, places: map[string]Position{}}).shape(newDraft(rules{vaults: []string{"main"}})))
	return keys
}

var tableRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]*) \\| ([^|]*) \\| ([^|]*) \\|")

func TestDocumentationHasEveryKey(t *testing.T) {
	text, err := os.ReadFile(documentation)
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]row{}
	for _, m := range tableRow.FindAllStringSubmatch(string(text), -1) {
		documented[m[1]] = row{m[2], m[3], m[4]}
	}
	keys := known(t)
	if len(keys) < 70 {
		t.Fatalf("only %d keys are known: the walk misses some", len(keys))
	}
	for key, f := range keys {
		if strings.HasSuffix(key, "NAME") || strings.HasSuffix(key, "[]") {
			continue // chosen by the user, or described with its list
		}
		def := "none"
		switch {
		case f.required:
			def = "required"
		case f.def != "":
			def = "`" + f.def + "`"
		}
		got, ok := documented[key]
		if !ok {
			t.Errorf("not documented: | `%s` | %s | %s | `` | |", key, f.typ(), def)
			continue
		}
		if got.typ != f.typ() || got.def != def {
			t.Errorf("%s is documented as %q, default %s; it is %q, default %s", key, got.typ, got.def, f.typ(), def)
		}
		// Fresh shapes for each: reading one example must not bear on another.
		readExample(t, key, got.example, known(t)[key])
	}
	for key := range documented {
		if _, ok := keys[key]; !ok {
			t.Errorf("documented, but not read: %s", key)
		}
	}
}

// readExample reads the example of a key as its shape does.
func readExample(t *testing.T, key, example string, f field) {
	t.Helper()
	value := strings.Trim(example, "`")
	if value == "" || value == example {
		t.Errorf("%s has no example in backticks", key)
		return
	}
	root, errs := parseTree("example", []byte("x: "+value+"\n"))
	if len(errs) > 0 {
		t.Errorf("the example of %s: %v", key, inFileOrder(errs))
		return
	}
	d := &decoder{file: "example"}
	f.read(d, root.entries[0].value, place{key: key, Position: Position{1, 1}})
	if err := inFileOrder(d.errs); err != nil {
		t.Errorf("the example of %s: %v", key, err)
	}
}

var fence = regexp.MustCompile("(?s)```yaml (service|definitions)\n(.*?)```")

func TestDocumentationExamplesAreRight(t *testing.T) {
	text, err := os.ReadFile(documentation)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, m := range fence.FindAllStringSubmatch(string(text), -1) {
		found[m[1]]++
		if m[1] == "service" {
			_, err = Parse("example.yaml", []byte(m[2]))
		} else {
			_, err = ParseDefinitions("example.yaml", []byte(m[2]), []string{"main"})
		}
		if err != nil {
			t.Errorf("%v in\n%s", err, m[2])
		}
	}
	if found["service"] < 2 || found["definitions"] < 1 || strings.Count(string(text), "```yaml") != found["service"]+found["definitions"] {
		t.Errorf("%v examples with a kind, of %d in all", found, strings.Count(string(text), "```yaml"))
	}
}

// Every bound and example that a message can show is one that is accepted.
func TestBoundsCanBeRead(t *testing.T) {
	for key, f := range known(t) {
		switch s := f.shape.(type) {
		case duration:
			if bound(s.min).Cmp(bound(s.max)) >= 0 {
				t.Errorf("%s: %s to %s", key, s.min, s.max)
			}
			if f.def == "" {
				t.Errorf("%s: a duration without a default", key)
			} else if v := bound(f.def); v.Cmp(*s.to) != 0 || v.Cmp(bound(s.min)) < 0 || v.Cmp(bound(s.max)) > 0 {
				t.Errorf("%s: the default is %s, documented as %s", key, s.to, f.def)
			}
		case size:
			least, okLeast := parseSize(s.min)
			most, okMost := parseSize(s.max)
			if def, ok := parseSize(f.def); !ok || !okLeast || !okMost || def != *s.to || def < least || def > most {
				t.Errorf("%s: %s to %s, default %s", key, s.min, s.max, f.def)
			}
		case boolean:
			if f.def != map[bool]string{true: "true", false: "false"}[*s.to] {
				t.Errorf("%s: the default is %v, documented as %s", key, *s.to, f.def)
			}
		case choice[string]:
			if f.def != *s.to || f.def != "" && !slices.Contains(s.allowed, f.def) {
				t.Errorf("%s: the default is %s, documented as %s", key, *s.to, f.def)
			}
		case text:
			if def := strings.Trim(f.def, `"`); def != *s.to && f.name != "vault" {
				t.Errorf("%s: the default is %q, documented as %s", key, *s.to, f.def)
			}
		}
	}
}

const vaultDocumentation = "../../docs/vault.md"

// TestVaultDocumentationSaysTheSame: docs/vault.md has a row for every key of a
// connection, with the type and the default that are real.
func TestVaultDocumentationSaysTheSame(t *testing.T) {
	text, err := os.ReadFile(vaultDocumentation)
	if err != nil {
		t.Fatal(err)
	}
	_, keysPart, _ := strings.Cut(string(text), "## Connections")
	keysPart, _, _ = strings.Cut(keysPart, "## Environment variables")
	documented := map[string]row{}
	for _, m := range tableRow.FindAllStringSubmatch(keysPart, -1) {
		documented[m[1]] = row{m[2], m[3], m[4]}
	}
	checked := 0
	keys := known(t)
	for key, f := range keys {
		name, of := strings.CutPrefix(key, "vaults.NAME.")
		if _, isObject := f.shape.(object); !of || isObject {
			continue
		}
		def := "none"
		switch {
		case f.required:
			def = "required"
		case f.def != "":
			def = "`" + f.def + "`"
		}
		if got, ok := documented[name]; !ok || got.typ != f.typ() || got.def != def {
			t.Errorf("docs/vault.md has %+v for %s; it is %q, default %s", got, name, f.typ(), def)
		} else {
			readExample(t, key, got.example, known(t)[key])
		}
		checked++
	}
	for name := range documented {
		if _, ok := keys["vaults.NAME."+name]; !ok {
			t.Errorf("docs/vault.md has a key that is not read: %s", name)
		}
	}
	if checked < 35 {
		t.Errorf("only %d keys were compared", checked)
	}
}

var yamlFence = regexp.MustCompile("(?s)```yaml\n(.*?)```")

func TestVaultDocumentationExamplesAreRight(t *testing.T) {
	text, err := os.ReadFile(vaultDocumentation)
	if err != nil {
		t.Fatal(err)
	}
	const around = "nats: {embedded: {}}\nstate_dir: s\nseal_key: {env: K}\nscopes: {prod: {definitions: d.yaml}}\n"
	parsed := 0
	for _, m := range yamlFence.FindAllStringSubmatch(string(text), -1) {
		var errs []error
		switch first, _, _ := strings.Cut(m[1], ":"); first {
		case "vaults":
			_, err := Parse("example.yaml", []byte(around+m[1]))
			errs = append(errs, err)
		case "leases":
			_, err := ParseDefinitions("example.yaml", []byte("revision: 1\n"+m[1]), []string{"main"})
			errs = append(errs, err)
		case "login":
			for line := range strings.Lines(m[1]) {
				_, err := Parse("example.yaml", []byte(around+"vaults:\n  main:\n    address: https://v:8200\n    tls: {cert: c, key: k}\n    "+line))
				errs = append(errs, err)
			}
		default:
			t.Errorf("an example of %s, which nothing reads:\n%s", first, m[1])
		}
		for _, err := range errs {
			parsed++
			if err != nil {
				t.Errorf("%v in\n%s", err, m[1])
			}
		}
	}
	if parsed < 6 {
		t.Errorf("only %d examples were read", parsed)
	}
}

// The examples of the page about traces are read as what stands in either file.
func TestTracingDocumentationIsRight(t *testing.T) {
	text, err := os.ReadFile("../../docs/tracing.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := yamlFence.FindAllStringSubmatch(string(text), -1)
	if len(examples) == 0 {
		t.Fatal("there is no example")
	}
	const (
		service = "nats: {embedded: {}}\nstate_dir: state\nseal_key: {file: k}\nvaults: {main: {address: \"http://127.0.0.1:8200\", token_file: t}}\nscopes: {prod: {definitions: d}}\n"
		agent   = "nats: {url: \"nats://127.0.0.1:4222\"}\nscope: prod\nconsumer: app\ninsecure: true\ntargets: {a: {lease: app, file: out}}\n"
	)
	for _, m := range examples {
		c, err := Parse("service.yaml", []byte(service+m[1]))
		if err != nil || c.Tracing == nil || c.Tracing.Sample != 0.2 || c.Tracing.ServiceName != "leasesvc" {
			t.Errorf("%v in\n%s", err, m[1])
		}
		a, err := ParseAgent("agent.yaml", []byte(agent+m[1]))
		if err != nil || a.Tracing == nil || a.Tracing.ServiceName != "leasesvc-agent" {
			t.Errorf("%v in\n%s", err, m[1])
		}
	}
	c, err := Parse("service.yaml", []byte(service+"tracing: {}\n"))
	if err != nil || c.Tracing == nil || *c.Tracing != (Tracing{Protocol: "http", Sample: 1, ServiceName: "leasesvc"}) {
		t.Errorf("%+v, %v", c, err)
	}
	for _, off := range []string{"", "tracing:\n"} {
		if c, err := Parse("service.yaml", []byte(service+off)); err != nil || c.Tracing != nil {
			t.Errorf("%q: %+v, %v", off, c, err)
		}
	}
}
