package leasecore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
)

// The invariants, as far as one state can show them.

// wander is a random life of orders: what a holder, Vault and consumers may do,
// in any order, with takeovers in between. look is called after each event.
type wander struct {
	*world
	rt   *rapid.T
	next int // incarnations
}

func newWander(t *testing.T, rt *rapid.T) *wander {
	w := begin(t, consumed)
	if rapid.Bool().Draw(rt, "verifier") {
		w.define1(consumed, verified)
	}
	return &wander{world: w, rt: rt}
}

// step does one thing.
func (w *wander) step() {
	switch rapid.IntRange(0, 11).Draw(w.rt, "what") {
	case 0:
		w.try(leasecore.Rotate{Name: orders})
	case 1:
		w.try(leasecore.RevokeActive{Name: orders})
	case 2:
		w.next++
		w.try(leasecore.Register{Name: orders, Registration: events.Registered{
			Consumer: "api", Instance: fmt.Sprint("i", w.next), Incarnation: fmt.Sprint("I", w.next), Key: "UAPI",
		}})
	case 3:
		if c := w.name().Consumers; len(c) > 1 {
			w.try(leasecore.Leave{Name: orders, Incarnation: c[0].ID, Reason: events.LeftSilent})
		}
	case 4:
		w.takeOver()
	case 5:
		w.pass(time.Duration(rapid.IntRange(1, 200).Draw(w.rt, "seconds")) * time.Second)
	default:
		if owed := w.state.Owed(orders, w.now); len(owed) > 0 {
			w.try(w.outcome(rapid.SampledFrom(owed).Draw(w.rt, "effect"), rapid.IntRange(0, 3).Draw(w.rt, "well") > 0))
		}
	}
}

// try decides a command that may be refused.
func (w *wander) try(c leasecore.Command) {
	if _, err := w.decide(c); err == nil {
		w.settle()
	}
}

func (w *wander) outcome(e leasecore.Effect, well bool) leasecore.Command {
	var bad *leasecore.Failed
	if !well {
		bad = went("timeout")
		bad.Refused = rapid.Bool().Draw(w.rt, "refused")
	}
	switch e.Kind {
	case leasecore.Acquire:
		if !well {
			return leasecore.AcquireDone{Name: orders, Lease: e.Lease, Err: bad, Guard: "G"}
		}
		return w.grant(e.Lease, guarded)
	case leasecore.Extend:
		d := w.extended(e.Lease)
		d.Err = bad
		return d
	case leasecore.Verify:
		d := w.proven(e.Lease)
		d.Err = bad
		return d
	case leasecore.Prepare:
		return leasecore.Answered{Name: orders, N: e.N, Incarnation: e.Incarnation, Yes: well}
	case leasecore.Renew:
		d := w.renewed(e.Lease, fmt.Sprint(rapid.IntRange(1, 600).Draw(w.rt, "ttl")))
		d.Err = bad
		return d
	case leasecore.Revoke:
		d := w.revoked(e.Lease)
		d.Err = bad
		return d
	default:
		if well {
			w.state.Confirm(orders, e.Incarnation, e.N)
		}
		return leasecore.Tick{Name: orders}
	}
}

// property runs wanders, with look after each step.
func property(t *testing.T, look func(w *wander)) {
	t.Helper()
	rapid.Check(t, func(rt *rapid.T) {
		w := newWander(t, rt)
		for range rapid.IntRange(5, 80).Draw(rt, "steps") {
			w.step()
			look(w)
		}
	})
}

// TestI2_ReadersSeeOnlyCommitted: unexpired, installed by the log, and not on its
// way out.
func TestI2_ReadersSeeOnlyCommitted(t *testing.T) {
	property(t, func(w *wander) {
		for _, now := range []time.Time{w.now, w.now.Add(100 * time.Second), w.now.Add(time.Hour)} {
			l := w.name().Committed(now)
			if l == nil {
				continue
			}
			installed, out := false, false
			for i := range w.log {
				if e := &w.log[i]; e.Lease == l.No {
					installed = installed || e.Type() == events.TypeInstalled
					out = out || e.Type() == events.TypeRetired || e.Type() == events.TypeRevoking
				}
			}
			end, ends := l.Expires()
			if !installed || out || ends && !now.Before(end) || l.State != leasecore.Active {
				w.rt.Fatalf("readers see lease %d, %s: installed %t, on its way out %t, ends %v at %v", l.No, l.State, installed, out, end, now)
			}
		}
	})
}

