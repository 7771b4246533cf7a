package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/service/api"
)

type statusCmd struct {
	connection
	output
}

func (c statusCmd) Run(ctx context.Context) error {
	return c.ask(ctx, func(ctx context.Context, _ *nats.Conn, client *api.Client) error {
		st, err := client.Status(ctx, c.Scope)
		if err != nil {
			return err
		}
		return c.print(st, func(p *page) { statusTable(p, st, time.Now()) })
	})
}

func statusTable(p *page, st api.Status, now time.Time) {
	p.row(plain, "scope", st.Scope)
	p.row(plain, "holder", fmt.Sprintf("%s, epoch %d, for %s", st.Holder, st.Epoch, short(now.Sub(st.Since))))
	p.row(plain, "version", st.Version)
	usable := plain
	if st.Usable < st.Names {
		usable = yellow
	}
	p.row(usable, "names", fmt.Sprintf("%d, %d usable; definitions revision %d", st.Names, st.Usable, st.Revision))
	p.row(plain, "log", fmt.Sprintf("sequence %d", st.LastSeq))
	if st.Skipped > 0 {
		p.row(red, "", skippedSays(st.Skipped))
	}
	p.row(plain, "service key", st.ServiceKey)
	for _, k := range st.OtherKeys {
		c := yellow
		if k.Removable {
			c = green
		}
		p.row(c, "seal key "+k.ID, k.Says)
	}
	for _, v := range st.Vaults {
		state, c := "logged in", plain
		if !v.LoggedIn {
			state, c = "NOT logged in", red
		}
		if v.Guarded {
			state += ", guarded"
		}
		if v.Problem != "" {
			state += ": " + v.Problem
		}
		p.row(c, "vault "+v.Name, v.Address+", "+state)
	}
	for _, n := range st.Notes {
		p.row(yellow, "note", n)
	}
}

func skippedSays(events uint64) string {
	says := fmt.Sprintf("%d events in the stream do not count", events)
	if events == 1 {
		says = "1 event in the stream does not count"
	}
	return says + ": somebody else wrote there; see: leasesvc verify-log"
}

type leasesCmd struct {
	connection
	output
}

func (c leasesCmd) Run(ctx context.Context) error {
	return c.ask(ctx, func(ctx context.Context, _ *nats.Conn, client *api.Client) error {
		table, err := client.Leases(ctx, c.Scope)
		if err != nil {
			return err
		}
		if table.Names == nil {
			table.Names = []api.Lease{}
		}
		return c.print(table, func(p *page) { leasesTable(p, table) })
	})
}

func leasesTable(p *page, table api.Leases) {
	p.row(bold, "NAME", "LEASE", "USER", "AGE", "LEFT", "NEXT LOOK", "CONSUMERS", "STATE")
	for i := range table.Names {
		l := &table.Names[i]
		c := plain
		switch {
		case l.Active == 0:
			c = red
		case l.Failure != nil:
			c = yellow
		}
		p.row(c, l.Name, number(l.Active), dash(l.Public), since(l.Acquired, table.Time), until(l.Expires, table.Time, l.Active != 0),
			until(l.Next, table.Time, false), consumers(l.Consumers), leaseStory(l))
	}
}

