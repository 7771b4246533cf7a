package audit

import (
	"fmt"
	"slices"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
)

// rules holds an event to the rules that the fold itself does not enforce, in
// the state that the events before it made.
func (s *scope) rules(e *events.Event) {
	if s.state.Released && e.Type() != events.TypeOpened {
		s.find(about(e, Epoch, "E18", "the %s of %s stands behind the release of its epoch", e.Type(), e.Name))
	}
	if allowed := s.state.Formats.Of(e.Type()); e.Version > allowed {
		s.find(about(e, Format, "", "the %s of %s is written in version %d, and no format before it allows more than %d: instances of an earlier release were not kept from leading", e.Type(), e.Name, e.Version, allowed))
	}
	if s.muted[e.Name] {
		return
	}
	if kind, rule, why := s.broken(e); why != "" {
		s.find(about(e, kind, rule, "%s", why))
		s.mute(e.Name)
	}
}

// broken gives the first rule that an event breaks; why is empty: none.
func (s *scope) broken(e *events.Event) (kind Kind, rule, why string) {
	switch d := e.Data.(type) {
	case *events.Released:
		if d.Holder != s.state.Holder {
			return Story, "E18", fmt.Sprintf("the scope is given back by %s, its holder is %s", d.Holder, s.state.Holder)
		}
	case *events.Applied:
		// The definitions of a revision come first, the revision itself last.
		if d.Revision < s.state.Revision || d.Revision == s.state.Revision && d.Definition != nil {
			return Story, "L3", fmt.Sprintf("revision %d is applied, in force is %d", d.Revision, s.state.Revision)
		}
	}
	n := s.state.Name(e.Name)
	if n == nil {
		return "", "", "" // the fold says so
	}
	if d, ok := e.Data.(*events.Registered); ok {
		return registers(n, d)
	}
	if e.Lease == 0 {
		return "", "", ""
	}
	if kind, rule, why := s.begins(n, e); why != "" {
		return kind, rule, why
	}
	l := n.Lease(e.Lease)
	if l == nil {
		return "", "", ""
	}
	for _, check := range []func(*leasecore.Name, *leasecore.Lease, *events.Event) (Kind, string, string){acquiring, proving, using} {
		if kind, rule, why := check(n, l, e); why != "" {
			return kind, rule, why
		}
	}
	return "", "", ""
}

// registers: an instance's incarnation replaces the one before it, by name (P9).
func registers(n *leasecore.Name, d *events.Registered) (Kind, string, string) {
	for _, c := range n.Consumers {
		if c.Consumer == d.Consumer && c.Instance == d.Instance && c.ID != d.Replaces {
			return Story, "P9", fmt.Sprintf("%s/%s registers as %s in place of %q, registered is %s", d.Consumer, d.Instance, d.Incarnation, d.Replaces, c.ID)
		}
	}
	return "", "", ""
}

// begins: lease numbers are given out one after the other.
func (s *scope) begins(n *leasecore.Name, e *events.Event) (Kind, string, string) {
	switch e.Data.(type) {
	case *events.Requested:
		if e.Lease != s.state.LastLease+1 {
			return Number, "", fmt.Sprintf("lease %d is requested, the last number given out is %d: numbers are given out one after the other", e.Lease, s.state.LastLease)
		}
	case *events.Adopted: // it may leave numbers out that are burnt
		if e.Lease <= s.state.LastLease {
			return Number, "", fmt.Sprintf("lease %d of %s is adopted, the last number given out is %d", e.Lease, n.Name, s.state.LastLease)
		}
	}
	return "", "", ""
}

// acquiring: one read under each intent, and the guard before the hand-over.
func acquiring(n *leasecore.Name, l *leasecore.Lease, e *events.Event) (Kind, string, string) {
	switch d := e.Data.(type) {
	case *events.Acquired:
		if e.Epoch != l.Epoch {
			return Story, "P6", fmt.Sprintf("lease %d was requested in epoch %d and is acquired in epoch %d: nobody could know of it any more", l.No, l.Epoch, e.Epoch)
		}
		for _, k := range required(n) {
			if !slices.Contains(d.Keys, k) {
				return Proof, "L10", fmt.Sprintf("lease %d is staged without the key %q that its definition needs", l.No, k)
			}
		}
	case *events.Orphaned:
		if e.Epoch == l.Epoch {
			return Story, "P6", fmt.Sprintf("lease %d is given up as orphaned in the epoch that requested it", l.No)
		}
	case *events.HandoverStarted:
		if l.Guard != "" && l.LeaseID != "" && !l.GuardExtended {
			return Proof, "P5", fmt.Sprintf("lease %d is handed over before its guard was extended", l.No)
		}
		if n.Definition != nil && n.Definition.Verifier != nil && !l.Verified {
			return Proof, "L12", fmt.Sprintf("lease %d is handed over, its definition has a verifier, and no login with it worked", l.No)
		}
		if d.Unasked == "" {
			for _, c := range n.Consumers {
				if !slices.Contains(d.Asked, c.ID) {
					return Proof, "L14", fmt.Sprintf("lease %d is handed over, and %s is registered and not asked", l.No, c.ID)
				}
			}
		}
		if d.Previous != n.Active {
			return Story, "", fmt.Sprintf("lease %d is handed over in place of lease %d, active is %d", l.No, d.Previous, n.Active)
		}
	}
	return "", "", ""
}

func required(n *leasecore.Name) []string {
	if n.Definition == nil {
		return nil
	}
	return n.Definition.Keys()
}

