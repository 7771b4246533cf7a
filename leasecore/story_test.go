package leasecore_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
)

// The words in which the tests of the rules tell their stories. Most are about
// one name, "orders".

const orders = "orders"

type (
	setting func(*events.Definition)
	detail  func(*events.Acquired)
)

func consumed(d *events.Definition) { d.Consumers = []events.Consumer{{Name: "api", Key: "UAPI"}} }
func verified(d *events.Definition) {
	d.Verifier = &events.Verifier{Kind: "postgresql", DSN: "x", Timeout: events.WholeSeconds(5)}
}
func at(path string) setting           { return func(d *events.Definition) { d.Path = path } }
func kind(k events.Kind) setting       { return func(d *events.Definition) { d.Kind = k } }
func requiring(keys ...string) setting { return func(d *events.Definition) { d.Require = keys } }
func in(vault string) setting          { return func(d *events.Definition) { d.Vault = vault } }
func id(lease string) detail           { return func(a *events.Acquired) { a.LeaseID = lease } }
func ttl(seconds string) detail {
	return func(a *events.Acquired) { a.TTL = events.MustSeconds(seconds) }
}
func fingerprint(f string) detail    { return func(a *events.Acquired) { a.Fingerprint = f } }
func keys(k ...string) detail        { return func(a *events.Acquired) { a.Keys = k } }
func unrenewable(a *events.Acquired) { a.Renewable = false }
func rereadIn(seconds string) detail {
	return func(a *events.Acquired) { a.RereadIn = events.MustSeconds(seconds) }
}
func secret(a *events.Acquired)          { a.LeaseID, a.TTL, a.Renewable = "", events.Seconds{}, false }
func guarded(a *events.Acquired)         { a.Guard, a.GuardTTL = "G-"+a.LeaseID, events.WholeSeconds(60) }
func went(kind string) *leasecore.Failed { return &leasecore.Failed{Failure: failure(kind)} }
func failure(kind string) events.Failure { return events.Failure{Kind: kind, Message: "it went wrong"} }
func refusedBy(kind string) *leasecore.Failed {
	return &leasecore.Failed{Failure: failure(kind), Refused: true}
}
func gone() *leasecore.Failed {
	return &leasecore.Failed{Failure: failure("not-found"), Refused: true, Gone: true}
}

// definition is a PostgreSQL credential with round numbers: 10 s to prepare, 5 s
// to go back, good for 5 s.
func definition(name string, set ...setting) events.Definition {
	d := events.DefaultDefinition()
	d.Vault, d.Kind, d.Path = "main", events.KindPostgreSQL, "database/creds/"+name
	d.PrepareTimeout, d.GoodFor = events.WholeSeconds(10), events.WholeSeconds(5)
	for _, f := range set {
		f(&d)
	}
	return d
}

// begin opens an epoch and puts a definition of orders in force.
func begin(t testing.TB, set ...setting) *world {
	t.Helper()
	w := newWorld(t)
	w.open(10, "a")
	w.define1(set...)
	return w
}

// underway is begin with an active lease 1, in use by incarnation A where the
// definition names a consumer.
func underway(t testing.TB, set ...setting) *world {
	t.Helper()
	w := begin(t, set...)
	if len(w.name().Definition.Consumers) > 0 {
		w.register("A")
	}
	w.activate(1)
	return w
}

// define1 puts a definition of orders alone in force.
func (w *world) define1(set ...setting) []events.Event {
	w.t.Helper()
	return w.defineAll(map[string]events.Definition{orders: definition(orders, set...)})
}

func (w *world) defineAll(defs map[string]events.Definition) []events.Event {
	w.t.Helper()
	next := w.state.Revision + 1
	return w.do(leasecore.ApplyDefinitions{Revision: next, Digest: fmt.Sprint("d", next), Definitions: defs})
}

// do decides a command, and then what each name owes; it gives all the events.
func (w *world) do(c leasecore.Command) []events.Event {
	w.t.Helper()
	evs, err := w.decide(c)
	if err != nil {
		w.t.Fatalf("%T: %v\n%s", c, err, w.state.Print())
	}
	return append(evs, w.settle()...)
}

