package leasecore

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/leasesvc/leasesvc/events"
)

// settleSteps and settleStepsPerLease bound how many events one look at a name
// may give: each step moves a lease on, and a lease has few left to go.
const (
	settleSteps         = 64
	settleStepsPerLease = 4
)

// settle decides all that a name owes at this time without anybody's answer.
// Recovery is this function too: what a takeover finds in flight is a state
// like any other.
func (w *decision) settle(name string) {
	steps := settleSteps
	if n := w.Name(name); n != nil {
		steps += settleStepsPerLease * len(n.Leases)
	}
	for range steps {
		n := w.Name(name)
		if n == nil || w.broken != nil || !w.step(n) {
			return
		}
	}
	w.broken = fmt.Errorf("%w: deciding %s: it does not settle", ErrDefect, name)
}

// step decides one event, the most urgent; false: nothing is owed.
func (w *decision) step(n *Name) bool {
	return w.stepIntent(n) || w.stepHandover(n) || w.stepCandidate(n) || w.stepLeases(n) || w.stepNeed(n)
}

// stepIntent closes intents of earlier epochs: nobody can say what came of
// them, and they are never extended (P6).
func (w *decision) stepIntent(n *Name) bool {
	for i := range n.Leases {
		if l := &n.Leases[i]; l.State == Requested && l.Epoch != w.h.Epoch {
			w.emit(n.Name, l.No, &events.Orphaned{Vault: l.Vault, Path: l.Path})
			return true
		}
	}
	return false
}

func (w *decision) stepHandover(n *Name) bool {
	h := n.Handover
	if h == nil {
		return false
	}
	if h.RollingBack {
		return w.stepRollback(n, h)
	}
	l := n.Lease(h.Lease)
	no, refused := h.refusal()
	switch {
	case h.Unasked != "" && n.Definition != nil && l.State == HandingOver && !l.Lost:
		return w.install(n, h, h.Unasked)
	case refused:
		return w.rollback(n, h, "refused", fmt.Sprintf("%s said no: %s", no, h.Answers[no].Reason))
	case n.Definition == nil:
		return w.rollback(n, h, "removed", "the definition was removed")
	case !l.Usable(w.at.Now) || l.Lost || l.State != HandingOver:
		return w.rollback(n, h, "expired", "the candidate came to its end while consumers were asked")
	}
	if proof := n.proof(h); proof != "" {
		return w.install(n, h, proof)
	}
	if h.Epoch != w.h.Epoch {
		return w.rollback(n, h, "takeover", "the holder changed before everybody had answered") // P12
	}
	if w.at.Now.Before(h.Started.Add(h.Budget)) {
		return false
	}
	if w.ratherThanNone(n, h, l) {
		return w.install(n, h, events.ProofRather)
	}
	return w.rollback(n, h, "timeout", "no answer in time from "+fmt.Sprint(n.silent(h)))
}

// refusal gives the first incarnation, by id, that said no.
func (h *Handover) refusal() (string, bool) {
	for _, id := range sortedKeys(h.Answers) {
		if !h.Answers[id].Yes {
			return id, true
		}
	}
	return "", false
}

// silent gives the registered incarnations that have not answered.
func (n *Name) silent(h *Handover) []string {
	out := []string{}
	for i := range n.Consumers {
		if _, ok := h.Answers[n.Consumers[i].ID]; !ok {
			out = append(out, n.Consumers[i].ID)
		}
	}
	return out
}

// proof tells what proves the candidate, once every registered incarnation has
// said yes; "" while it is not proven. Nobody there is not a yes: without a yes
// it takes a login of our own, or a definition that asks nobody.
func (n *Name) proof(h *Handover) string {
	for i := range n.Consumers {
		if !h.Answers[n.Consumers[i].ID].Yes {
			return ""
		}
	}
	switch {
	case len(n.Consumers) > 0:
		return events.ProofConsumers
	case n.Lease(h.Lease).Verified:
		return events.ProofVerifier
	case !n.Definition.NeedsConsumer():
		return events.ProofStaging
	default:
		return ""
	}
}

// ratherThanNone tells whether silence is taken for consent: the active lease
// is at its end, so that a roll back would lose both, and somebody or something
// has proven the candidate. Where there was none before, none is lost.
func (w *decision) ratherThanNone(n *Name, h *Handover, l *Lease) bool {
	a := n.Lease(n.Active)
	if a == nil && n.Successor != events.ReasonExpired {
		return false
	}
	if a != nil && a.lives(w.at.Now, n.Definition.RollbackTimeout.Duration()) {
		return false
	}
	return l.Verified || len(h.Answers) > 0
}

func (w *decision) install(n *Name, h *Handover, proof string) bool {
	w.emit(n.Name, h.Lease, &events.Installed{
		Previous: n.Active, Proof: proof, GoodFor: n.Definition.GoodFor, RetireAfter: n.Definition.RetireAfter,
	})
	return true
}

func (w *decision) rollback(n *Name, h *Handover, kind, message string) bool {
	budget := events.DefaultDefinition().RollbackTimeout
	if n.Definition != nil {
		budget = n.Definition.RollbackTimeout
	}
	w.emit(n.Name, h.Lease, &events.RollbackStarted{
		Failure: events.Failure{Kind: kind, Message: message}, Back: n.Active, Budget: budget,
	})
	return true
}

