package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/term"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/service/api"
)

type statusCmd struct {
	connection
	JSON bool `help:"Print JSON."`
}

func (c statusCmd) Run(ctx context.Context) error {
	return c.ask(ctx, func(ctx context.Context, _ *nats.Conn, client *api.Client) error {
		st, err := client.Status(ctx, c.Scope)
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(st)
		}
		return printStatus(os.Stdout, st, time.Now())
	})
}

func printStatus(w io.Writer, st api.Status, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "scope\t%s\n", st.Scope)
	fmt.Fprintf(t, "holder\t%s, epoch %d, for %s\n", st.Holder, st.Epoch, short(now.Sub(st.Since)))
	fmt.Fprintf(t, "version\t%s\n", st.Version)
	fmt.Fprintf(t, "names\t%d, %d usable; definitions revision %d\n", st.Names, st.Usable, st.Revision)
	fmt.Fprintf(t, "log\tsequence %d\n", st.LastSeq)
	if st.Skipped > 0 {
		fmt.Fprintf(t, "\t%d events in the stream do not count: somebody else wrote there\n", st.Skipped)
	}
	fmt.Fprintf(t, "service key\t%s\n", st.ServiceKey)
	for _, v := range st.Vaults {
		state := "logged in"
		if !v.LoggedIn {
			state = "NOT logged in"
		}
		if v.Guarded {
			state += ", guarded"
		}
		if v.Problem != "" {
			state += ": " + v.Problem
		}
		fmt.Fprintf(t, "vault %s\t%s, %s\n", v.Name, v.Address, state)
	}
	for _, n := range st.Notes {
		fmt.Fprintf(t, "note\t%s\n", n)
	}
	return t.Flush()
}

type leasesCmd struct {
	connection
	JSON bool `help:"Print JSON."`
}

func (c leasesCmd) Run(ctx context.Context) error {
	return c.ask(ctx, func(ctx context.Context, _ *nats.Conn, client *api.Client) error {
		table, err := client.Leases(ctx, c.Scope)
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(table)
		}
		return printLeases(os.Stdout, table)
	})
}

func printLeases(w io.Writer, table api.Leases) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tLEASE\tUSER\tAGE\tLEFT\tNEXT LOOK\tCONSUMERS\tSTATE")
	for i := range table.Names {
		l := &table.Names[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.Name, number(l.Active), dash(l.Public),
			since(l.Acquired, table.Time), until(l.Expires, table.Time, l.Active != 0), until(l.Next, table.Time, false), consumers(l.Consumers), story(l))
	}
	return t.Flush()
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

func story(l *api.Lease) string {
	s := l.State
	if len(l.Others) > 0 {
		s += " (beside it: " + strings.Join(l.Others, ", ") + ")"
	}
	return s
}

type rotateCmd struct {
	connection
	Name string `arg:"" help:"The name."`
}

func (c rotateCmd) Run(ctx context.Context) error {
	return c.ask(ctx, func(ctx context.Context, _ *nats.Conn, client *api.Client) error {
		return printDone(client.Rotate(ctx, c.Scope, c.Name))
	})
}

type revokeCmd struct {
	connection
	Name string `arg:"" help:"The name."`
}

func (c revokeCmd) Run(ctx context.Context) error {
	return c.ask(ctx, func(ctx context.Context, _ *nats.Conn, client *api.Client) error {
		return printDone(client.Revoke(ctx, c.Scope, c.Name))
	})
}

type applyCmd struct{ connection }

func (c applyCmd) Run(ctx context.Context) error {
	return c.ask(ctx, func(ctx context.Context, _ *nats.Conn, client *api.Client) error {
		return printDone(client.Apply(ctx, c.Scope))
	})
}

func printDone(d api.Done, err error) error {
	if err != nil {
		return err
	}
	if d.Seq > 0 {
		_, err = fmt.Printf("%s (log sequence %d)\n", d.Says, d.Seq)
	} else {
		_, err = fmt.Println(d.Says)
	}
	return err
}

type getCmd struct {
	connection
	Name       string `arg:"" help:"The name."`
	Key        string `arg:"" optional:"" help:"Only this value, as it is."`
	Reveal     bool   `help:"Show values on a terminal, too."`
	ServiceKey string `env:"LEASESVC_SERVICE_KEY" help:"The service's public key (see: leasesvc status). Without it the key that answers is trusted."`
}

func (c getCmd) Run(ctx context.Context) error {
	return c.ask(ctx, func(ctx context.Context, nc *nats.Conn, client *api.Client) error {
		reader, err := consumer.Connect(ctx, consumer.Options{
			Conn: nc, Scope: c.Scope, Consumer: "cli", ServiceKey: c.ServiceKey, Insecure: true,
		})
		if err != nil {
			return err
		}
		defer reader.Close()
		var keys []string
		if c.Key != "" {
			keys = []string{c.Key}
		}
		cred, err := reader.Get(ctx, c.Name, keys...)
		if errors.Is(err, consumer.ErrUnknownName) {
			return unknownName(ctx, client, c.Scope, c.Name)
		}
		if err != nil {
			return err
		}
		return c.print(cred)
	})
}

// print shows a credential: its values only where nobody looks over a shoulder,
// or where --reveal asks for it.
func (c getCmd) print(cred consumer.Credential) error {
	reveal := c.Reveal || !term.IsTerminal(int(os.Stdout.Fd()))
	if c.Key != "" {
		v, _ := cred.Get(c.Key)
		if !reveal {
			return errors.New("not shown on a terminal; use --reveal, or a pipe")
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
	return printJSON(out)
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

func printJSON(v any) error {
	enc := json.NewEncoder(os.Stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

type reissueCmd struct {
	connection
	Name string `arg:"" optional:"" help:"Only this name."`
}

func (c reissueCmd) Run(ctx context.Context) error {
	return c.ask(ctx, func(ctx context.Context, _ *nats.Conn, client *api.Client) error {
		if c.Name != "" {
			return printDone(client.Rotate(ctx, c.Scope, c.Name))
		}
		return printDone(client.Reissue(ctx, c.Scope))
	})
}

type stepDownCmd struct {
	connection
	Target string `arg:"" name:"scope" optional:"" help:"The scope; not needed where only one is led."`
}

func (c stepDownCmd) Run(ctx context.Context) error {
	if c.Target != "" {
		c.Scope = c.Target
	}
	return c.ask(ctx, func(ctx context.Context, _ *nats.Conn, client *api.Client) error {
		return printDone(client.StepDown(ctx, c.Scope))
	})
}

type shutdownCmd struct {
	connection
	Target string `arg:"" name:"scope" help:"The scope."`
	Revoke bool   `required:"" help:"Say that you mean it: every lease of the scope is revoked, whoever uses it."`
}

func (c shutdownCmd) Run(ctx context.Context) error {
	c.Scope = c.Target
	return c.ask(ctx, func(ctx context.Context, _ *nats.Conn, client *api.Client) error {
		return printDone(client.Shutdown(ctx, c.Scope))
	})
}

type adoptCmd struct {
	connection
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
		return printDone(client.Adopt(ctx, c.Scope, c.Name, c.ServiceKey, api.Adoption{
			LeaseID: c.LeaseID, TTL: events.FromDuration(c.TTL), Renewable: c.Renewable, Values: values, Until: time.Now().Add(time.Minute),
		}))
	})
}