// refuses checks that a command is refused for a reason and decides nothing.
func (w *world) refuses(c leasecore.Command, why error) {
	w.t.Helper()
	before := len(w.log)
	evs, err := w.decide(c)
	if !errors.Is(err, why) || len(evs) > 0 || len(w.log) > before {
		w.t.Fatalf("%T: %v (%s), want %v\n%s", c, err, said(evs), why, w.state.Print())
	}
}

// pass lets time pass and gives what was decided by its passing alone.
func (w *world) pass(d time.Duration) []events.Event {
	w.t.Helper()
	w.now = w.now.Add(d)
	return w.settle()
}

// takeOver has another holder open the next epoch.
func (w *world) takeOver() []events.Event {
	w.t.Helper()
	before := len(w.log)
	w.open(w.state.Epoch+10, "b")
	w.settle()
	return w.log[before+1:]
}

func (w *world) name() *leasecore.Name { return w.state.Name(orders) }

// lease gives a lease of orders that must be there.
func (w *world) lease(no uint64) *leasecore.Lease {
	w.t.Helper()
	l := w.name().Lease(no)
	if l == nil {
		w.t.Fatalf("lease %d is not there:\n%s", no, w.state.Print())
	}
	return l
}

// is checks what a lease of orders is; "" is: closed.
func (w *world) is(no uint64, state string) {
	w.t.Helper()
	got := ""
	if n := w.name(); n != nil && n.Lease(no) != nil {
		got = n.Lease(no).State.String()
	}
	if got != state {
		w.t.Fatalf("lease %d is %q, want %q:\n%s", no, got, state, w.state.Print())
	}
}

// active checks which lease readers see now; 0: none.
func (w *world) active(no uint64) {
	w.t.Helper()
	var got uint64
	if l := w.name().Committed(w.now); l != nil {
		got = l.No
	}
	if got != no {
		w.t.Fatalf("readers see lease %d, want %d:\n%s", got, no, w.state.Print())
	}
}

func (w *world) grant(no uint64, set ...detail) leasecore.AcquireDone {
	g := &events.Acquired{
		LeaseID: fmt.Sprint("L", no), TTL: events.WholeSeconds(600), Renewable: true, SentAt: w.now,
		Keys: []string{"password", "username"}, Fingerprint: fmt.Sprint("f", no),
	}
	for _, f := range set {
		f(g)
	}
	return leasecore.AcquireDone{Name: orders, Lease: no, Grant: g}
}

func (w *world) extended(no uint64) leasecore.ExtendDone {
	return leasecore.ExtendDone{Name: orders, Lease: no, Granted: events.WholeSeconds(3600), SentAt: w.now}
}

func (w *world) proven(no uint64) leasecore.VerifyDone {
	return leasecore.VerifyDone{Name: orders, Lease: no, Verifier: "postgresql"}
}

func (w *world) renewed(no uint64, seconds string) leasecore.RenewDone {
	return leasecore.RenewDone{Name: orders, Lease: no, Renewed: &events.Renewed{
		TTL: events.MustSeconds(seconds), Renewable: true, SentAt: w.now,
	}}
}

func (w *world) notRenewed(no uint64, why *leasecore.Failed) leasecore.RenewDone {
	return leasecore.RenewDone{Name: orders, Lease: no, Err: why}
}

func (w *world) revoked(no uint64) leasecore.RevokeDone {
	return leasecore.RevokeDone{Name: orders, Lease: no}
}

func (w *world) register(incarnation string) []events.Event {
	w.t.Helper()
	return w.do(leasecore.Register{Name: orders, Registration: events.Registered{
		Consumer: "api", Instance: "i-" + incarnation, Incarnation: incarnation, Key: "UAPI",
	}})
}

// answer is an incarnation's word on the hand-over in flight.
func (w *world) answer(incarnation string, yes bool) leasecore.Answered {
	w.t.Helper()
	h := w.name().Handover
	if h == nil {
		w.t.Fatalf("no hand-over is in flight:\n%s", w.state.Print())
	}
	return leasecore.Answered{Name: orders, N: h.N, Incarnation: incarnation, Yes: yes, Reason: "its word"}
}

// confirm has incarnations confirm what is in force, and gives what comes of it.
func (w *world) confirm(incarnations ...string) []events.Event {
	w.t.Helper()
	for _, id := range incarnations {
		w.state.Confirm(orders, id, w.name().N)
	}
	return w.settle()
}

