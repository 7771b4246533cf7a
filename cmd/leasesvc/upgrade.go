package main

import (
	"context"

	"github.com/nats-io/nats.go"

	"github.com/leasesvc/leasesvc/service/api"
)

type upgradeCmd struct {
	connection
	output
	Finalize bool `help:"Have events written as the release that leads writes them. No earlier release can lead the scope from then on."`
}

// Run shows how far an upgrade is, or finalizes it.
func (c upgradeCmd) Run(ctx context.Context) error {
	return c.ask(ctx, func(ctx context.Context, _ *nats.Conn, client *api.Client) error {
		if c.Finalize {
			return c.done(client.Finalize(ctx, c.Scope))
		}
		st, err := client.Status(ctx, c.Scope)
		if err != nil {
			return err
		}
		out := struct {
			Scope   string      `json:"scope"`
			Holder  string      `json:"holder"`
			Version string      `json:"version"`
			Upgrade api.Upgrade `json:"upgrade"`
		}{Scope: st.Scope, Holder: st.Holder, Version: st.Version}
		if st.Upgrade != nil {
			out.Upgrade = *st.Upgrade
		}
		return c.print(out, func(p *page) { upgradeTable(p, st) })
	})
}

func upgradeTable(p *page, st api.Status) {
	p.row(plain, "scope", st.Scope)
	p.row(plain, "leads", "release "+st.Version+" ("+st.Holder+")")
	up := st.Upgrade
	if up == nil {
		p.row(green, "events", "nothing to finalize: every version that this release writes is in force, and every instance reads it")
		return
	}
	if len(up.InForce) > 0 {
		p.row(plain, "in force", up.InForce.String())
	}
	for _, i := range up.Behind {
		p.row(yellow, "behind", i.String()+" can't read "+i.Lacks.String())
	}
	switch {
	case len(up.Pending) == 0:
		p.row(yellow, "", "those can't lead the scope any more: replace them by the release that leads")
	case len(up.Behind) > 0:
		p.row(yellow, "pending", up.Pending.String()+"; replace what is behind, then run: leasesvc upgrade --finalize")
	default:
		p.row(yellow, "pending", up.Pending.String()+"; when no instance of an earlier release will come back, run: leasesvc upgrade --finalize")
	}
}
