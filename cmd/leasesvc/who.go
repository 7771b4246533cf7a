package main

import (
	"context"
	"fmt"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/story"
)

type whoCmd struct {
	logSource
	output
	Query string `arg:"" name:"user|lease-id" help:"A user name (or a certificate's serial number), a lease id of Vault's, or NAME/NUMBER."`
}

func (c whoCmd) Run(ctx context.Context) error {
	l, err := c.open(ctx, true)
	if err != nil {
		return err
	}
	defer l.close()
	holders := story.NewHolders(c.Query)
	if _, err := c.fold(ctx, l, func(e *events.Event) bool { holders.See(e); return true }); err != nil {
		return err
	}
	found := holders.Found()
	if len(found) == 0 {
		return fmt.Errorf("%s: no lease in the log of scope %s has this user name or lease id", c.Query, c.Scope)
	}
	out := struct {
		Scope  string       `json:"scope"`
		Leases []story.Held `json:"leases"`
	}{c.Scope, found}
	return c.print(out, func(p *page) {
		for i, h := range found {
			if i > 0 {
				p.line(plain, "")
			}
			heldTable(p, c.Scope, h)
		}
	})
}

func heldTable(p *page, scope string, h story.Held) {
	user := anyPublic(h.Public)
	if user != "" {
		user = " of " + user
	}
	p.line(bold, "lease %d of %s/%s%s", h.Lease, scope, h.Name, user)
	p.row(plain, "  read at", h.Path)
	if h.LeaseID != "" {
		p.row(plain, "  lease id", h.LeaseID)
	}
	p.row(plain, "  acquired", day(h.Acquired))
	p.row(plain, "  active from", orNever(h.Active, "it never was"))
	if !h.Active.IsZero() {
		p.row(plain, "  replaced", orNever(h.Replaced, "no"))
	}
	p.row(plain, "  retired", orNever(h.Retired, "no"))
	if h.Ended.IsZero() {
		p.row(yellow, "  ended", "not yet")
	} else {
		p.row(plain, "  ended", day(h.Ended)+", "+h.How)
	}
	if len(h.Users) == 0 {
		p.line(plain, "  no consumer was registered while it could be used; readers (get) are not in the log")
		return
	}
	p.row(bold, "  CONSUMER", "INCARNATION", "FROM", "UNTIL", "")
	for _, u := range h.Users {
		note := ""
		switch {
		case u.CutOff:
			note = "cut off: it had not confirmed that it follows"
		case u.Proved:
			note = "proved it"
		}
		p.row(plain, "  "+u.Consumer+"/"+u.Instance, u.Incarnation, day(u.From), orNever(u.Until, "may use it still"), note)
	}
}

func day(t time.Time) string { return orNever(t, "-") }

func orNever(t time.Time, never string) string {
	if t.IsZero() {
		return never
	}
	return t.UTC().Format("2006-01-02 15:04:05 MST")
}