// offer brings the acquisition of a lease, which is intended, to its hand-over.
func (w *world) offer(no uint64, set ...detail) {
	w.t.Helper()
	w.do(w.grant(no, set...))
	if l := w.lease(no); l.Guard != "" && l.LeaseID != "" {
		w.do(w.extended(no))
	}
	if w.name().Definition.Verifier != nil {
		w.do(w.proven(no))
	}
}

// activate is offer with everybody's yes and confirmation.
func (w *world) activate(no uint64, set ...detail) {
	w.t.Helper()
	w.offer(no, set...)
	for _, c := range w.name().Consumers {
		w.do(w.answer(c.ID, true))
	}
	for _, c := range w.name().Consumers {
		w.confirm(c.ID)
	}
	w.is(no, "active")
}

// rotate asks for a successor and gives its number.
func (w *world) rotate() uint64 {
	w.t.Helper()
	w.do(leasecore.Rotate{Name: orders})
	return w.state.LastLease
}

// owed prints what orders owes now, in order.
func (w *world) owed() string {
	var out []string
	for _, e := range w.state.Owed(orders, w.now) {
		s := fmt.Sprintf("%s/%d", e.Kind, e.Lease)
		if e.Incarnation != "" {
			s += "->" + e.Incarnation
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

// owes checks what orders owes now.
func (w *world) owes(want string) {
	w.t.Helper()
	if got := w.owed(); got != want {
		w.t.Fatalf("owed is %q, want %q:\n%s", got, want, w.state.Print())
	}
}

// wakes checks in how much time orders is looked at next; 0: never.
func (w *world) wakes(in time.Duration) {
	w.t.Helper()
	at, ok := w.state.Wake(orders, w.now)
	if !ok && in != 0 || ok && at.Sub(w.now) != in {
		w.t.Fatalf("the next look is in %v (%t), want %v:\n%s", at.Sub(w.now), ok, in, w.state.Print())
	}
}

// said prints events as "type/lease", those of the definitions left out.
func said(evs []events.Event) string {
	var out []string
	for i := range evs {
		e := &evs[i]
		s := string(e.Type())
		switch {
		case e.Name == events.DefinitionsName:
			continue
		case e.Lease != 0:
			s += fmt.Sprintf("/%d", e.Lease)
		}
		if e.Name != orders && e.Name != events.EpochName {
			s = e.Name + ":" + s
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

// says checks what was decided.
func says(t testing.TB, evs []events.Event, want string) {
	t.Helper()
	if got := said(evs); got != want {
		t.Fatalf("decided was %q, want %q", got, want)
	}
}

// last gives the data of the last event of a kind, and its place in the log.
func last[D events.Data](w *world) (D, uint64) {
	w.t.Helper()
	for _, e := range slices.Backward(w.log) {
		if d, ok := e.Data.(D); ok {
			return d, e.Seq
		}
	}
	var none D
	w.t.Fatalf("the log has no %T:\n%s", none, said(w.log))
	return none, 0
}

// inconsistent checks that an event does not fit the state: whatever wrote it,
// it is not followed.
func (w *world) inconsistent(lease uint64, d events.Data) {
	w.t.Helper()
	before := w.state.Print()
	err := w.state.Apply(&events.Event{
		Seq: w.seq + 1, ID: "x", Scope: "prod", Name: orders, Lease: lease, Epoch: w.state.Epoch, Time: w.now, Data: d,
	})
	var wrong *leasecore.InconsistentError
	if !errors.As(err, &wrong) {
		w.t.Fatalf("%s of lease %d was followed (%v):\n%s", d.EventType(), lease, err, before)
	}
	if after := w.state.Print(); after != before {
		w.t.Fatalf("%s of lease %d was refused and changed\n%s\nto\n%s", d.EventType(), lease, before, after)
	}
}

// adoption hands over a lease that was obtained elsewhere.
func adoption(w *world, lease string) leasecore.Adopt {
	return leasecore.Adopt{Name: orders, Lease: w.state.LastLease + 1, Adopted: events.Adopted{
		Acquired: *w.grant(0, id(lease), fingerprint("f-"+lease)).Grant, Vault: "main",
	}}
}
