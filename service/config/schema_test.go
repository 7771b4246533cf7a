package config

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"
)

func compiled(t *testing.T, text []byte, err error) *jsonschema.Schema {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatalf("the schema is none: %v", err)
	}
	return s
}

func validate(t *testing.T, s *jsonschema.Schema, text string) error {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return s.Validate(v)
}

// TestSchemaTakesWhatIsRead: the examples, and every yaml block of the
// documentation, are right by the schema too.
func TestSchemaTakesWhatIsRead(t *testing.T) {
	service, err := Schema()
	s := compiled(t, service, err)
	definitions, err := DefinitionsSchema()
	d := compiled(t, definitions, err)
	exampleS, exampleD := Example()
	if err := validate(t, s, exampleS); err != nil {
		t.Error(err)
	}
	if err := validate(t, d, exampleD); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(documentation)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, m := range fence.FindAllStringSubmatch(string(text), -1) {
		of := s
		if m[1] == "definitions" {
			of = d
		}
		if err := validate(t, of, m[2]); err != nil {
			t.Errorf("%v in\n%s", err, m[2])
		}
		seen++
	}
	if seen < 3 {
		t.Errorf("only %d examples were looked at", seen)
	}
}

func TestSchemaRefusesWhatIsNotRead(t *testing.T) {
	service, err := Schema()
	s := compiled(t, service, err)
	definitions, err := DefinitionsSchema()
	d := compiled(t, definitions, err)
	const good = "nats: {embedded: {}}\nstate_dir: s\nseal_key: {env: K}\nvaults: {main: {address: \"https://v:8200\", token_file: t}}\nscopes: {prod: {definitions: d.yaml}}\n"
	if err := validate(t, s, good); err != nil {
		t.Fatal(err)
	}
	for change, what := range map[string]string{
		"statedir: s\n":               "an unknown key",
		"heartbeat: soon\n":           "no duration",
		"log: {level: loud}\n":        "no level",
		"insecure_consumers: maybe\n": "no truth value",
	} {
		if validate(t, s, good+change) == nil {
			t.Errorf("%s is taken", what)
		}
	}
	if validate(t, s, strings.Replace(good, "state_dir: s\n", "", 1)) == nil {
		t.Error("a file without state_dir is taken")
	}
	if validate(t, s, strings.Replace(good, "prod:", "a.b:", 1)) == nil {
		t.Error("a scope with a dot in its name is taken")
	}
	for _, bad := range []string{
		"revision: 0\nleases: {}\n",
		"leases: {}\n",
		"revision: 1\nleases: {a: {path: p, kind: nosuch}}\n",
		"revision: 1\nleases: {a: {kind: kv}}\n",
		"revision: 1\nleases: {a: {path: p, renew_at: 2}}\n",
	} {
		if validate(t, d, bad) == nil {
			t.Errorf("taken: %s", bad)
		}
	}
}

// TestSchemaHasEveryKey that is read.
func TestSchemaHasEveryKey(t *testing.T) {
	service, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	definitions, err := DefinitionsSchema()
	if err != nil {
		t.Fatal(err)
	}
	all := string(service) + string(definitions)
	for key := range known(t) {
		name := key[strings.LastIndex(key, ".")+1:]
		if name != "NAME" && !strings.HasSuffix(name, "[]") && !strings.Contains(all, `"`+name+`": {`) {
			t.Errorf("the schemas have no %s", key)
		}
	}
}
