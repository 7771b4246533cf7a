package sim

import (
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
)

// The mutants that decide something which the core would not: their events are
// put into the log beside the core's.

func (t *instance) plant(name string, lease uint64, d events.Data) {
	id := t.w.newID()
	t.injected = append(t.injected, events.Event{ID: id, Scope: scopeName, Name: name, Lease: lease, Epoch: t.epoch, Time: t.clock(), Data: d})
}

// plantAtTakeover is called when a term begins.
func (t *instance) plantAtTakeover() {
	s := t.p.State()
	switch t.w.opts.Mutant {
	case NoAskingAgain:
		for _, name := range t.w.names {
			if n := s.Name(name); n != nil {
				for _, c := range n.Consumers {
					s.Confirm(name, c.ID, n.N)
				}
			}
		}
	case SkipRecovery:
		for _, name := range t.w.names {
			if n := s.Name(name); n != nil && n.Handover != nil {
				if !n.Handover.RollingBack {
					t.plant(name, n.Handover.Lease, &events.RollbackStarted{Back: n.Active, Budget: events.WholeSeconds(5)})
				}
				t.plant(name, n.Handover.Lease, &events.RolledBack{Safe: true, Retry: events.Retry{Attempt: 1, At: t.clock()}})
			}
		}
	case CloseByAssumedExpiry:
		for _, name := range t.w.names {
			if n := s.Name(name); n != nil {
				if c := n.Lease(n.Candidate); c != nil && c.State == leasecore.Acquired && c.Guard != "" && !c.GuardExtended {
					t.plant(name, c.No, &events.Expired{By: events.ExpiredByVault, Retry: events.Retry{Attempt: 1, At: t.clock()}})
				}
			}
		}
	case DefinitionsOnTakeover:
		f := t.w.files[t.fileAt]
		for _, name := range t.w.names {
			def, defined := f.defs[name]
			n := s.Name(name)
			switch {
			case defined && (n == nil || n.Definition == nil || !n.Definition.Equal(&def)):
				t.plant(name, 0, &events.Applied{Revision: f.revision, Definition: &def})
			case !defined && n != nil && n.Definition != nil:
				t.plant(name, 0, &events.Removed{Revision: f.revision})
			}
		}
	}
}

// plantAfter is called when an append is in the log.
func (t *instance) plantAfter(o *op) {
	for i := range o.evs {
		e := &o.evs[i]
		n := t.p.State().Name(e.Name)
		if n == nil {
			continue
		}
		switch d := e.Data.(type) {
		case *events.HandoverStarted:
			if t.w.opts.Mutant == RetireBeforeCommit && d.Previous != 0 && n.Active == d.Previous {
				t.plant(e.Name, d.Previous, &events.Retired{Reason: events.RetiredReplaced})
			}
		case *events.Left:
			if h := n.Handover; t.w.opts.Mutant == NobodyIsAYes && len(n.Consumers) == 0 && h != nil && !h.RollingBack {
				t.plant(e.Name, h.Lease, &events.Installed{Previous: n.Active, Proof: events.ProofConsumers})
			}
		case *events.AcquireFailed:
			if t.w.opts.Mutant == RetryTooSoon && n.Definition != nil && n.Candidate == 0 && n.Handover == nil {
				t.plant(e.Name, t.p.State().LastLease+1, &events.Requested{Vault: n.Definition.Vault, Path: n.Definition.Path, Attempt: 1})
			}
		}
	}
}

// plantBeforeDeciding is called before each decision.
func (t *instance) plantBeforeDeciding() {
	s := t.p.State()
	everybody := func(n *leasecore.Name, but []string) {
		for _, c := range n.Consumers {
			if !contains(but, c.ID) {
				s.Confirm(n.Name, c.ID, n.N)
			}
		}
	}
	for _, name := range t.w.names {
		n := s.Name(name)
		if n == nil {
			continue
		}
		switch t.w.opts.Mutant {
		case RevokeUnconfirmedRollBack:
			if h := n.Handover; h != nil && h.RollingBack && !t.clock().Before(h.RollbackAt.Add(h.RollbackBudget)) {
				everybody(n, nil)
			}
		case GateOverAskedOnly:
			everybody(n, t.w.lastAsked[name])
		case GraceIsEnough:
			for i := range n.Leases {
				if l := &n.Leases[i]; l.State == leasecore.Grace && !t.clock().Before(l.Replaced.At.Add(l.Replaced.GoodFor)) {
					everybody(n, nil)
				}
			}
		}
	}
}

func contains(all []string, s string) bool {
	for _, x := range all {
		if x == s {
			return true
		}
	}
	return false
}
