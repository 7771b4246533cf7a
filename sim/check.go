package sim

import (
	"slices"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/projector"
)

// proofs is what the log holds for a candidate, kept apart from the core.
type proofs struct {
	verified    bool
	extended    bool
	guarded     bool
	n           uint64
	yes         map[string]bool
	anybody     bool // somebody answered
	fingerprint string
	clock       bool // its own clock gave it new values, and the old ones are gone
}

// backOff is a retry that the log has planned.
type backOff struct {
	path string
	at   time.Time
}

// before is what a check must know of the state that an event changes.
type before struct {
	revision uint64
	active   uint64
	def      *events.Definition
	asked    []string // registered incarnations
	there    bool
	lease    leasecore.Lease
}

func (w *world) before(e *events.Event) before {
	b := before{revision: w.truth.State().Revision}
	if n := w.truth.State().Name(e.Name); n != nil {
		b.active, b.def, b.there = n.Active, n.Definition, true
		if l := n.Lease(e.Lease); l != nil {
			b.lease = *l
		}
		if e.Type() == events.TypeInstalled {
			for _, c := range n.Consumers {
				b.asked = append(b.asked, c.ID)
			}
		}
	}
	return b
}

// checkEpoch holds I1: epochs grow, and no event of an epoch comes after a later
// one opened.
func (w *world) checkEpoch(e *events.Event) {
	head := &w.truth.State().Head
	d, opens := e.Data.(*events.Opened)
	switch {
	case !opens && e.Epoch != head.Epoch:
		w.failf("I1", "sequence %d (%s) is of epoch %d in epoch %d", e.Seq, e.Type(), e.Epoch, head.Epoch)
	case opens && e.Epoch <= head.Epoch && (d.How != events.HowReopened || e.Epoch < head.Epoch || d.Holder != head.Holder):
		w.failf("I1", "sequence %d opens epoch %d in epoch %d", e.Seq, e.Epoch, head.Epoch)
	}
	if w.now.After(w.lastAt) {
		w.lastAt, w.eventsAt = w.now, 0
	}
	if w.eventsAt++; w.eventsAt > 200 {
		w.failf("spin", "200 events and no time has passed; the last is a %s of %s", e.Type(), e.Name)
	}
}

// checkEvent holds what an event can break.
func (w *world) checkEvent(e *events.Event, was before) {
	switch d := e.Data.(type) {
	case *events.Applied:
		if !was.there {
			delete(w.retryAt, e.Name)
		}
		if d.Revision <= was.revision {
			w.failf("D3", "revision %d is put in force, in force was %d", d.Revision, was.revision)
		}
	case *events.Removed:
		if d.Revision <= was.revision {
			w.failf("D3", "revision %d removes a definition, in force was %d", d.Revision, was.revision)
		}
	case *events.Registered:
		if a := w.incarnation(d.Incarnation); a != nil {
			a.left = false
		}
		if a := w.incarnation(d.Replaces); a != nil {
			w.failf("P9", "%s replaces %s, which lives", d.Incarnation, d.Replaces)
		}
	case *events.Left:
		w.excuseGone(d.Incarnation)
	case *events.Requested:
		if b := w.retryAt[e.Name]; b.path == d.Vault+d.Path && e.Time.Before(b.at) {
			w.failf("L4", "lease %d of %s is requested at %s, its retry is due at %s", e.Lease, e.Name, e.Time, b.at)
		}
		w.proofs[e.Lease] = &proofs{}
	case *events.Acquired:
		w.proofs[e.Lease].guarded, w.proofs[e.Lease].fingerprint = d.Guard != "" && d.LeaseID != "", d.Fingerprint
		w.proofs[e.Lease].clock = d.RereadIn.Sign() > 0
		if w.secretIn(d.Public) {
			w.failf("I7", "acquired names a secret value")
		}
	case *events.Adopted:
		w.proofs[e.Lease] = &proofs{fingerprint: d.Fingerprint}
		w.adopted[d.LeaseID] = true
	case *events.AcquireFailed:
		w.plans(e.Name, was, d.Retry)
		w.checkClosed(e)
	case *events.GuardExtended:
		w.proofs[e.Lease].extended = true
	case *events.Verified:
		w.proofs[e.Lease].verified = true
	case *events.VerifyFailed:
		w.plans(e.Name, was, d.Retry)
	case *events.HandoverStarted:
		p := w.proofs[e.Lease]
		p.n, p.yes = e.Seq, map[string]bool{}
		w.lastAsked[e.Name] = d.Asked
		if p.guarded && !p.extended {
			w.failf("P5", "lease %d is handed over, its guard was not extended", e.Lease)
		}
	case *events.Prepared:
		if p := w.proofs[e.Lease]; p.n == d.N {
			p.yes[d.Incarnation], p.anybody = d.Yes, true
		}
	case *events.Installed:
		w.checkInstalled(e, d, was)
	case *events.RollbackStarted:
		w.backAt[e.Seq] = d.Back
	case *events.RolledBack:
		w.plans(e.Name, was, d.Retry)
		if d.Safe {
			w.checkUnused(e.Name, e.Lease, "its roll back is called safe")
		}
	case *events.Retired:
		w.checkRetired(e, d)
	case *events.Expired:
		w.excused[e.Lease] = "expired"
		if d.Retry.Attempt > 0 {
			w.plans(e.Name, was, d.Retry)
		}
		w.checkClosed(e)
	case *events.Orphaned:
		w.checkClosed(e)
	case *events.Revoking:
		w.checkRevoking(e, was)
	case *events.Revoked:
		w.checkClosed(e)
	}
}