func number(n uint64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func since(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return short(now.Sub(t))
}

func until(t, now time.Time, forever bool) string {
	switch {
	case t.IsZero() && forever:
		return "no end"
	case t.IsZero():
		return "-"
	default:
		return short(t.Sub(now))
	}
}

// short prints a duration for a table.
func short(d time.Duration) string {
	switch {
	case d >= 10*time.Second || d <= -10*time.Second:
		return d.Round(time.Second).String()
	default:
		return d.Round(100 * time.Millisecond).String()
	}
}

func consumers(list []api.Consumer) string {
	if len(list) == 0 {
		return "-"
	}
	follow := 0
	for _, c := range list {
		if c.Follows {
			follow++
		}
	}
	return fmt.Sprintf("%d/%d follow", follow, len(list))
}

func leaseStory(l *api.Lease) string {
	s := l.State
	if len(l.Others) > 0 {
		s += " (beside it: " + strings.Join(l.Others, ", ") + ")"
	}
	return s
}

type rotateCmd struct {
	connection
	output
	Name string `arg:"" help:"The name."`
}

func (c rotateCmd) Run(ctx context.Context) error {
	return c.ask(ctx, func(ctx context.Context, _ *nats.Conn, client *api.Client) error {
		return c.done(client.Rotate(ctx, c.Scope, c.Name))
	})
}

type revokeCmd struct {
	connection
	output
	Name string `arg:"" help:"The name."`
}

func (c revokeCmd) Run(ctx context.Context) error {
	return c.ask(ctx, func(ctx context.Context, _ *nats.Conn, client *api.Client) error {
		return c.done(client.Revoke(ctx, c.Scope, c.Name))
	})
}

// done prints what came of a command.
func (o output) done(d api.Done, err error) error {
	if err != nil {
		return err
	}
	return o.print(d, func(p *page) {
		if d.Seq > 0 {
			p.line(plain, "%s (log sequence %d)", d.Says, d.Seq)
		} else {
			p.line(plain, "%s", d.Says)
		}
	})
}

type getCmd struct {
	connection
	output
	Name       string   `arg:"" help:"The name."`
	Key        string   `arg:"" optional:"" help:"Only this value, as it is."`
	Reveal     bool     `help:"Show values on a terminal, too."`
	ServiceKey []string `env:"LEASESVC_SERVICE_KEY" help:"The service's public key (see: leasesvc status); several while it is being replaced. Without it the key that answers is trusted."`
}

func (c getCmd) Run(ctx context.Context) error {
	return c.ask(ctx, func(ctx context.Context, nc *nats.Conn, client *api.Client) error {
		return c.reading(ctx, nc, client, c.ServiceKey, func(ctx context.Context, reader *consumer.Client) error {
			var keys []string
			if c.Key != "" {
				keys = []string{c.Key}
			}
			cred, err := reader.Get(ctx, c.Name, keys...)
			if errors.Is(err, consumer.ErrUnknownName) {
				return unknownName(ctx, client, c.Scope, c.Name)
			}
			if errors.Is(err, consumer.ErrUnknownKey) {
				return unknownKey(ctx, reader, c.Name, c.Key)
			}
			if err != nil {
				return err
			}
			return c.print(cred)
		})
	})
}

// unknownKey says which keys a credential has.
func unknownKey(ctx context.Context, reader *consumer.Client, name, key string) error {
	cred, err := reader.Get(ctx, name)
	if err != nil {
		return err
	}
	return fmt.Errorf("%s has no key %q; its keys are: %s", name, key, strings.Join(cred.Keys(), ", "))
}

// print shows a credential: its values only where nobody looks over a shoulder,
// or where --reveal asks for it.
func (c getCmd) print(cred consumer.Credential) error {
	reveal := c.Reveal || !isTerminal(os.Stdout)
	if c.Key != "" {
		v, _ := cred.Get(c.Key)
		if !reveal {
			return errors.New("not shown on a terminal; use --reveal, or a pipe")
		}
		if c.Output != "table" {
			text, _ := cred.JSON(c.Key)
			return c.output.print(json.RawMessage(text.Reveal()), nil)
		}
		_, err := fmt.Println(v.Reveal())
		return err
	}
	out := struct {
		Name      string            `json:"name"`
		Lease     uint64            `json:"lease"`
		Public    string            `json:"public,omitempty"`
		ExpiresAt time.Time         `json:"expires_at,omitzero"`
		GoodUntil time.Time         `json:"good_until,omitzero"`
		Values    map[string]string `json:"values"`
	}{cred.Name, cred.Lease, cred.Public, cred.ExpiresAt.UTC(), cred.GoodUntil.UTC(), map[string]string{}}
	if cred.ExpiresAt.IsZero() {
		out.ExpiresAt = time.Time{}
	}
	for _, k := range cred.Keys() {
		v, _ := cred.Get(k)
		if out.Values[k] = v.String(); reveal {
			out.Values[k] = v.Reveal()
		}
	}
	return c.values().print(out, nil)
}

// unknownName says which names there are.
func unknownName(ctx context.Context, client *api.Client, scope, name string) error {
	p := &api.Problem{Code: api.CodeUnknownName, Message: fmt.Sprintf("%s: there is no such name in scope %s", name, scope)}
	table, err := client.Leases(ctx, scope)
	if err != nil {
		return p
	}
	for _, l := range table.Names {
		p.Names = append(p.Names, l.Name)
	}
	return p
}

type reissueCmd struct {
	connection
	output
	Name string `arg:"" optional:"" help:"Only this name."`
}

func (c reissueCmd) Run(ctx context.Context) error {
	return c.ask(ctx, func(ctx context.Context, _ *nats.Conn, client *api.Client) error {
		if c.Name != "" {
			return c.done(client.Rotate(ctx, c.Scope, c.Name))
		}
		return c.done(client.Reissue(ctx, c.Scope))
	})
}

type stepDownCmd struct {
	connection
	output
	Target string `arg:"" name:"scope" optional:"" help:"The scope; not needed where only one is led."`
}

func (c stepDownCmd) Run(ctx context.Context) error {
	if c.Target != "" {
		c.Scope = c.Target
	}
	return c.ask(ctx, func(ctx context.Context, _ *nats.Conn, client *api.Client) error {
		return c.done(client.StepDown(ctx, c.Scope))
	})
}

type shutdownCmd struct {
	connection
	output
	Target string `arg:"" name:"scope" help:"The scope."`
	Revoke bool   `required:"" help:"Say that you mean it: every lease of the scope is revoked, whoever uses it."`
}

func (c shutdownCmd) Run(ctx context.Context) error {
	c.Scope = c.Target
	return c.ask(ctx, func(ctx context.Context, _ *nats.Conn, client *api.Client) error {
		return c.done(client.Shutdown(ctx, c.Scope))
	})
}

type adoptCmd struct {
	connection
	output
	Name       string        `arg:"" help:"The name."`
	LeaseID    string        `required:"" help:"The lease id that Vault gave."`
	TTL        time.Duration `required:"" help:"How long the lease lives from now."`
	Renewable  bool          `help:"The lease can be renewed."`
	ServiceKey string        `required:"" env:"LEASESVC_SERVICE_KEY" help:"The service's public key (see: leasesvc status)."`
}

// adoptable bounds the values that are read from standard input, in bytes.
const adoptable = 1 << 20

// Run reads the values, a JSON object, from standard input.
func (c adoptCmd) Run(ctx context.Context) error {
	values, err := io.ReadAll(io.LimitReader(os.Stdin, adoptable+1))
	if err != nil {
		return fmt.Errorf("reading the values from standard input: %w", err)
	}
	if len(values) > adoptable || !json.Valid(values) {
		return fmt.Errorf("standard input must be a JSON object of at most %d bytes with the credential's values", adoptable)
	}
	return c.ask(ctx, func(ctx context.Context, _ *nats.Conn, client *api.Client) error {
		d, err := client.Adopt(ctx, c.Scope, c.Name, c.ServiceKey, api.Adoption{
			LeaseID: c.LeaseID, TTL: events.FromDuration(c.TTL), Renewable: c.Renewable, Values: values, Until: time.Now().Add(time.Minute),
		})
		return c.done(d, c.sealedTo(ctx, client, c.ServiceKey, err))
	})
}
