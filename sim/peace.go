package sim

import (
	"slices"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
)

// The bounds of peace: by then everything has come to rest.
const (
	peaceSteps = 20_000
	peaceTime  = 40 * time.Minute
	// calmTime is for how long nothing must change for it to be rest.
	calmTime = 3 * time.Minute
)

// calmFor tells how long there has been peace.
func (w *world) calmFor() time.Duration { return w.now.Sub(w.peaceAt) }

// leaveInPeace ends all faults: what is lost is lost, what is late arrives, and
// from then on everything works. After a while I3 and I8 must hold.
func (w *world) leaveInPeace() {
	w.peaceFrom = len(w.trace)
	w.notef("peace")
	w.peaceful, w.peaceAt = true, w.now
	w.choice = replayed(nil)
	for _, f := range w.flights {
		f.late = false
	}
	for _, a := range w.apps {
		a.cutOff = false
		if a.hung {
			a.wakeUp()
		}
		if !a.up && a.starts > 0 && a.starts%2 == 0 {
			a.begin() // some stay away for good
		}
	}
	for _, t := range w.instances {
		if t.deposed && t.role == leading {
			t.standDown("its renewal is refused")
		}
		t.hangs = false
		t.fileAt = len(w.files) - 1
		if t.role == leading {
			t.applyFile()
		}
	}
	restless := w.now
	last := w.log.last()
	for i := 0; ; i++ {
		if i > peaceSteps || w.now.Sub(w.peaceAt) > peaceTime {
			w.failf("I8", "there is no rest after %d steps and %s in peace", i, w.now.Sub(w.peaceAt))
		}
		for ; last < w.log.last(); last++ {
			if w.log.at(last+1).event.Type() != events.TypeRenewed {
				restless = w.now
			}
		}
		if w.now.Sub(restless) > calmTime && w.atRest() {
			break
		}
		w.peacefulStep()
		w.checkReaders()
	}
	w.checkReplay()
	w.checkLive(w.leader())
	w.checkEnd()
}

// atRest tells whether the state is one that stays.
func (w *world) atRest() bool {
	s := w.truth.State()
	for _, name := range w.names {
		n := s.Name(name)
		if n == nil {
			continue
		}
		if a := n.Lease(n.Active); a != nil && w.liedAbout(a) {
			continue
		}
		if n.Definition == nil || n.Handover != nil || n.Candidate != 0 || len(n.Leases) > 1 {
			return false
		}
		if n.Definition.NeedsConsumer() && len(n.Consumers) == 0 {
			continue
		}
		if n.Committed(w.now) == nil {
			return false
		}
	}
	return true
}

func (w *world) peacefulStep() {
	for _, t := range w.instances {
		if t.hasWork() {
			w.now = w.now.Add(time.Millisecond)
			t.work()
			return
		}
	}
	if len(w.flights) > 0 {
		w.now = w.now.Add(time.Millisecond)
		w.deliver(w.pickFlight(false))
		return
	}
	for _, t := range w.instances {
		if t.canStep() && (w.leader() == nil || t.role != standingBy || !t.up) && (t.role != claiming || w.claimable(t)) {
			if w.leader() != nil && t.role == opening {
				t.standDown("there is a leader")
				return
			}
			t.standByStep()
			return
		}
	}
	for _, a := range w.apps {
		if a.canAct() {
			a.act()
			return
		}
	}
	w.passUntilDue()
}

// checkEnd holds I3 and I8 for a system that was left in peace.
func (w *world) checkEnd() {
	s := w.truth.State()
	for _, name := range w.names {
		def, defined := w.files[len(w.files)-1].defs[name]
		n := s.Name(name)
		switch {
		case !defined && n != nil:
			w.failf("I8", "%s was removed and is still there", name)
		case !defined:
			continue
		case n == nil || n.Definition == nil:
			w.failf("I8", "%s is defined and not there", name)
		case def.NeedsConsumer() && len(n.Consumers) == 0:
		case n.Committed(w.now) == nil:
			w.failf("I8", "%s has no usable lease", name)
		}
		for _, a := range w.apps {
			if a.up && a.name == name && !a.liar && len(def.Consumers) > 0 {
				w.checkFollows(a, n)
			}
		}
	}
	for _, g := range w.vault.grants {
		if !g.alive(w.now) || g.id == "" {
			continue
		}
		switch {
		case slices.ContainsFunc(g.owners, func(o owner) bool { return w.needs(s.Name(o.name), o.no, g) }):
		case g.elsewhere && !w.adopted[g.id]:
		case g.guard == nil && !w.owned(g) && g.last.After(w.now) && !g.told: // nobody could know of it
		case g.guard == nil && w.orphaned(g):
		default:
			w.failf("I3", "lease %s of %v lives on in Vault and nobody uses it", g.id, g.owners)
		}
	}
	for no := range w.store {
		if !w.owns(no) && w.closedClean(no) {
			w.failf("I3", "the sealed values of lease %d are left behind", no)
		}
	}
}

// needs tells whether a grant is what a name has active, or may be kept because
// nobody can know how long that lives.
func (w *world) needs(n *leasecore.Name, no uint64, g *grant) bool {
	if n == nil || n.Active == 0 {
		return false
	}
	if n.Active == no && n.Lease(no).LeaseID == g.id {
		return true
	}
	l := n.Lease(no)
	return l != nil && l.LeaseID == g.id && w.liedAbout(n.Lease(n.Active))
}

// checkFollows holds P14: in peace everybody is on what is committed.
func (w *world) checkFollows(a *application, n *leasecore.Name) {
	active := n.Lease(n.Active)
	if active == nil || !active.Usable(w.now) {
		return
	}
	if w.liedAbout(active) {
		return
	}
	if !slices.Equal(a.uses, []uint64{active.No}) {
		w.failf("P14", "%s is on %v, committed is %d", a.inc, a.uses, active.No)
	}
}

// liedAbout tells whether Vault told another duration than it granted: for how
// long such a lease lives, nobody can know.
func (w *world) liedAbout(l *leasecore.Lease) bool {
	g := w.vault.byNo(l.No, l.LeaseID)
	return g != nil && g.lied
}

// orphaned tells whether the log named the intent of an unguarded lease as one
// that it could not account for.
func (w *world) orphaned(g *grant) bool {
	for s := uint64(1); s <= w.log.last(); s++ {
		if e := w.log.at(s).event; g.under(e.Lease) && e.Type() == "orphaned" {
			return true
		}
	}
	return false
}

func (w *world) owns(no uint64) bool {
	for _, name := range w.names {
		if n := w.truth.State().Name(name); n != nil && n.Lease(no) != nil {
			return true
		}
	}
	return false
}

// closedClean tells whether a lease ended by a revocation, which purges its
// values; what expired, was orphaned or let go is left to the sweep.
func (w *world) closedClean(no uint64) bool {
	for s := w.log.last(); s > 0; s-- {
		if e := w.log.at(s).event; e.Lease == no {
			d, ok := e.Data.(*events.Revoked)
			return ok && !d.Shared
		}
	}
	return false
}
