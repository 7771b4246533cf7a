package service

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/internal/failpoint"
	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/service/metrics"
)

// errPanicked says that a command was lost to a defect.
var errPanicked = errors.New("the command could not be decided because of a defect")

// request is a command on its way to the scope's goroutine.
type request struct {
	command leasecore.Command
	actor   events.Actor
	cause   string
	// effect is set for the outcome of an effect, confirm for what an
	// incarnation confirmed.
	effect  *leasecore.Effect
	confirm *confirmation
	polled  *reading
	// back, if set, names a Vault connection that works again.
	back string
	// begun: its first event is in the log, and more of them are to follow.
	begun bool
	// late, if set, is called when the term ends before the command was decided.
	late func()
	// ctx, if set, ends when nobody waits for the decision any more (L5).
	ctx context.Context
	// done, if set, is called on the scope's goroutine once the command was
	// decided and what it decided is in the log.
	done func(s *leasecore.State, err error)
}

type confirmation struct {
	name, incarnation string
	n                 uint64
}

// reading is what a poll of a secret without lease came to, for the memory of
// the state.
type reading struct {
	name   string
	at     time.Time
	failed bool
	reread time.Duration
}

// gather takes what is queued and due, up to a batch. Each has its part of it, so
// that none waits for all of the others: at the beginning of a term every name is
// to be looked at.
func (t *term) gather() []request {
	t.looked = t.svc.clock.Now()
	batch := t.queued(nil, batchCommands/4)
	if t.crowded && len(t.dirty) == 0 {
		t.dirty = map[string]bool{} // a map keeps the room of the most that it held, and is walked through with it
	}
	t.crowded = len(t.dirty) > batchCommands || t.crowded && len(t.dirty) > 0
	for name := range t.dirty {
		if len(batch) >= batchCommands*3/4 {
			break
		}
		delete(t.dirty, name)
		batch = append(batch, request{command: leasecore.Tick{Name: name}})
	}
	for _, name := range t.agenda.due(t.looked, batchCommands-len(batch)) {
		batch = append(batch, request{command: leasecore.Tick{Name: name}})
	}
	return t.queued(batch, batchCommands)
}

// queued adds what is queued to a batch, up to a size.
func (t *term) queued(batch []request, most int) []request {
	for len(batch) < most {
		select {
		case r := <-t.queue:
			batch = append(batch, *r)
		default:
			return batch
		}
	}
	return batch
}

// vaultBack has every name looked at that may wait for a Vault connection.
func (t *term) vaultBack(connection string) {
	state := t.projection.State()
	state.VaultBack(connection, t.svc.clock.Now())
	for n := range state.Names() {
		if n.Definition == nil || n.Definition.Vault == connection || n.Waits(connection) {
			t.dirty[n.Name] = true
		}
	}
}

// decided is what became of one request of a batch.
type decided struct {
	from, to int // its events in the batch's
	err      error
}

// commit decides a batch, appends what was decided, applies it and starts what
// is owed then. What the log does not have after an append whose outcome was
// unknown is decided again, on what then is the state. With an error the requests
// whose events are not all in the log are kept for another try, or the term is
// over.
func (t *term) commit(ctx context.Context, batch []request) error {
	for i := range batch {
		if c := batch[i].confirm; c != nil {
			t.projection.State().Confirm(c.name, c.incarnation, c.n)
		}
		if v := batch[i].back; v != "" {
			t.vaultBack(v)
		}
		if p := batch[i].polled; p != nil {
			t.projection.State().Polled(p.name, p.at, p.failed, p.reread)
		}
	}
	for len(batch) > 0 {
		evs, results := t.decide(batch)
		taken := len(results)
		t.pulse.rest() // what is waited for now is NATS
		in, err := t.append(ctx, evs)
		t.pulse.work()
		if err != nil && (in == 0 || !passes(err)) {
			t.keep(batch)
			return err
		}
		if in < len(evs) {
			taken = whole(batch, results, in)
		}
		t.settle(batch[:taken], results[:taken])
		batch = batch[taken:]
		if err != nil {
			t.keep(batch)
			return err
		}
	}
	return nil
}

// passes tells whether an append that came to nothing may be tried again, in the same
// term.
func passes(err error) bool {
	return errors.Is(err, journal.ErrUnavailable) || errors.Is(err, journal.ErrFull) || errors.Is(err, journal.ErrRefused)
}