// TestI3_EveryGrantIsAccountedFor: what Vault granted is known until Vault said
// that it is gone.
func TestI3_EveryGrantIsAccountedFor(t *testing.T) {
	property(t, func(w *wander) {
		open := map[uint64]bool{}
		for i := range w.log {
			switch e := &w.log[i]; e.Type() {
			case events.TypeAcquired, events.TypeAcquireFailed:
				open[e.Lease] = true
			case events.TypeRevoked:
				delete(open, e.Lease)
			case events.TypeExpired:
				if e.Data.(*events.Expired).By == events.ExpiredByVault {
					delete(open, e.Lease)
				}
			}
		}
		for no := range open {
			if w.name().Lease(no) == nil {
				w.rt.Fatalf("lease %d was granted and is forgotten:\n%s\n%s", no, said(w.log), w.state.Print())
			}
		}
	})
}

// TestI4_NothingInUseIsRevoked: a revocation is owed only for leases that were
// retired before, that are not active, and that no incarnation was left on.
func TestI4_NothingInUseIsRevoked(t *testing.T) {
	property(t, func(w *wander) {
		for _, e := range w.state.Owed(orders, w.now) {
			if e.Kind != leasecore.Revoke {
				continue
			}
			if e.Lease == w.name().Active {
				w.rt.Fatalf("the active lease %d is revoked", e.Lease)
			}
			safe := false
			for i := range w.log {
				ev := &w.log[i]
				if ev.Lease != e.Lease {
					continue
				}
				switch d := ev.Data.(type) {
				case *events.RolledBack:
					safe = d.Safe
				case *events.Retired, *events.Expired, *events.VerifyFailed, *events.AcquireFailed:
					safe = true
				case *events.HandoverStarted:
					safe = false
				}
			}
			if !safe {
				w.rt.Fatalf("lease %d is revoked, and somebody may live on it:\n%s", e.Lease, said(w.log))
			}
		}
	})
}

// TestI4_RevokingFitsNoStateButRetired: of what is in use nothing in the log can
// be a revocation.
func TestI4_RevokingFitsNoStateButRetired(t *testing.T) {
	property(t, func(w *wander) {
		for _, l := range w.name().Leases {
			if l.State != leasecore.Retired && l.State != leasecore.Revoking { // which may be repeated
				w.inconsistent(l.No, &events.Revoking{})
			}
		}
	})
}

// TestI5_ARollBackPutsBackWhatItChanged and nothing else: but for the time that
// passed, the name is what it was before its hand-over.
func TestI5_ARollBackPutsBackWhatItChanged(t *testing.T) {
	w := underway(t, consumed)
	w.register("B")
	w.confirm("B")
	before := *w.name()
	lease := *w.lease(1)
	w.rotate()
	w.offer(2)
	w.do(w.answer("B", false))
	w.confirm("A", "B")
	w.do(w.revoked(2))
	after := w.name()
	if now := w.lease(1); fmt.Sprint(*now) != fmt.Sprint(lease) {
		t.Fatalf("lease 1 is\n%+v\nwas\n%+v", *now, lease)
	}
	if after.Active != before.Active || after.Candidate != 0 || after.Handover != nil || after.Successor != "" ||
		len(after.Leases) != 1 || fmt.Sprint(after.Consumers) != fmt.Sprint(before.Consumers) || after.Definition != before.Definition {
		t.Fatalf("%s", w.state.Print())
	}
}

// TestI6_ReplayIsLiveState, from any place in the log.
func TestI6_ReplayIsLiveState(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWander(t, rt)
		prints := map[int]string{len(w.log): w.state.Print()}
		for range 40 {
			w.step()
			prints[len(w.log)] = w.state.Print()
		}
		fresh := leasecore.NewState("prod")
		for i := range w.log {
			e := w.log[i]
			if err := fresh.Apply(&e); err != nil {
				rt.Fatal(err)
			}
			if want, ok := prints[i+1]; ok && fresh.Print() != want {
				rt.Fatalf("after %d events the log gives\n%s\nthe live state was\n%s", i+1, fresh.Print(), want)
			}
		}
	})
}

// TestI6_ADraftChangesNothing: what is decided and not in the log has not
// happened.
func TestI6_ADraftChangesNothing(t *testing.T) {
	property(t, func(w *wander) {
		before := w.state.Print()
		draft := leasecore.NewDraft(w.state)
		var commands []leasecore.Command
		for _, e := range w.state.Owed(orders, w.now) {
			if e.Kind != leasecore.Tell { // whose outcome is memory
				commands = append(commands, w.outcome(e, true))
			}
		}
		commands = append(commands,
			leasecore.Rotate{Name: orders}, leasecore.Tick{Name: orders}, leasecore.RevokeActive{Name: orders}, leasecore.Shutdown{},
			leasecore.ApplyDefinitions{Revision: 99, Digest: "x"})
		for i, c := range commands {
			_, _ = leasecore.Decide(draft, leasecore.At{Now: w.now.Add(time.Duration(i)), ID: fmt.Sprint(i)}, c) // refused ones are of no interest
		}
		if after := w.state.Print(); after != before {
			w.rt.Fatalf("deciding changed the state from\n%s\nto\n%s", before, after)
		}
	})
}

