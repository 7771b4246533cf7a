package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/service"
	"github.com/leasesvc/leasesvc/service/api"
	"github.com/leasesvc/leasesvc/service/config"
)

type recoverCmd struct {
	output
	Config string `required:"" placeholder:"FILE" help:"The service file."`
	Adopt  bool   `xor:"decision" help:"Go on with what the log still has; what it lost is named and left to end by itself."`
	Anew   bool   `xor:"decision" help:"Go on as with --adopt, and issue anew what the log still has."`
}

// recoverWithin bounds the examination and the recovery.
const recoverWithin = 2 * time.Minute

// Run says what was lost and, if told to, goes on in spite of it.
func (c recoverCmd) Run(ctx context.Context) error {
	cfg, err := config.Load(c.Config)
	if err != nil {
		return err
	}
	if cfg.NATS.Embedded != nil {
		return fmt.Errorf("the NATS of %s runs in the service itself, which can't be stopped for a recovery; move its store to a NATS server", c.Config)
	}
	ctx, cancel := context.WithTimeout(ctx, recoverWithin)
	defer cancel()
	conn := connection{Config: c.Config}
	nc, err := conn.connect(ctx)
	if err != nil {
		return err
	}
	defer nc.Close()
	r, err := service.NewRecoverer(ctx, cfg, nc, programVersion())
	if err != nil {
		return err
	}
	damages, err := r.Examine(ctx)
	if err != nil {
		return err
	}
	lost := slices.ContainsFunc(damages, func(d service.Damage) bool { return len(d.Found) > 0 && d.Decided.IsZero() })
	if lost && (c.Adopt || c.Anew) {
		if err := c.nobodyLeads(ctx, nc, cfg); err != nil {
			return err
		}
		if err := r.Decide(ctx, damages, c.Anew); err != nil {
			return err
		}
	}
	decided := lost && (c.Adopt || c.Anew)
	out := struct {
		Lost    bool             `json:"lost"`
		Decided bool             `json:"decided"`
		Scopes  []service.Damage `json:"scopes"`
	}{lost, decided, damages}
	err = c.print(out, func(p *page) {
		for i := range damages {
			damageTable(p, &damages[i])
		}
		switch {
		case decided:
			p.line(green, "It is recorded: the log is gone on with as it is. Start the instances again; the next epoch is opened as recovered.")
		case lost:
			p.line(red, "No instance leads from such a log. Restore it, or stop all instances and decide: leasesvc recover --config %s --adopt, or --anew.", c.Config)
		}
	})
	if err == nil && lost && !decided {
		err = &violatedError{"something was lost, and nobody has decided to go on without it"}
	}
	return err
}

// nobodyLeads refuses while a scope is led: what is made anew would be pulled from
// under its holder.
func (c recoverCmd) nobodyLeads(ctx context.Context, nc *nats.Conn, cfg *config.Config) error {
	led, err := api.NewClient(nc).Scopes(ctx, discoverWithin)
	if err != nil {
		return err
	}
	for _, scope := range cfg.ScopeNames() {
		if slices.Contains(led, scope) {
			return fmt.Errorf("scope %s is led; stop all instances first", scope)
		}
	}
	return nil
}

func damageTable(p *page, d *service.Damage) {
	if len(d.Found) == 0 {
		p.line(plain, "scope %s: nothing is lost; epoch %d, %s", d.Scope, d.Epoch, events.Counted(len(d.Kept), "lease"))
		return
	}
	p.line(bold, "scope %s: known of are epoch %d and sequence %d", d.Scope, d.Epoch, d.LastSeq)
	for _, f := range d.Found {
		p.line(red, "  lost: %s", f)
	}
	for _, l := range d.Kept {
		p.row(plain, "  kept", fmt.Sprintf("%s/%d", l.Name, l.Lease), l.State, dash(l.LeaseID), orNever(l.Ends, "no end"))
	}
	for _, l := range d.Lost {
		state := "only its sealed values are known of"
		if l.State != "" {
			state = l.State
		}
		p.row(yellow, "  not in the log", fmt.Sprintf("%s/%d", l.Name, l.Lease), state, dash(l.LeaseID), orNever(l.Ends, "-"))
	}
	if !d.Decided.IsZero() {
		p.line(plain, "  decided to go on at %s", day(d.Decided))
	}
}