func (w *world) secretIn(public map[string]string) bool {
	for _, v := range public {
		if len(v) >= len(secretMark) && v[:len(secretMark)] == secretMark {
			return true
		}
	}
	return false
}

// plans remembers a planned retry of an acquisition (L4).
func (w *world) plans(name string, was before, r events.Retry) {
	w.retryAt[name] = backOff{path: was.lease.Vault + was.lease.Path, at: r.At}
}

// checkInstalled holds what a commit needs: a proof (L14, I2), a guard that
// lives on (P5), a lease that was not given up (P7).
func (w *world) checkInstalled(e *events.Event, d *events.Installed, was before) {
	delete(w.retryAt, e.Name)
	w.installedNo[e.Lease] = true
	p := w.proofs[e.Lease]
	if w.revokedNo[e.Lease] {
		w.failf("P7", "lease %d was being revoked and is installed", e.Lease)
	}
	if p.guarded && !p.extended {
		w.failf("P5", "lease %d is installed, its guard was not extended", e.Lease)
	}
	if d.Proof == events.ProofUnchanged {
		if p.fingerprint != w.proofs[was.active].fingerprint {
			w.failf("L13", "lease %d is installed for being unchanged, and it is not", e.Lease)
		}
		return
	}
	if d.Proof == events.ProofForward && p.clock {
		return // L39: there is nothing to go back to
	}
	if d.Proof == events.ProofRather {
		if !p.verified && !p.anybody {
			w.failf("L14", "lease %d is installed and nobody has proven it", e.Lease)
		}
		return
	}
	for _, id := range was.asked {
		if !p.yes[id] {
			w.failf("L14", "lease %d is installed (%s), %s has not said yes", e.Lease, d.Proof, id)
		}
	}
	if len(was.asked) == 0 && !p.verified && (was.def == nil || was.def.NeedsConsumer()) {
		w.failf("L14", "lease %d is installed (%s), and nobody was there to say yes", e.Lease, d.Proof)
	}
}

// checkRetired remembers the exceptions that the log states, and holds that
// without one nobody uses the lease.
func (w *world) checkRetired(e *events.Event, d *events.Retired) {
	switch d.Reason {
	case events.RetiredByHand, events.RetiredRemoved, events.RetiredShutdown:
		w.excused[e.Lease] = d.Reason
	case events.RetiredOverdue:
		w.cutOff[e.Lease] = d.CutOff
		if n := w.truth.State().Name(e.Name); w.peaceful && (n.Active == 0 || !w.liedAbout(n.Lease(n.Active))) {
			for _, id := range d.CutOff {
				if a := w.incarnation(id); a != nil && w.calmFor() > 40*time.Second && !a.liar {
					w.failf("P14", "%s is cut off from lease %d though everything works", id, e.Lease)
				}
			}
		}
	}
	w.checkUnused(e.Name, e.Lease, "it is retired ("+d.Reason+")")
}

func (w *world) checkRevoking(e *events.Event, was before) {
	w.revokedNo[e.Lease] = true
	if was.active == e.Lease {
		w.failf("I4", "the active lease %d of %s is revoked", e.Lease, e.Name)
	}
	w.checkUnused(e.Name, e.Lease, "it is being revoked")
}

// checkUnused holds I4: no application that counts is on the lease, but for the
// exceptions that the log states.
func (w *world) checkUnused(name string, no uint64, what string) {
	if w.excused[no] != "" {
		return
	}
	for _, a := range w.apps {
		if a.name != name || !a.up || a.liar || !slices.Contains(a.uses, no) || slices.Contains(a.excused, no) {
			continue
		}
		if slices.Contains(w.cutOff[no], a.inc) {
			continue
		}
		w.failf("I4", "%s may live on lease %d, and %s", a.inc, no, what)
	}
}

// excuseGone: who counts as gone is not waited for (leave_after).
func (w *world) excuseGone(inc string) {
	if a := w.incarnation(inc); a != nil {
		a.left = true
		a.excused = append(a.excused, a.uses...)
	}
}

func (w *world) incarnation(id string) *application {
	for _, a := range w.apps {
		if a.up && a.inc == id {
			return a
		}
	}
	return nil
}

// owned tells whether the log owns a grant of Vault's.
func (w *world) owned(g *grant) bool {
	for _, o := range g.owners {
		if n := w.truth.State().Name(o.name); n != nil {
			if l := n.Lease(o.no); l != nil && l.State != leasecore.Requested && l.LeaseID == g.id {
				return true
			}
		}
	}
	return false
}