// TestI6_ARefusedEventChangesNothing: what does not fit leaves no trace.
func TestI6_ARefusedEventChangesNothing(t *testing.T) {
	all := []events.Data{
		&events.Acquired{LeaseID: "X"}, &events.AcquireFailed{Guard: "X"}, &events.Orphaned{}, &events.VerifyFailed{}, &events.HandoverStarted{},
		&events.Prepared{Incarnation: "A"}, &events.Installed{}, &events.RollbackStarted{}, &events.RolledBack{}, &events.Retired{},
		&events.Revoking{}, &events.Revoked{}, &events.Revoked{Shared: true}, &events.Expired{}, &events.Requested{Vault: "main", Path: "p"},
	}
	property(t, func(w *wander) {
		e := events.Event{
			Seq: w.seq + 1, ID: "x", Scope: "prod", Name: orders, Lease: rapid.Uint64Range(0, w.state.LastLease+1).Draw(w.rt, "lease"),
			Epoch: w.state.Epoch, Time: w.now, Data: rapid.SampledFrom(all).Draw(w.rt, "event"),
		}
		fresh := leasecore.NewState("prod")
		for i := range w.log {
			if err := fresh.Apply(&w.log[i]); err != nil {
				w.rt.Fatal(err)
			}
		}
		before := fresh.Print()
		if err := fresh.Apply(&e); err != nil && fresh.Print() != before {
			w.rt.Fatalf("%s of lease %d: %v, and it changed\n%s\nto\n%s", e.Type(), e.Lease, err, before, fresh.Print())
		}
	})
}

// TestI8_LeftInPeaceItEndsUsable: whatever happened, once everything works the
// definition has a usable lease, and nothing is left over.
func TestI8_LeftInPeaceItEndsUsable(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWander(t, rt)
		w.try(leasecore.Register{Name: orders, Registration: events.Registered{Consumer: "api", Instance: "i0", Incarnation: "I0", Key: "UAPI"}})
		for range rapid.IntRange(0, 60).Draw(rt, "steps") {
			w.step()
		}
		for range 400 {
			if owed := w.state.Owed(orders, w.now); len(owed) > 0 {
				w.try(w.peace(owed[0]))
				continue
			}
			at, ok := w.state.Wake(orders, w.now)
			if !ok || at.Sub(w.now) > 1000*time.Second {
				break
			}
			w.pass(at.Sub(w.now))
		}
		if w.name().Committed(w.now) == nil || len(w.name().Leases) != 1 {
			rt.Fatalf("left in peace it is\n%s\nand owes %s", w.state.Print(), w.owed())
		}
	})
}

// peace is the outcome of an effect that works, with a life of an hour.
func (w *wander) peace(e leasecore.Effect) leasecore.Command {
	switch e.Kind {
	case leasecore.Acquire:
		return w.grant(e.Lease, guarded, ttl("3600"))
	case leasecore.Renew:
		d := w.renewed(e.Lease, "3600")
		d.Renewed.GuardTTL = events.WholeSeconds(3660)
		return d
	default:
		return w.outcome(e, true)
	}
}

// TestL36_NothingIsDueBeforeTheWake: between now and the next look neither a
// decision nor an effect comes due; so sleeping until then misses nothing.
func TestL36_NothingIsDueBeforeTheWake(t *testing.T) {
	property(t, func(w *wander) {
		at, ok := w.state.Wake(orders, w.now)
		if !ok {
			at = w.now.Add(1000 * time.Hour)
		}
		between := w.now.Add(time.Duration(rapid.Int64Range(0, int64(at.Sub(w.now))-1).Draw(w.rt, "between")))
		evs, err := leasecore.Decide(leasecore.NewDraft(w.state), leasecore.At{Now: between, ID: "x"}, leasecore.Tick{Name: orders})
		if err != nil || len(evs) > 0 {
			w.rt.Fatalf("at +%v, before the look at +%v, %s is due (%v):\n%s", between.Sub(w.now), at.Sub(w.now), said(evs), err, w.state.Print())
		}
		now, then := fmt.Sprint(w.state.Owed(orders, w.now)), fmt.Sprint(w.state.Owed(orders, between))
		if now != then && !strings.Contains(now, "renew") { // a lease that expires is renewed no more
			w.rt.Fatalf("at +%v, before the look at +%v, owed is %s, now %s:\n%s", between.Sub(w.now), at.Sub(w.now), then, now, w.state.Print())
		}
	})
}
