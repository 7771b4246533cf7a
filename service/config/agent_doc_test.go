package config

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

const agentDocumentation = "../../docs/agent.md"

// knownToAgents gives every key of an agent's file.
func knownToAgents() map[string]field {
	keys := map[string]field{}
	var walk func(prefix string, s shape)
	walk = func(prefix string, s shape) {
		s.children(func(name string, f field) {
			key := prefix + name
			if prefix != "" && name != "[]" {
				key = prefix + "." + name
			}
			if keys[key] = f; !strings.HasPrefix(key, "nats.") && !strings.HasSuffix(key, "[]") {
				walk(key, f.shape)
			}
		})
	}
	walk("", (&Agent{Log: Log{Format: "text", Level: "info"}, Targets: map[string]Target{}}).shape())
	return keys
}

func TestAgentDocumentationHasEveryKey(t *testing.T) {
	text, err := os.ReadFile(agentDocumentation)
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]row{}
	for _, m := range tableRow.FindAllStringSubmatch(string(text), -1) {
		documented[m[1]] = row{m[2], m[3], m[4]}
	}
	keys := knownToAgents()
	if len(keys) < 45 {
		t.Fatalf("only %d keys are known: the walk misses some", len(keys))
	}
	for key, f := range keys {
		if strings.HasSuffix(key, "NAME") || strings.HasSuffix(key, "[]") || strings.HasPrefix(key, "nats.") {
			continue // chosen by the user, or described elsewhere
		}
		def := "none"
		switch {
		case f.required:
			def = "required"
		case f.def != "":
			def = "`" + f.def + "`"
		}
		key = strings.TrimPrefix(key, "targets.NAME.")
		got, ok := documented[key]
		if !ok {
			t.Errorf("not documented: | `%s` | %s | %s | `` | |", key, f.typ(), def)
			continue
		}
		if got.typ != f.typ() || got.def != def {
			t.Errorf("%s is documented as %q, default %s; it is %q, default %s", key, got.typ, got.def, f.typ(), def)
		}
	}
	for key := range documented {
		_, top := keys[key]
		if _, of := keys["targets.NAME."+key]; !top && !of {
			t.Errorf("documented, but not read: %s", key)
		}
	}
}

var agentFence = regexp.MustCompile("(?s)```yaml (agent|targets)\n(.*?)```")

func TestAgentExamplesAreRight(t *testing.T) {
	text, err := os.ReadFile(agentDocumentation)
	if err != nil {
		t.Fatal(err)
	}
	const around = "nats: {url: \"nats://127.0.0.1\"}\nscope: prod\nconsumer: orders-api\ninsecure: true\n"
	all := agentFence.FindAllStringSubmatch(string(text), -1)
	for _, m := range all {
		src := m[2]
		if m[1] == "targets" {
			src = around + src
		}
		if _, err := ParseAgent("example.yaml", []byte(src)); err != nil {
			t.Errorf("%v in\n%s", err, m[2])
		}
	}
	if len(all) < 4 || strings.Count(string(text), "```yaml") != len(all) {
		t.Errorf("%d examples, of %d in all", len(all), strings.Count(string(text), "```yaml"))
	}
}

// TestDocumentsExampleIsRight: what docs/documents.md shows of a definitions file.
func TestDocumentsExampleIsRight(t *testing.T) {
	text, err := os.ReadFile("../../docs/documents.md")
	if err != nil {
		t.Fatal(err)
	}
	all := fence.FindAllStringSubmatch(string(text), -1)
	for _, m := range all {
		defs, err := ParseDefinitions("example.yaml", []byte(m[2]), []string{"main"})
		if err != nil || len(defs.Documents) != 1 {
			t.Errorf("%v in\n%s", err, m[2])
		}
	}
	if len(all) != 1 {
		t.Errorf("%d examples", len(all))
	}
}

// TestAgentMistakes: each with its place, all at once, and no value repeated.
func TestAgentMistakes(t *testing.T) {
	const src = `nats: {url: "nats://127.0.0.1", replicas: 3}
scope: prod
consumer: orders_api
service_key: SXABC
targets:
  a: {document: x, lease: y, file: f, mode: 0888, owner: "A B"}
  b: {document: x}
  c: {document: x, file: f, format: template}
  d: {document: x, file: g, template: "{{ .a }}", hook: {command: [], signal: HUP}}
  e: {document: x, file: h, hook: {signal: HUP}}
  f: {document: x, exec: {command: [app]}, mode: 0600}
  g: {document: x, file: k, hook: {url: "http://u:S3cret@h/"}}
  h: {document: x, file: f, hook: {url: "ftp://h/", method: GET}}
  i: {document: x, file: l, hook: {command: [app], process: nginx, method: GET}}
  j: {document: x, exec: {command: [app], signal: HUP}}
  k: {document: x, file: m, mode: 0040, prefix: "1"}
`
	_, err := ParseAgent("agent.yaml", []byte(src))
	if err == nil {
		t.Fatal("it was accepted")
	}
	checkAllAgentMistakes(t, err, "agent.yaml:1:33: nats: unknown key \"replicas\"", "agent.yaml:3:11: consumer: ", "service_key: looks like a seed", "seed_file: is missing",
		"targets.a.lease: stands beside document", "agent.yaml:6:45: targets.a.mode: is not a mode", "targets.a.owner: is not the name",
		"agent.yaml:7:3: targets.b: one of file, exec is required", "targets.c: one of template, template_file is required", "agent.yaml:9:39: targets.d.template: means something",
		"targets.d.hook.command: names no program", "targets.d.hook.signal: stands beside", "targets.e.hook: one of pid_file, process is required",
		"targets.f.mode: stands beside exec", "targets.g.hook.url: holds a user or password", "targets.h.hook.url: its scheme", "targets.h.file: is the file of target",
		"targets.i.hook.process: means something beside signal", "targets.i.hook.method: means something beside url", "targets.j.exec.signal: means something",
		"targets.k.mode: does not let the owner", "targets.k.prefix: is no beginning")
}

func checkAllAgentMistakes(t *testing.T, err error, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "S3cret") || strings.Contains(err.Error(), "SXABC") {
		t.Errorf("a value shows: %v", err)
	}
}

func FuzzParseAgent(f *testing.F) {
	f.Add([]byte("nats: {url: \"nats://127.0.0.1\"}\nscope: prod\nconsumer: a\ninsecure: true\ntargets:\n  a: {lease: x, file: f, hook: {command: [a, 1]}}\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		if a, err := ParseAgent("agent.yaml", src); err == nil && len(a.Targets) == 0 {
			t.Error("no target, and it is right")
		}
	})
}
