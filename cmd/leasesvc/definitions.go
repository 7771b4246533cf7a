package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/service/api"
	"github.com/leasesvc/leasesvc/service/config"
)

type applyCmd struct {
	connection
	output
	File       string `arg:"" optional:"" help:"A definitions file to put in force; without it the service reads its own again."`
	ServiceKey string `env:"LEASESVC_SERVICE_KEY" help:"The service's public key (see: leasesvc status). Without it the key that answers is trusted."`
}

// definitionsValid bounds how long a file that was sent may be used.
const definitionsValid = time.Minute

func (c applyCmd) Run(ctx context.Context) error {
	var content []byte
	if c.File != "" {
		var err error
		if content, err = os.ReadFile(c.File); err != nil {
			return fmt.Errorf("reading the definitions: %w", err)
		}
	}
	return c.ask(ctx, func(ctx context.Context, _ *nats.Conn, client *api.Client) error {
		if c.File == "" {
			return c.done(client.Apply(ctx, c.Scope))
		}
		if c.ServiceKey == "" {
			st, err := client.Status(ctx, c.Scope)
			if err != nil {
				return err
			}
			c.ServiceKey = st.ServiceKey
		}
		d, err := client.ApplyDefinitions(ctx, c.Scope, c.ServiceKey, api.Definitions{File: c.File, Content: content, Until: time.Now().Add(definitionsValid)})
		return c.done(d, c.sealedTo(ctx, client, c.ServiceKey, err))
	})
}

type diffCmd struct {
	logSource
	output
	Definitions string   `arg:"" name:"file" help:"A definitions file."`
	Vault       []string `placeholder:"NAME" help:"Names of Vault connections that the file may use, beside those in force."`
}

// difference is what applying a file would do to one name.
type difference struct {
	Name string `json:"name"`
	// What is added, removed or changed.
	What    string   `json:"what"`
	Changes []change `json:"changes,omitempty"`
}

// change is one key of a definition.
type change struct {
	Key    string `json:"key"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// Run compares a file with what is in force, as the log has it.
func (c diffCmd) Run(ctx context.Context) error {
	l, err := c.open(ctx, true)
	if err != nil {
		return err
	}
	defer l.close()
	p, err := c.fold(ctx, l, func(*events.Event) bool { return true })
	if err != nil {
		return err
	}
	state := p.State()
	defs, err := config.LoadDefinitions(c.Definitions, knownVaults(state, c.Vault), config.InsecureConsumers(true))
	if err != nil {
		return err
	}
	out := struct {
		Scope   string       `json:"scope"`
		InForce uint64       `json:"revision_in_force"`
		InFile  uint64       `json:"revision_in_file"`
		Differs []difference `json:"differences"`
	}{c.Scope, state.Revision, defs.Revision, differences(state, defs.Leases)}
	err = c.print(out, func(p *page) {
		p.line(bold, "scope %s: revision %d is in force, %s has %d", c.Scope, state.Revision, c.Definitions, defs.Revision)
		for _, d := range out.Differs {
			d.table(p)
		}
		switch {
		case len(out.Differs) > 0 && defs.Revision <= state.Revision:
			p.line(yellow, "Raise the file's revision above %d to have it applied.", state.Revision)
		case len(out.Differs) == 0:
			p.line(green, "Its leases are what is in force.")
		}
	})
	if err == nil && len(out.Differs) > 0 {
		err = &violatedError{fmt.Sprintf("%s differs from what is in force in %s", c.Definitions, events.Counted(len(out.Differs), "name"))}
	}
	return err
}

// knownVaults gives the names of the connections that the definitions in force
// use, and more.
func knownVaults(s *leasecore.State, more []string) []string {
	found := map[string]bool{}
	for _, v := range more {
		found[v] = true
	}
	for n := range s.Names() {
		if n.Definition != nil {
			found[n.Definition.Vault] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func differences(s *leasecore.State, want map[string]events.Definition) []difference {
	out := []difference{}
	names := map[string]bool{}
	for n := range s.Names() {
		if n.Definition != nil {
			names[n.Name] = true
		}
	}
	for name := range want {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		var before *events.Definition
		if n := s.Name(name); n != nil {
			before = n.Definition
		}
		after, there := want[name]
		switch {
		case before == nil:
			out = append(out, difference{name, "added", []change{{"path", "", after.Vault + "/" + after.Path}}})
		case !there:
			out = append(out, difference{name, "removed", []change{{"path", before.Vault + "/" + before.Path, ""}}})
		case !before.Equal(&after):
			out = append(out, difference{name, "changed", changes(before, &after)})
		}
	}
	return out
}

// changes compares two definitions key by key, as they stand in the log.
func changes(before, after *events.Definition) []change {
	a, b := keysOf(before), keysOf(after)
	var out []change
	for _, key := range slices.Sorted(maps.Keys(mergedKeys(a, b))) {
		if a[key] == b[key] {
			continue
		}
		if strings.HasSuffix(key, "dsn") { // it is never shown
			out = append(out, change{Key: key, Before: "(not shown)", After: "(not shown)"})
			continue
		}
		out = append(out, change{key, a[key], b[key]})
	}
	return out
}

func mergedKeys(a, b map[string]string) map[string]bool {
	out := map[string]bool{}
	for k := range a {
		out[k] = true
	}
	for k := range b {
		out[k] = true
	}
	return out
}

// keysOf gives a definition's keys, those of its verifier with a dot.
func keysOf(d *events.Definition) map[string]string {
	out := map[string]string{}
	b, err := json.Marshal(d)
	if err != nil {
		return out
	}
	flatten(out, "", b)
	return out
}

func flatten(out map[string]string, prefix string, b json.RawMessage) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(b, &fields) != nil {
		out[strings.TrimSuffix(prefix, ".")] = strings.Trim(string(bytes.TrimSpace(b)), `"`)
		return
	}
	for k, v := range fields {
		flatten(out, prefix+k+".", v)
	}
}

func (d difference) table(p *page) {
	c, sign := yellow, "~"
	switch d.What {
	case "added":
		c, sign = green, "+"
	case "removed":
		c, sign = red, "-"
	}
	p.line(c, "%s %s", sign, d.Name)
	for _, ch := range d.Changes {
		switch d.What {
		case "added":
			p.line(plain, "    %s: %s", ch.Key, ch.After)
		case "removed":
			p.line(plain, "    %s: %s", ch.Key, ch.Before)
		default:
			p.line(plain, "    %s: %s -> %s", ch.Key, dash(ch.Before), dash(ch.After))
		}
	}
}