// whole gives how many requests at the beginning of a batch have all their events
// among the first that are in the log, and marks the next one if it has some of
// them there: it has happened, and what is left of it is decided with its name.
func whole(batch []request, results []decided, in int) int {
	for i, r := range results {
		if r.to > in {
			batch[i].begun = batch[i].begun || r.from < in
			return i
		}
	}
	return len(results)
}

// decide decides as much of a batch as one append takes.
func (t *term) decide(batch []request) (evs []events.Event, results []decided) {
	draft := leasecore.NewDraft(t.projection.State())
	now, holder := t.svc.clock.Now(), events.Service(t.svc.cells.HolderID())
	for i := range batch {
		if len(evs) >= batchEvents {
			break
		}
		r := &batch[i]
		at := leasecore.At{Now: now, ID: newID(), Cause: r.cause, Actor: r.actor, Draining: t.draining}
		if at.Actor == (events.Actor{}) {
			at.Actor = holder
		}
		if r.ctx != nil && r.ctx.Err() != nil {
			results = append(results, decided{from: len(evs), to: len(evs), err: r.ctx.Err()})
			continue
		}
		out, err := t.decideOne(draft, at, r.command)
		if r.begun {
			err = nil
		}
		results = append(results, decided{from: len(evs), to: len(evs) + len(out), err: err})
		evs = append(evs, out...)
	}
	return evs, results
}

// afterPanic is when a name is looked at again whose command could not be
// decided (L36).
const afterPanic = maxWait

// decideOne decides one command. A panic is a defect of ours: it costs that
// command, is reported, and the loop goes on.
func (t *term) decideOne(draft *leasecore.Draft, at leasecore.At, c leasecore.Command) (out []events.Event, err error) {
	defer func() {
		if p := recover(); p != nil {
			t.log.Error("deciding a command panicked; this is a defect, please report it", "command", fmt.Sprintf("%T", c), "stack", string(debug.Stack()))
			out, err = nil, fmt.Errorf("%w: %T", errPanicked, c)
		}
	}()
	return leasecore.Decide(draft, at, c)
}

// append appends events, applies what is new in the log, and gives how many of them
// are there. They may go in parts: every prefix of what was decided is a state that
// deciding goes on from.
func (t *term) append(ctx context.Context, evs []events.Event) (in int, err error) {
	most := journal.MaxBatch
	if len(evs) <= t.svc.journal.Apart() {
		most = 1
	}
	for in < len(evs) {
		part := evs[in:min(in+most, len(evs))]
		t.spans.appends()
		result, err := t.appendPart(ctx, part)
		for errors.Is(err, journal.ErrTooLarge) && len(part) > 1 {
			part = part[:len(part)/2]
			result, err = t.appendPart(ctx, part)
		}
		if err != nil {
			return in, err
		}
		for i := range result.Events {
			if err := t.apply(&result.Events[i]); err != nil {
				return in, err
			}
		}
		if !result.Landed {
			return in, nil
		}
		in += len(part)
	}
	return in, nil
}

func (t *term) appendPart(ctx context.Context, part []events.Event) (journal.Result, error) {
	if hold := t.svc.beforeAppend; hold != nil {
		if err := hold(part); err != nil {
			return journal.Result{}, err
		}
	}
	return t.writer.Append(ctx, part)
}

// apply makes one event of the log part of the state.
func (t *term) apply(e *events.Event) error {
	sharing := t.projection.State().Sharing(e.Name, e.Lease)
	outcome, took := handoverEnds(t.projection.State(), e)
	was := t.spans.before(e)
	if err := t.projection.Adopt(e); err != nil {
		return err
	}
	t.spans.after(e, was)
	switch e.Type() {
	case events.TypeInstalled:
		t.projection.State().Installed(e.Name, t.svc.clock.Now())
	case events.TypeApplied:
		t.projection.State().Redefined(e.Name, t.svc.clock.Now())
	}
	t.follower.strangers.Add(uint64(t.follower.foreign.appended(e.Seq)))
	if outcome != "" {
		t.svc.metrics.Handover(t.scope.name, outcome, took)
	}
	t.lastSeq.Store(e.Seq)
	at := e.Time
	t.lastTime.Store(&at)
	t.names.Store(int64(t.projection.State().Len()))
	t.tellEvent(e)
	hitAfter(e.Type())
	if e.Name != events.EpochName && e.Name != events.DefinitionsName {
		t.change(e.Name)
	}
	for _, name := range sharing {
		t.change(name)
	}
	return nil
}

// change notes that an event concerns a name.
func (t *term) change(name string) {
	t.dirty[name], t.changed[name] = true, true
}

