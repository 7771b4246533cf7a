package sim

import (
	"maps"
	"strconv"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
)

// operate does what an operator or an application's owner would.
func (w *world) operate() {
	name := w.names[w.choice.below(len(w.names))]
	switch w.choice.weighted([]int{40, 8, 12, 6, 10, 8, 12, 4, 4, 3, 1, 8, 5, 4}) {
	case 0:
		w.ask(leasecore.Rotate{Name: name})
	case 1:
		w.ask(leasecore.RevokeActive{Name: name})
	case 2:
		w.edit(false)
	case 3: // the file of an instance is brought up to date, and read
		if t := w.choose(func(t *instance) bool { return t.up }); t != nil {
			t.fileAt = len(w.files) - 1
			if t.role == leading {
				t.applyFile()
			}
		}
	case 4:
		w.get(name)
	case 5: // a consumer comes or goes in good order
		if a := w.anyApp(); a != nil {
			if a.up {
				a.leave()
			} else {
				a.begin()
			}
		}
	case 6:
		w.get(name)
	case 7:
		if t := w.choose(func(t *instance) bool { return t.role == leading && t.op == nil }); t != nil {
			w.notef("%s is told to stop", t.name)
			t.draining = true
		}
	case 8: // a secret without lease gets another value
		w.vault.kv[name]++
	case 9:
		w.ask(leasecore.Reissue{})
	case 10:
		w.ask(leasecore.Shutdown{})
	case 11: // a consumer says that the active lease is refused (C58)
		if n := w.truth.State().Name(name); n != nil && n.Active != 0 {
			w.ask(leasecore.Reported{Name: name, Lease: n.Active})
		}
	case 12:
		if t := w.choose(func(t *instance) bool { return t.role == leading }); t != nil {
			g := w.vault.adoptable()
			w.notef("operator: adopt %s as %s", g.id, name)
			t.queue = append(t.queue, request{command: leasecore.Adopt{Name: name}, adopts: g})
		}
	case 13: // somebody writes a settings document, from what another instance may know of it
		if t := w.choose(func(t *instance) bool { return t.p != nil }); t != nil {
			revision := t.p.State().Documents["settings"].Revision
			w.ask(leasecore.UpdateDocument{Name: "settings", Expected: revision, Keep: revision > 0 && w.choice.chance(300),
				Updated: events.Updated{Paths: []string{"$"}, Blob: strconv.FormatUint(w.log.last(), 10)}})
		}
	}
}

// ask submits an operator's command to whoever leads.
func (w *world) ask(c leasecore.Command) {
	if t := w.choose(func(t *instance) bool { return t.role == leading }); t != nil {
		w.notef("operator: %T", c)
		t.queue = append(t.queue, request{command: c})
	}
}

func (w *world) anyApp() *application {
	if len(w.apps) == 0 {
		return nil
	}
	return w.apps[w.choice.below(len(w.apps))]
}

// edit writes a new revision of the definitions file, and gives it to some of
// the instances.
func (w *world) edit(first bool) {
	c := w.choice
	old := w.files[len(w.files)-1]
	f := file{revision: old.revision + 1, defs: maps.Clone(old.defs)}
	if f.defs == nil {
		f.defs = map[string]events.Definition{}
	}
	for _, n := range w.names {
		_, there := f.defs[n]
		switch {
		case first:
			f.defs[n] = w.definition(n)
		case c.chance(300):
			f.defs[n] = w.definition(n)
		case there && c.chance(150):
			delete(f.defs, n)
		}
	}
	w.files = append(w.files, f)
	for _, t := range w.instances {
		if first || c.chance(700) {
			t.fileAt = len(w.files) - 1
			if t.role == leading {
				t.applyFile()
			}
		}
	}
}