// checkClosed holds I3: what the log closes is dead in Vault, or hangs on a
// guard that nobody extended.
func (w *world) checkClosed(e *events.Event) {
	for _, g := range w.vault.grants {
		if !g.under(e.Lease) || !g.alive(w.now) || g.id == "" || w.owned(g) {
			continue
		}
		switch {
		case g.elsewhere && !w.adopted[g.id]:
		case g.guard != nil && !g.guard.extended:
		case g.guard == nil && (!g.told || e.Type() == events.TypeOrphaned): // no guard, and nobody knows: named, not helped
		default:
			w.failf("I3", "the log closes lease %d (%s), %s lives on in Vault", e.Lease, e.Type(), g.id)
		}
	}
}

// checkRevocation holds I4 at the moment when Vault revokes.
func (w *world) checkRevocation(g *grant) {
	for _, o := range g.owners {
		w.checkRevocationOf(g, o)
	}
}

func (w *world) checkRevocationOf(g *grant, o owner) {
	n := w.truth.State().Name(o.name)
	if n == nil {
		return
	}
	l := n.Lease(o.no)
	if l == nil || l.LeaseID != g.id {
		if len(g.owners) > 1 || g.elsewhere {
			return // its adoption came to nothing, or it let go (L26)
		}
	} else if l.State != leasecore.Revoking && (len(g.owners) == 1 || l.State != leasecore.Retired) {
		w.failf("I4", "lease %d is revoked in Vault, in the log it is %s", o.no, l.State)
	}
	if n.Active == o.no {
		w.failf("I4", "the active lease %d of %s is revoked in Vault", o.no, o.name)
	}
	w.checkUnused(o.name, o.no, "Vault revokes it")
	if p, ok := w.promises[o.no]; ok && w.excused[o.no] == "" && w.now.Before(p.until.Add(p.jumped-w.jumped)) {
		w.failf("good_for", "lease %d is revoked %s before what a reader was promised", o.no, p.until.Sub(w.now))
	}
}

// checkReaders holds I2 for every instance that would answer a get.
func (w *world) checkReaders() {
	for _, t := range w.instances {
		if t.role != leading || !t.fresh() {
			continue
		}
		for _, name := range w.names {
			n := t.p.State().Name(name)
			if n == nil || n.Active == 0 || n.Definition == nil {
				continue
			}
			l := n.Committed(t.clock())
			if l == nil && w.opts.Mutant == ServeExpired {
				l = n.Lease(n.Active)
			}
			if l != nil {
				w.checkShown(t, l)
			}
		}
	}
}

func (w *world) checkShown(t *instance, l *leasecore.Lease) {
	if !w.installedNo[l.No] {
		w.failf("I2", "%s shows lease %d, which was never committed", t.name, l.No)
	}
	g := w.vault.byNo(l.No, l.LeaseID)
	if g == nil || g.lied || g.id == "" {
		return
	}
	if t.deposed && w.excused[l.No] != "" {
		return // taken away by hand within a heartbeat of the deposal
	}
	if !g.alive(w.now) {
		w.failf("I2", "%s shows lease %d, which is dead in Vault (revoked %t, ended %s)", t.name, l.No, g.revoked, g.ends.Sub(epochStart))
	}
}

// checkMoved holds I5 and P11: after a confirmed move an application is on what
// it was told, and going back goes back to what was there.
func (w *world) checkMoved(a *application, t *task) {
	if a.liar {
		return
	}
	if back, ok := w.backAt[t.n]; ok && t.lease != 0 && t.lease != back {
		w.failf("I5", "%s goes back to lease %d under n=%d, there was %d", a.inc, t.lease, t.n, back)
	}
	for _, u := range a.uses {
		if u != t.lease {
			w.failf("I5", "%s confirms lease %d and is on %d", a.inc, t.lease, u)
		}
	}
}

// checkSame holds I6 for a projection that is at the log's end.
func (w *world) checkSame(what string, p *projector.Projection) {
	if a, b := w.truth.State().Print(), p.State().Print(); a != b {
		w.failf("I6", "%s differs from the fold of the log:\n%s\nand\n%s", what, b, a)
	}
}

// checkLive compares a holder's state with the log's.
func (w *world) checkLive(t *instance) {
	if t.role == leading && t.p.LastSeq() == w.log.last() {
		w.checkSame(t.name+"'s state", t.p)
	}
}

// checkReplay folds the whole log anew, from its bytes where there are any.
func (w *world) checkReplay() {
	var key []byte
	if w.codec {
		key = macKey
	}
	p := projector.New(scopeName, key)
	for s := uint64(1); s <= w.log.last(); s++ {
		var err error
		if w.codec {
			_, err = p.Apply(s, w.log.at(s).payload)
		} else {
			err = p.Adopt(w.log.at(s).event)
		}
		if err != nil {
			w.failf("I6", "replaying sequence %d: %v", s, err)
		}
	}
	if n, _ := p.Skipped(); n > 0 {
		w.failf("I6", "%d events of the log do not count", n)
	}
	w.checkSame("a replay", p)
}
