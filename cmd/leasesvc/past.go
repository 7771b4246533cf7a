package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
)

type atCmd struct {
	logSource
	output
	When string `arg:"" name:"time" help:"When: 2026-01-31T12:00:00Z, \"2026-01-31 12:00\", 12:00, 10m (ago), or #1234 for a sequence of the log."`
}

// past is a scope as it was.
type past struct {
	Scope    string     `json:"scope"`
	Time     time.Time  `json:"time"`
	Seq      uint64     `json:"seq"`
	Epoch    uint64     `json:"epoch"`
	Holder   string     `json:"holder"`
	Released bool       `json:"released,omitempty"`
	Revision uint64     `json:"revision"`
	Names    []pastName `json:"names"`
}

// pastName is one name as it was.
type pastName struct {
	Name      string      `json:"name"`
	State     string      `json:"state"`
	Path      string      `json:"path,omitempty"`
	Active    uint64      `json:"active,omitempty"`
	Leases    []pastLease `json:"leases"`
	Consumers []string    `json:"consumers,omitempty"`
}

// pastLease is one lease as it was.
type pastLease struct {
	Lease    uint64            `json:"lease"`
	State    string            `json:"state"`
	LeaseID  string            `json:"lease_id,omitempty"`
	Public   map[string]string `json:"public,omitempty"`
	Acquired time.Time         `json:"acquired,omitzero"`
	Expires  time.Time         `json:"expires,omitzero"`
}

func (c atCmd) Run(ctx context.Context) error {
	when, err := parseMoment(c.When, time.Now())
	if err != nil {
		return usageError{err}
	}
	l, err := c.open(ctx, true)
	if err != nil {
		return err
	}
	defer l.close()
	last := time.Time{}
	p, err := c.fold(ctx, l, func(e *events.Event) bool {
		if when.before(e.Time, e.Seq) {
			return false
		}
		last = e.Time
		return true
	})
	if err != nil {
		return err
	}
	if last.IsZero() {
		return fmt.Errorf("at %s: the log of scope %s had no events yet", c.When, c.Scope)
	}
	if when.Time.IsZero() {
		when.Time = last
	}
	out := pastOf(p.State(), when.Time.UTC())
	return c.print(out, out.table)
}

func pastOf(s *leasecore.State, at time.Time) past {
	out := past{Scope: s.Scope, Time: at, Seq: s.LastSeq, Epoch: s.Epoch, Holder: s.Holder, Released: s.Released, Revision: s.Revision, Names: []pastName{}}
	for _, name := range s.SortedNames() {
		n := s.Name(name)
		row := pastName{Name: name, State: s.Story(name, at), Active: n.Active, Leases: []pastLease{}}
		if n.Definition != nil {
			row.Path = n.Definition.Vault + "/" + n.Definition.Path
		}
		for i := range n.Leases {
			l := &n.Leases[i]
			x := pastLease{Lease: l.No, State: l.State.String(), LeaseID: l.LeaseID, Public: l.Public.Map(), Acquired: l.AcquiredAt}
			x.Expires, _ = l.Expires()
			row.Leases = append(row.Leases, x)
		}
		for _, in := range n.Consumers {
			row.Consumers = append(row.Consumers, in.Consumer+"/"+in.Instance)
		}
		out.Names = append(out.Names, row)
	}
	return out
}

func (x past) table(p *page) {
	held := "led by " + x.Holder
	if x.Released {
		held = "given back by " + x.Holder
	}
	p.line(plain, "scope %s at %s, sequence %d: epoch %d, %s; definitions revision %d", x.Scope, x.Time.Format("2006-01-02 15:04:05.000 MST"), x.Seq, x.Epoch, held, x.Revision)
	p.row(bold, "NAME", "LEASE", "LEASE IS", "USER", "AGE", "LEFT", "CONSUMERS", "NAME IS")
	for _, n := range x.Names {
		consumers := dash(strings.Join(n.Consumers, ", "))
		if len(n.Leases) == 0 {
			p.row(plain, n.Name, "-", "-", "-", "-", "-", consumers, n.State)
		}
		for i, l := range n.Leases {
			name, state := n.Name, n.State
			if i > 0 {
				name, state, consumers = "", "", ""
			}
			p.row(plain, name, l.Lease, l.State, dash(anyPublic(l.Public)), since(l.Acquired, x.Time), until(l.Expires, x.Time, true), consumers, state)
		}
	}
}

// anyPublic gives the value that identifies an account.
func anyPublic(public map[string]string) string {
	for _, k := range []string{"username", "serial_number"} {
		if v := public[k]; v != "" {
			return v
		}
	}
	return ""
}