func (w *decision) stepRollback(n *Name, h *Handover) bool {
	missing := w.unconfirmed(n, n.N)
	if len(missing) > 0 && w.at.Now.Before(w.rollbackEnd(h)) {
		return false
	}
	w.emit(n.Name, h.Lease, &events.RolledBack{
		Safe: len(missing) == 0, Unconfirmed: missing, Retry: retryAfter(n.attempts(), w.at.Now, 0),
	})
	return true
}

// rollbackEnd is when a roll back's budget is spent. After a takeover it begins
// anew, since everybody has to be asked again.
func (w *decision) rollbackEnd(h *Handover) time.Time { return rollbackEnd(&w.h, h) }

func rollbackEnd(head *Head, h *Handover) time.Time {
	from := h.RollbackAt
	if head.OpenedAt.After(from) {
		from = head.OpenedAt
	}
	return from.Add(h.RollbackBudget)
}

// stepCandidate moves an acquired candidate on.
func (w *decision) stepCandidate(n *Name) bool {
	c := n.Lease(n.Candidate)
	if c == nil || c.State != Acquired {
		return false
	}
	switch {
	case n.Definition == nil:
		return w.retire(n, c, events.RetiredRemoved)
	case c.Vault != n.Definition.Vault || c.Path != n.Definition.Path:
		return w.retire(n, c, events.RetiredUnproven)
	case !c.Usable(w.at.Now):
		w.emit(n.Name, c.No, &events.Expired{By: events.ExpiredByClock, Retry: retryAfter(n.attempts(), w.at.Now, 0)})
		return true
	case n.sameAgain(c):
		return w.retire(n, c, events.RetiredUnchanged)
	case w.at.Draining || !n.readyToHandOver(c) || n.renewFirst(c, w.at.Now):
		return false
	}
	start := &events.HandoverStarted{Previous: n.Active, Budget: n.Definition.PrepareTimeout, Unasked: n.unasked(c)}
	for i := range n.Consumers {
		if start.Unasked == "" {
			start.Asked = append(start.Asked, n.Consumers[i].ID)
		}
	}
	w.emit(n.Name, c.No, start)
	return true
}

// unasked tells why nobody need be asked about a candidate; "": everybody must
// be.
func (n *Name) unasked(c *Lease) string {
	a := n.Lease(n.Active)
	switch {
	case c.Forced || a == nil:
		return ""
	case c.Fingerprint == a.Fingerprint && c.Fingerprint != "":
		return events.ProofUnchanged // L13
	case c.RereadIn > 0 && c.Reason == events.ReasonChanged:
		return events.ProofForward
	default:
		return ""
	}
}

// sameAgain tells whether a candidate is a secret without lease that is what is
// active already: there is nothing to install (L13, L38).
func (n *Name) sameAgain(c *Lease) bool {
	a := n.Lease(n.Active)
	return a != nil && !c.Forced && c.LeaseID == "" && a.LeaseID == "" && c.Fingerprint != "" && c.Fingerprint == a.Fingerprint &&
		a.Path == c.Path && a.Vault == c.Vault
}

// extended tells whether the lease outlives a crash of ours by design: its
// guard was extended, or there is none (P5).
// A secret without lease hangs on nothing.
func (l *Lease) extended() bool { return l.Guard == "" || l.LeaseID == "" || l.GuardExtended }

// readyToHandOver tells whether nothing but the hand-over is left to prove.
func (n *Name) readyToHandOver(c *Lease) bool {
	return c.extended() && (n.Definition.Verifier == nil || c.Verified)
}

// renewFirst tells whether the active lease should be renewed before a
// hand-over begins, since it might not live until that has been rolled back.
func (n *Name) renewFirst(c *Lease, now time.Time) bool {
	a := n.Lease(n.Active)
	if a == nil || c.ActiveRenewed || !a.renewable(now) {
		return false
	}
	need := n.Definition.PrepareTimeout.Add(n.Definition.RollbackTimeout).Duration()
	return !a.lives(now, need)
}

func (w *decision) retire(n *Name, l *Lease, reason string) bool {
	w.emit(n.Name, l.No, &events.Retired{Reason: reason})
	return true
}

// stepLeases moves leases towards their end.
func (w *decision) stepLeases(n *Name) bool {
	for i := range n.Leases {
		l := &n.Leases[i]
		switch l.State {
		case Active, Grace, Kept:
			if w.stepHeld(n, l) {
				return true
			}
		case Retired:
			if sharer(w.Draft, n.Name, l) != nil {
				w.emit(n.Name, l.No, &events.Revoked{Shared: true}) // L26
				return true
			}
			w.emit(n.Name, l.No, &events.Revoking{})
			return true
		}
	}
	return false
}