// handoverEnds tells how a hand-over ends with an event that is about to be
// applied, and how long it took; "": none ends.
func handoverEnds(s *leasecore.State, e *events.Event) (outcome string, took time.Duration) {
	n := s.Name(e.Name)
	if n == nil || n.Handover == nil {
		return "", 0
	}
	switch d := e.Data.(type) {
	case *events.Installed:
		outcome = metrics.Committed
	case *events.RolledBack:
		outcome = metrics.Kept
		if d.Safe {
			outcome = metrics.RolledBack
		}
	default:
		return "", 0
	}
	return outcome, e.Time.Sub(n.Handover.Started)
}

// hitAfter names the boundaries that an event in the log makes, for the tests
// that kill the process there.
func hitAfter(t events.Type) {
	switch t {
	case events.TypeRequested:
		failpoint.Hit(failpoint.Intent)
	case events.TypeAcquired:
		failpoint.Hit(failpoint.Acquired)
	case events.TypeHandoverStarted:
		failpoint.Hit(failpoint.Asked)
	case events.TypePrepared:
		failpoint.Hit(failpoint.Answered)
	case events.TypeInstalled:
		failpoint.Hit(failpoint.Installed)
	case events.TypeRevoking:
		failpoint.Hit(failpoint.Revoking)
	}
}

// settle answers the requests of an append and brings effects, views and the
// agenda in line with the state.
func (t *term) settle(batch []request, results []decided) {
	state, now := t.projection.State(), t.svc.clock.Now()
	touched, panicked := t.changed, map[string]bool{}
	t.changed = map[string]bool{}
	for i := range batch {
		r := &batch[i]
		if r.effect != nil {
			t.work.finished(*r.effect)
			touched[r.effect.Name] = true
		}
		if r.confirm != nil {
			touched[r.confirm.name] = true
		}
		if tick, ok := r.command.(leasecore.Tick); ok {
			touched[tick.Name] = true
		}
		if errors.Is(results[i].err, errPanicked) || errors.Is(results[i].err, leasecore.ErrDefect) {
			for name := range touched {
				panicked[name] = true
			}
		}
		if err := results[i].err; err != nil && !errors.Is(err, leasecore.ErrStale) && r.done == nil {
			t.log.Warn("a command was refused", "error", err)
		}
	}
	for name := range touched {
		t.bring(state, name, now, panicked[name])
	}
	for i := range batch {
		if batch[i].done != nil {
			batch[i].done(state, results[i].err)
		}
	}
}

// bring brings what a name shows, what runs for it and when it is looked at next
// in line with the state. A state that can't be looked at is a defect: it is
// reported, and the name looked at again later (L36).
func (t *term) bring(state *leasecore.State, name string, now time.Time, panicked bool) {
	defer func() {
		if p := recover(); p != nil {
			t.log.Error("looking at a name panicked; this is a defect, please report it", "name", name, "stack", string(debug.Stack()))
			t.agenda.set(name, now.Add(afterPanic), true)
		}
	}()
	if t.views.publish(state, name, now) && t.views.get(name).committed() {
		// Until now readers were given the lease before.
		state.Installed(name, t.svc.clock.Now())
		if !t.show(name, t.views.get(name)) {
			t.readAhead(name)
		}
	}
	t.documents.touched(name)
	n := state.Name(name)
	if n == nil {
		t.inHand.letGo(name, 0)
	} else {
		t.inHand.letGo(name, n.Candidate)
	}
	t.noteHandover(name, n != nil && n.Handover != nil)
	owed := state.Owed(name, now)
	t.work.sync(name, owed)
	t.spans.settled(name, owed)
	// From when the batch was gathered: what became due since is due at once.
	at, ok := state.Wake(name, t.looked)
	if later := now.Add(afterPanic); panicked && (!ok || at.After(later)) {
		at, ok = later, true
	}
	t.agenda.set(name, at, ok)
	if v := t.views.get(name); v != nil && n != nil {
		v.standing.Store(standingOf(state, n, at))
	}
}

// keep puts back what could not be recorded: outcomes must not get lost. Who
// waits for an answer is told to come again, unless it has begun.
func (t *term) keep(batch []request) {
	for i := range batch {
		r := &batch[i]
		if r.done != nil && !r.begun {
			r.done(nil, busy(againLater, "the log takes nothing now"))
			continue
		}
		if tick, ok := r.command.(leasecore.Tick); ok && r.effect == nil {
			t.dirty[tick.Name] = true
			continue
		}
		select {
		case t.queue <- r:
		default:
			t.work.redeliver(*r)
		}
	}
}
