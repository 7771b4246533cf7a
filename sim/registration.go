package sim

import (
	"errors"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
)

// consumerName and consumerKey are those that every definition names.
const (
	consumerName = "api"
	consumerKey  = "K"
)

// toHolder has a registration reach an instance that believes it leads.
func (w *world) toHolder(f *flight) {
	t := w.choose(func(t *instance) bool { return t.role == leading && t.up })
	if t == nil {
		return
	}
	f.to, f.term = t, t.term
	a := f.app
	switch w.opts.Mutant {
	case RegisterAnsweredFirst:
		t.answerFrom(t.p.State(), a, f.reg.inc)
		t.submitRegistration(a, f.reg, nil)
	case RegisterAnsweredFromBefore:
		if n := t.p.State().Name(a.name); n != nil {
			f.ans = t.answerOf(t.p.State(), n, f.reg.inc)
			held := *f
			held.kind, held.late = flyHeld, !w.peaceful
			w.flights = append(w.flights, &held)
		}
	default:
		t.submitRegistration(a, f.reg, func(s *leasecore.State, err error) {
			t.registered(s, a, f.reg.inc, err)
		})
	}
}

// registerHeld is a mutant's: the answer was made before.
func (t *instance) registerHeld(f *flight) {
	if !t.leads(f.term) {
		return
	}
	t.submitRegistration(f.app, f.reg, func(_ *leasecore.State, err error) {
		if err == nil {
			t.w.fly(&flight{kind: flyAnswer, app: f.app, ans: f.ans})
		}
	})
}

func (t *instance) submitRegistration(a *application, r registration, done func(*leasecore.State, error)) {
	t.queue = append(t.queue, request{done: done, command: leasecore.Register{
		Name: a.name,
		Registration: events.Registered{
			Consumer: consumerName, Instance: a.instance, Incarnation: r.inc, Replaces: r.replaces, Key: consumerKey, XKey: "X", Subject: "s." + r.inc,
		},
	}})
}

// registered answers a registration from the state at the moment when it is
// known to be in the log (P9).
func (t *instance) registered(s *leasecore.State, a *application, inc string, err error) {
	var mismatch *leasecore.MismatchError
	switch {
	case errors.As(err, &mismatch):
		t.w.fly(&flight{kind: flyAnswer, app: a, ans: answer{inc: inc, refused: true, registered: mismatch.Registered}})
	case err != nil:
		t.w.notef("%s is not registered: %v", inc, err)
	default:
		t.answerFrom(s, a, inc)
	}
}

func (t *instance) answerFrom(s *leasecore.State, a *application, inc string) {
	n := s.Name(a.name)
	if n == nil {
		return // removed in the same batch
	}
	ans := t.answerOf(s, n, inc)
	if _, there := t.w.store[ans.lease]; ans.lease != 0 && !there {
		return // its values can't be read
	}
	t.w.fly(&flight{kind: flyAnswer, app: a, ans: ans})
}

func (t *instance) answerOf(s *leasecore.State, n *leasecore.Name, inc string) answer {
	out := answer{inc: inc, epoch: s.Epoch, n: n.N}
	if l := n.Committed(t.clock()); l != nil {
		out.lease = l.No
	}
	return out
}

// leaveArrives has a good-bye reach an instance that believes it leads.
func (w *world) leaveArrives(f *flight) {
	t := w.choose(func(t *instance) bool { return t.role == leading && t.up })
	if t == nil {
		return
	}
	t.queue = append(t.queue, request{command: leasecore.Leave{Name: f.app.name, Incarnation: f.reg.inc, Reason: events.LeftByItself}})
}
