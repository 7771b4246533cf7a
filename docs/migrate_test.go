package docs

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/leasesvc/leasesvc/agent/render"
	"github.com/leasesvc/leasesvc/service/config"
)

var fence = regexp.MustCompile("(?ms)^```([a-z]+)(?: ([a-z]+))?\n(.*?)^```$")

// beside is what an agent's targets need around them to be a file.
const beside = "nats: {url: \"nats://127.0.0.1\"}\nscope: prod\nconsumer: shop\ninsecure: true\n"

// values are those of the documents and leases that the guides' templates show.
var values = map[string]any{
	"username": "u", "password": "p",
	"database":   map[string]any{"user": "u", "password": "p"},
	"datasource": map[string]any{"username": "u", "password": "p"},
	"api":        map[string]any{"token": "t"}, "payment": map[string]any{"key": "k"},
}

// TestMigrationGuidesShowFilesThatAreRight: each block of ours is read as the service
// or the agent would, each template renders; what is theirs is marked as such.
func TestMigrationGuidesShowFilesThatAreRight(t *testing.T) {
	for _, page := range []string{"migrate-vault-agent.md", "migrate-consul-template.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		blocks := fence.FindAllStringSubmatch(string(text), -1)
		for _, m := range blocks {
			language, kind, body := m[1], m[2], m[3]
			seen[strings.TrimSpace(language+" "+kind)]++
			var err error
			switch language + " " + kind {
			case "yaml service":
				_, err = config.Parse("example.yaml", []byte(body))
			case "yaml definitions":
				_, err = config.ParseDefinitions("example.yaml", []byte(body), []string{"main"})
			case "yaml agent":
				_, err = config.ParseAgent("example.yaml", []byte(body))
			case "yaml targets":
				_, err = config.ParseAgent("example.yaml", []byte(beside+body))
			case "text template":
				var r *render.Renderer
				if r, err = render.New(render.Spec{Format: render.Template, Name: page, Text: body}); err == nil {
					_, err = r.Render(values)
				}
			case "hcl ", "text ": // theirs
			default:
				t.Errorf("%s: a block of %s %s, which nothing reads", page, language, kind)
			}
			if err != nil {
				t.Errorf("%s: %v in\n%s", page, err, body)
			}
		}
		for _, kind := range []string{"hcl", "text", "yaml service", "yaml definitions", "yaml agent", "yaml targets", "text template"} {
			if seen[kind] == 0 {
				t.Errorf("%s shows no %s", page, kind)
			}
		}
		if n := strings.Count(string(text), "\n```"); n != 2*len(blocks) {
			t.Errorf("%s: %d blocks were read, %d fences stand there", page, len(blocks), n)
		}
		if strings.Count(string(text), "<td>") != strings.Count(string(text), "</td>") || strings.Count(string(text), "<tr>") != strings.Count(string(text), "</tr>") {
			t.Errorf("%s: a cell or row is not closed", page)
		}
	}
}

// keyInRow finds the keys of ours that a guide's table maps to.
var keyInRow = regexp.MustCompile("`([a-z_.A-Z]+)`")

// TestMigrationGuidesNameKeysThatAreThere: what the middle column of the tables names,
// with an underscore or a dot in it, stands in the reference.
func TestMigrationGuidesNameKeysThatAreThere(t *testing.T) {
	reference := read(t, "configuration.md") + read(t, "agent.md")
	checked := 0
	for _, page := range []string{"migrate-vault-agent.md", "migrate-consul-template.md"} {
		for line := range strings.Lines(read(t, page)) {
			cells := strings.Split(line, " | ")
			if len(cells) != 3 || !strings.HasPrefix(line, "| `") {
				continue
			}
			for _, m := range keyInRow.FindAllStringSubmatch(cells[1], -1) {
				key := strings.TrimSuffix(m[1], ".NAME")
				if !strings.ContainsAny(key, "_.") {
					continue
				}
				checked++
				if !strings.Contains(reference, "`"+key+"`") && !strings.Contains(reference, "."+key+"`") {
					t.Errorf("%s names %s, which the reference does not have", page, key)
				}
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d keys were looked at", checked)
	}
}