func (w *world) definition(name string) events.Definition {
	c := w.choice
	d := events.DefaultDefinition()
	d.Vault, d.Path, d.Kind = mainVault, "database/creds/"+name, events.KindPostgreSQL
	switch c.below(20) {
	case 19:
		d.Path, d.Kind = "kv/"+name, events.KindKV
	case 18:
		d.Vault = bareVault
	case 17:
		d.Vault, d.Path = bareVault, "database/creds/"+name+"-2"
	case 16, 15:
		d.Path += "-2"
	}
	if c.chance(450) {
		d.Verifier = &events.Verifier{Kind: "postgresql", Timeout: events.WholeSeconds(5)}
	}
	if !c.chance(150) {
		d.Consumers = []events.Consumer{{Name: consumerName, Key: consumerKey, Optional: c.chance(300)}}
	}
	d.PrepareTimeout = events.WholeSeconds(int64(c.between(2, 15)))
	d.RollbackTimeout = events.WholeSeconds(int64(c.between(1, 5)))
	d.GoodFor = events.WholeSeconds(int64(c.below(10)))
	d.RetireAfter = events.WholeSeconds(int64(c.between(15, 90)))
	d.LeaveAfter = events.WholeSeconds(int64(c.between(5, 40)))
	return d
}

// get has a reader who is not registered ask for the credential.
func (w *world) get(name string) {
	t := w.choose(func(t *instance) bool { return t.role == leading && t.fresh() })
	if t == nil {
		return
	}
	n := t.p.State().Name(name)
	if n == nil || n.Definition == nil {
		return
	}
	l := n.Committed(t.clock())
	if l == nil {
		return
	}
	if _, there := w.store[l.No]; !there {
		if t != w.leader() {
			return // it can't read what its successor has purged
		}
		w.failf("I2", "the values of lease %d, which is committed, are not there", l.No)
	}
	good := n.Definition.GoodFor.Duration()
	if end, ends := l.Expires(); ends {
		good = min(good, end.Sub(t.clock()))
	}
	until := w.now.Add(good)
	if until.After(w.promises[l.No].until) {
		w.promises[l.No] = promise{until: until, jumped: w.jumped}
	}
}

// ownStep has an application do what it does by itself.
func (w *world) ownStep() {
	for _, a := range w.apps {
		if a.canAct() {
			a.act()
			return
		}
	}
	for _, a := range w.apps {
		if a.up && a.hung && w.choice.chance(400) {
			a.wakeUp()
			return
		}
	}
}

func (a *application) wakeUp() {
	a.hung = false
	if a.running != nil {
		a.w.flights = append(a.w.flights, &flight{kind: flyMove, app: a, move: a.running})
	}
}

// breakSomething does what no operator wants.
func (w *world) breakSomething() {
	a := w.anyApp()
	switch w.choice.weighted([]int{20, 20, 12, 20, 25, 10, 6, 15, 15}) {
	case 0:
		if t := w.choose(func(t *instance) bool { return t.up }); t != nil {
			t.crashNow()
		}
	case 1: // a holder is deposed though it lives
		if t := w.choose(func(t *instance) bool { return t.role == standingBy && t.up && !w.claimable(t) }); t != nil {
			if h := w.cell.holder; h != nil && h.role == leading && w.choice.chance(500) {
				h.hangs, h.renewed = true, w.now.Add(-quietWindow)
			}
			t.readSeq, t.readEpoch = w.log.lastOpened()
			t.followed = w.log.last()
			t.epoch = w.claim(t)
			t.role = opening
		}
	case 2:
		if t := w.choose(func(t *instance) bool { return t.up }); t != nil {
			by := time.Duration(1+w.choice.below(40)) * time.Second
			t.ahead += by
			w.jumped += by
			w.hit(ClockJump, "")
		}
	case 3:
		if a != nil && a.up {
			w.hit(ConsumerDies, a.name)
			w.notef("%s dies", a.inc)
			a.die()
		}
	case 4:
		if a != nil && !a.up {
			w.hit(ConsumerBack, a.name)
			a.begin()
			w.notef("%s is there", a.inc)
		}
	case 5:
		if a != nil && a.up {
			if !a.cutOff {
				w.hit(ConsumerCutOff, a.name)
			}
			a.cutOff = !a.cutOff
		}
	case 6:
		if t := w.choose(func(t *instance) bool { return t.role == leading && !t.hangs }); t != nil {
			t.hangs = true
			if !t.deposed { // a deposed holder's last renewal was before its deposal
				t.renewed = w.now
			}
			w.notef("%s renews no more", t.name)
		}
	case 8: // a liar says something that it was not asked
		for _, a := range w.apps {
			if a.up && a.liar && !a.cutOff && a.asking.job != nil {
				w.hit(ConsumerLies, a.name)
				a.lie(a.asking, a.heard)
				return
			}
		}
	case 7:
		if a != nil && a.up && !a.hung {
			w.hit(ConsumerHangs, a.name)
			a.hung = true
		}
	}
}
