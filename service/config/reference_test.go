package config

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/leasesvc/leasesvc/events"
)

// reference is what the documentation's tables of one kind of file are made from.
type reference struct {
	keys  []string // in the order they are read
	known map[string]field
	about aboutFile
}

// walked gives every key below a shape, in order.
func walked(s shape, about aboutFile) reference {
	r := reference{known: map[string]field{}, about: about}
	var walk func(prefix string, s shape)
	walk = func(prefix string, s shape) {
		s.children(func(name string, f field) {
			key := prefix + name
			if prefix != "" && name != "[]" {
				key = prefix + "." + name
			}
			if strings.HasPrefix(key, "defaults.") {
				return // the documentation says that it has the keys of a lease
			}
			r.keys, r.known[key] = append(r.keys, key), f
			walk(key, f.shape)
		})
	}
	walk("", s)
	return r
}

func references() map[string]reference {
	return map[string]reference{
		"service":     walked(defaults().shape(), aboutService),
		"definitions": walked((&Definitions{Leases: map[string]events.Definition{}, Documents: map[string]any{}, places: map[string]Position{}}).shape(newDraft(rules{vaults: []string{"main"}})), aboutDefinitions),
		"agent":       walked((&Agent{Log: Log{Format: "text", Level: "info"}, Targets: map[string]Target{}}).shape(), aboutAgent),
	}
}

// chosen tells that a key stands for one that the user chooses, or for an item.
func chosen(key string) bool { return strings.HasSuffix(key, "NAME") || strings.HasSuffix(key, "[]") }

// elsewhere tells that a key is described with another one: an agent's connection with
// the service's, which it is a part of.
func elsewhere(of, key string) bool { return of == "agent" && strings.HasPrefix(key, "nats.") }

var tableMark = regexp.MustCompile(`(?s)(<!-- keys of (service|definitions|agent): ([A-Za-z_. ]+) -->\n).*?(<!-- end of keys -->)`)

// under tells whether key is root or stands below it.
func under(root, key string) bool {
	rest, ok := strings.CutPrefix(key, root)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// nearestRoot gives the longest of the roots that key is under, "" if none.
func nearestRoot(roots []string, key string) (nearest string) {
	for _, root := range roots {
		if under(root, key) && len(root) > len(nearest) {
			nearest = root
		}
	}
	return nearest
}

// table makes the table of the keys that belong to these roots rather than to another
// one of all, and notes which they are.
func (r reference) table(of string, roots, all []string, in map[string]bool) string {
	var b strings.Builder
	b.WriteString("\n| Key | Type | Default | Example | What it is |\n| --- | --- | --- | --- | --- |\n")
	for _, root := range roots {
		for _, key := range r.keys {
			if nearestRoot(all, key) != root || chosen(key) || elsewhere(of, key) {
				continue
			}
			in[key] = true
			f, a := r.known[key], r.about[key]
			def := "none"
			switch {
			case f.required:
				def = "required"
			case f.def != "":
				def = "`" + f.def + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | `%s` | %s |\n", strings.TrimPrefix(key, "targets.NAME."), f.typ(), def, a.example, a.text)
		}
	}
	b.WriteString("\n")
	return b.String()
}

// rewrite is the flag that badinput_test.go declares.
func rewrite() bool { return flag.Lookup("update").Value.String() == "true" }

// TestReferenceIsWhatIsRead: the tables of keys in the documentation are made from the
// code (make golden), every key is in one, and something is said of each.
func TestReferenceIsWhatIsRead(t *testing.T) {
	all, in := references(), map[string]map[string]bool{"service": {}, "definitions": {}, "agent": {}}
	for _, file := range []string{documentation, agentDocumentation} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		roots := map[string][]string{}
		for _, m := range tableMark.FindAllStringSubmatch(string(text), -1) {
			roots[m[2]] = append(roots[m[2]], strings.Fields(m[3])...)
		}
		made := tableMark.ReplaceAllStringFunc(string(text), func(old string) string {
			m := tableMark.FindStringSubmatch(old)
			return m[1] + all[m[2]].table(m[2], strings.Fields(m[3]), roots[m[2]], in[m[2]]) + m[4]
		})
		if made == string(text) {
			continue
		}
		if rewrite() {
			if err := os.WriteFile(file, []byte(made), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		t.Errorf("the tables of %s are not what the code says: make golden", file)
	}
	for of, r := range all {
		for _, key := range r.keys {
			switch a, ok := r.about[key]; {
			case chosen(key) || elsewhere(of, key):
				if ok {
					t.Errorf("something is said of %s %s, which has no row", of, key)
				}
			case !ok || a.text == "" || a.example == "":
				t.Errorf("nothing is said of %s, a key of the %s file: add it to about_%s.go", key, of, of)
			case !in[of][key]:
				t.Errorf("%s, a key of the %s file, is in no table: name it in a mark", key, of)
			}
		}
		for key := range r.about {
			if !slices.Contains(r.keys, key) {
				t.Errorf("about_%s.go has %s, which is not read", of, key)
			}
		}
	}
}