// proving: no commit without the proof that it names.
func proving(n *leasecore.Name, l *leasecore.Lease, e *events.Event) (Kind, string, string) {
	h := n.Handover
	switch d := e.Data.(type) {
	case *events.Prepared:
		if h != nil && d.N != h.N {
			return Proof, "P8", fmt.Sprintf("%s answers to %d, the hand-over of lease %d is %d", d.Incarnation, d.N, l.No, h.N)
		}
		if n.Incarnation(d.Incarnation) == nil {
			return Proof, "P10", fmt.Sprintf("%s answers for lease %d and is not registered", d.Incarnation, l.No)
		}
	case *events.Installed:
		switch {
		case h == nil:
			return Proof, "I2", fmt.Sprintf("lease %d is committed, and no hand-over of it is in flight", l.No)
		case d.Previous != n.Active:
			return Story, "", fmt.Sprintf("lease %d is committed in place of lease %d, active is %d", l.No, d.Previous, n.Active)
		}
		if why := unproven(n, l, h, d.Proof); why != "" {
			return Proof, "I2", fmt.Sprintf("lease %d is committed (proof: %s), and %s", l.No, d.Proof, why)
		}
		if !l.Usable(e.Time) && d.Proof != events.ProofUnchanged && d.Proof != events.ProofForward {
			return Proof, "I2", fmt.Sprintf("lease %d is committed after its end", l.No)
		}
	}
	return "", "", ""
}

// unproven tells what is missing of the proof that a commit names; "": nothing.
func unproven(n *leasecore.Name, l *leasecore.Lease, h *leasecore.Handover, proof string) string {
	if h.Unasked == proof && proof != "" {
		return unasked(n, l, proof)
	}
	for _, c := range n.Consumers {
		answer, answered := h.Answers[c.ID]
		switch {
		case answered && !answer.Yes:
			return c.ID + " said no"
		case !answered && proof != events.ProofRather:
			return c.ID + " has not answered"
		}
	}
	switch proof {
	case events.ProofConsumers:
		if len(n.Consumers) == 0 {
			return "no consumer is registered"
		}
	case events.ProofVerifier:
		if !l.Verified {
			return "no login with it worked"
		}
	case events.ProofStaging:
		if n.Definition == nil || n.Definition.NeedsConsumer() {
			return "its definition names somebody who must prove it"
		}
	case events.ProofRather:
		if !l.Verified && len(h.Answers) == 0 {
			return "neither a login nor a consumer has proven it"
		}
	default:
		return "that is none"
	}
	return ""
}

func unasked(n *leasecore.Name, l *leasecore.Lease, proof string) string {
	a := n.Lease(n.Active)
	switch {
	case proof == events.ProofUnchanged && a != nil && a.Fingerprint != l.Fingerprint:
		return "its values are others than those in use"
	case proof == events.ProofForward && l.RereadIn == 0:
		return "it is no static role's"
	default:
		return ""
	}
}

// using: no lease is taken away that somebody uses or may use (I4), and what is
// being revoked is left alone (P7).
func using(n *leasecore.Name, l *leasecore.Lease, e *events.Event) (Kind, string, string) {
	if l.State == leasecore.Revoking {
		switch e.Data.(type) {
		case *events.Revoking, *events.Revoked, *events.RevokeFailed:
		default:
			return Use, "P7", fmt.Sprintf("lease %d is being revoked, which is final; then comes a %s", l.No, e.Type())
		}
	}
	switch d := e.Data.(type) {
	case *events.Revoking:
		if l.No == n.Active {
			return Use, "I4", fmt.Sprintf("the active lease %d of %s is revoked", l.No, n.Name)
		}
		if l.State != leasecore.Retired && l.State != leasecore.Revoking {
			return Use, "I4", fmt.Sprintf("lease %d of %s is revoked, and somebody may live on it: it is %s", l.No, n.Name, l.State)
		}
	case *events.Revoked:
		if l.State != leasecore.Revoking && !d.Shared {
			return Use, "I4", fmt.Sprintf("lease %d of %s is revoked, and its revocation was not intended: it is %s", l.No, n.Name, l.State)
		}
	case *events.Retired:
		return retiring(n, l, e, d)
	case *events.Expired:
		if d.By == events.ExpiredByClock && l.Usable(e.Time) {
			return Use, "I4", fmt.Sprintf("lease %d is said to be at its end by the clock, and it is not", l.No)
		}
	}
	return "", "", ""
}

func retiring(n *leasecore.Name, l *leasecore.Lease, e *events.Event, d *events.Retired) (Kind, string, string) {
	byOthers := d.Reason == events.RetiredReplaced || d.Reason == events.RetiredOverdue || d.Reason == events.RetiredRolledBack || d.Reason == events.RetiredUnproven
	switch {
	case l.State == leasecore.Active && byOthers:
		return Use, "I4", fmt.Sprintf("the active lease %d of %s is retired as %s", l.No, n.Name, d.Reason)
	case d.Reason == events.RetiredRemoved && n.Definition != nil:
		return Use, "L7", fmt.Sprintf("lease %d is retired as removed, and its definition is in force", l.No)
	case l.State == leasecore.Grace && d.Reason == events.RetiredReplaced && len(d.CutOff) > 0:
		return Use, "P13", fmt.Sprintf("lease %d is retired as replaced, and somebody is cut off", l.No)
	case l.State == leasecore.Grace && byOthers && e.Time.Before(l.Replaced.At.Add(l.Replaced.GoodFor)):
		return Use, "I4", fmt.Sprintf("lease %d is retired at %s, and readers were promised it until %s", l.No, e.Time.Format(stamp), l.Replaced.At.Add(l.Replaced.GoodFor).Format(stamp))
	default:
		return "", "", ""
	}
}

const stamp = "15:04:05.000"