func (w *decision) stepHeld(n *Name, l *Lease) bool {
	switch {
	case !l.Usable(w.at.Now):
		w.emit(n.Name, l.No, &events.Expired{By: events.ExpiredByClock})
		return true
	case n.Definition == nil && n.Handover == nil:
		return w.retire(n, l, events.RetiredRemoved) // L7
	case l.State == Grace:
		missing := w.unconfirmed(n, l.GateN)
		if w.at.Now.Before(w.base.promised(n, l)) {
			return false
		}
		switch {
		case !w.at.Now.Before(l.Replaced.RetireAt):
			reason := events.RetiredReplaced
			if len(missing) > 0 {
				reason = events.RetiredOverdue
			}
			w.emit(n.Name, l.No, &events.Retired{Reason: reason, CutOff: missing})
			return true
		case len(missing) == 0:
			return w.retire(n, l, events.RetiredReplaced) // P13
		}
	case l.State == Kept && n.Handover == nil && w.gate(n, n.N):
		return w.retire(n, l, events.RetiredRolledBack) // P15
	}
	return false
}

// stepNeed requests a lease when the name needs one and may get one.
func (w *decision) stepNeed(n *Name) bool {
	reason := n.need(w.at.Now)
	if w.at.Draining || reason == "" || w.mayAcquire(n, reason, true) != "" {
		return false
	}
	w.request(n, reason)
	return true
}

// need tells why the name needs a lease now; "": it does not.
func (n *Name) need(now time.Time) string {
	if n.Definition == nil || n.Candidate != 0 || n.Handover != nil {
		return ""
	}
	a := n.Lease(n.Active)
	switch {
	case a == nil && n.Successor != "":
		return n.Successor
	case a == nil:
		return events.ReasonFirst
	case n.Successor != "":
		return n.Successor
	case a.Vault != n.Definition.Vault || a.Path != n.Definition.Path:
		return events.ReasonDefinition // L3
	}
	if due, ends := a.RenewalDue(n.Definition.RenewAt); ends && !a.renewable(now) && !now.Before(due) {
		return events.ReasonDue // L30
	}
	return ""
}

// mayAcquire tells why no lease may be requested for a reason now; "": it may.
func (w *decision) mayAcquire(n *Name, reason string, byItself bool) string {
	if p := n.blocking(); p != nil && !w.dueAgain(p) {
		return fmt.Sprintf("the last attempt failed (%s), the next one is due at %s", p.Failure.Kind, p.At.UTC().Format(time.RFC3339)) // L4
	}
	if at, whose := afford(&w.h, n.Definition, n, w.at.Now); at.After(w.at.Now) {
		return fmt.Sprintf("%s has spent its budget of acquisitions that came to nothing (last failure: %s); the next one is allowed at %s",
			whose, n.lastFailure(), at.UTC().Format(time.RFC3339)) // C34
	}
	if n.Definition.NeedsConsumer() && len(n.Consumers) == 0 && (byItself || n.Active == 0) {
		return "only a consumer can prove this credential, and none has registered"
	}
	if k, many := n.kept(); many > 1 || many == 1 && reason != events.ReasonReported && !n.nearEnd(w.at.Now) {
		return fmt.Sprintf("lease %d was rolled back and a consumer may still live on it", k) // L22
	}
	return ""
}

// dueAgain tells whether a pending retry is due: what failed because Vault was
// out is due the moment it is back.
func (w *decision) dueAgain(p *Pending) bool {
	if !w.at.Now.Before(p.At) {
		return true
	}
	return outage[p.Failure.Kind] && w.base.overdue(p.Vault, p.Retry, w.at.Now)
}

// outage has the kinds of failure (vault.Kind) that say nothing about what was
// asked for.
var outage = map[string]bool{
	"sealed": true, "standby": true, "uninitialised": true, "transient": true, "timeout": true, "unreachable": true, "not-logged-in": true,
}

// blocking gives the pending retry if it is for the path and connection that
// are in force (L4).
func (n *Name) blocking() *Pending {
	if p := n.Pending; p != nil && p.Vault == n.Definition.Vault && p.Path == n.Definition.Path {
		return p
	}
	return nil
}

func (n *Name) lastFailure() string {
	if n.Pending == nil {
		return "none"
	}
	return n.Pending.Failure.Kind
}

// kept gives a lease that was rolled back without everybody's word, and how many
// there are: one is waited for while the active lease lives, two in any case.
func (n *Name) kept() (no uint64, many int) {
	for i := range n.Leases {
		if n.Leases[i].State == Kept {
			no, many = n.Leases[i].No, many+1
		}
	}
	return no, many
}

// nearEnd tells whether the active lease ends too soon to wait any longer.
func (n *Name) nearEnd(now time.Time) bool {
	a := n.Lease(n.Active)
	if a == nil {
		return true
	}
	need := n.Definition.PrepareTimeout.Add(n.Definition.RollbackTimeout).Duration()
	if n.Definition.Verifier != nil {
		need += n.Definition.Verifier.Timeout.Duration()
	}
	return !a.lives(now, need)
}

func (w *decision) request(n *Name, reason string) {
	w.emit(n.Name, w.h.LastLease+1, &events.Requested{
		Vault: n.Definition.Vault, Path: n.Definition.Path, Reason: reason,
		Attempt: n.attempts() + 1, Replaces: n.Active,
	})
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
