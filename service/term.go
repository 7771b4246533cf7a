package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/internal/failpoint"
	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/projector"
)

const (
	// queueLength bounds the commands that wait; who comes then is told busy.
	queueLength = 4096
	// batchCommands and batchEvents bound what one append decides and carries.
	batchCommands = 512
	batchEvents   = 800
	// The loop wakes at the earliest deadline within these (L36).
	minWait, maxWait = 10 * time.Millisecond, 5 * time.Second
	// giveUpAppending is how long a holder that can't append goes on trying
	// before it steps down.
	giveUpAppending = 10 * time.Second
)

// ErrBusy says that too much waits already.
var ErrBusy = errors.New("busy")

// errPanicked says that a command was lost to a defect.
var errPanicked = errors.New("the command could not be decided because of a defect")

// errNotLeading says that the term is over.
var errNotLeading = errors.New("this instance does not lead the scope any more")

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

// term is one epoch of a scope under this instance.
type term struct {
	*scope
	epoch      uint64
	projection *projector.Projection
	writer     *journal.Writer
	queue      chan request
	agenda     *agenda
	dirty      map[string]bool // names to look at once more
	work       *work
	views      views
	anew       anew
	log        *slog.Logger

	lastSeq  atomic.Uint64
	names    atomic.Int64
	draining bool
	leaving  chan departure
	going    departure
	looked   time.Time // when the last batch was gathered

	endOnce sync.Once
	ended   chan struct{}
	endWhy  error
}

// departure is a way of leaving a scope that somebody asked for.
type departure int

const (
	stays    departure = iota
	stepDown           // give it to a standby
	shutdown           // revoke everything, then leave it alone (L48)
)

// errSteppedDown and errShutDown end a term that was left in good order.
var (
	errSteppedDown = errors.New("stepped down as asked")
	errShutDown    = errors.New("shut down as asked")
)

// leave has the term leave the scope; the first who asks decides how.
func (t *term) leave(how departure) {
	select {
	case t.leaving <- how:
	default:
	}
}

func newTerm(sc *scope, p *projector.Projection, epoch, fence uint64) *term {
	t := &term{
		scope: sc, epoch: epoch, projection: p, queue: make(chan request, queueLength), agenda: newAgenda(),
		dirty: map[string]bool{}, log: sc.log.With("epoch", epoch), ended: make(chan struct{}), leaving: make(chan departure, 1),
	}
	t.writer = sc.svc.journal.NewWriter(journal.Term{
		Scope: sc.name, Epoch: epoch, Fence: fence, Tail: fence, Chain: p.Chain(),
		Holder: sc.svc.cells.HolderID(), SealKey: sc.svc.keys.ID(), NewID: newID, Now: sc.svc.clock.Now,
	})
	t.lastSeq.Store(fence)
	return t
}

// end ends the term from outside its goroutine.
func (t *term) end(why error) {
	t.endOnce.Do(func() {
		t.endWhy = why
		close(t.ended)
	})
}

// submit queues a command without waiting. ErrBusy: the queue is full.
func (t *term) submit(r request) error {
	select {
	case <-t.ended:
		return errNotLeading
	default:
	}
	select {
	case t.queue <- r:
		return nil
	default:
		return fmt.Errorf("scope %s: %w: %d commands wait; try again in 100 ms", t.name, ErrBusy, queueLength)
	}
}

// deliver queues an outcome and waits for room, since an outcome is never
// dropped while the term lasts.
func (t *term) deliver(ctx context.Context, r request) {
	select {
	case t.queue <- r:
		return
	case <-ctx.Done():
	case <-t.ended:
	}
	if r.late != nil {
		r.late()
	}
}

// do has a command decided and waits until what it decided is in the log. look,
// if set, is called with the state at that moment, and its result given.
func (t *term) do(ctx context.Context, c leasecore.Command, actor events.Actor, look func(*leasecore.State) any) (any, error) {
	type outcome struct {
		seen any
		err  error
	}
	reply := make(chan outcome, 1)
	err := t.submit(request{command: c, actor: actor, ctx: ctx, done: func(s *leasecore.State, err error) {
		o := outcome{err: err}
		if look != nil && err == nil {
			o.seen = look(s)
		}
		reply <- o
	}})
	if err != nil {
		return nil, err
	}
	select {
	case o := <-reply:
		return o.seen, o.err
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for the decision: %w", ctx.Err())
	case <-t.ended:
		return nil, errNotLeading
	}
}

// lead leads until the term ends: fenced, deposed, unable to append, or stopped
// with ctx. base carries what serves the stopping.
func (t *term) lead(ctx, base context.Context) error {
	termCtx, cancel := context.WithCancel(base)
	t.work = newWork(termCtx, t)
	stopServing := make(chan struct{})
	var serving sync.WaitGroup
	for n := range t.projection.State().Names() {
		t.views.publish(t.projection.State(), n.Name, t.svc.clock.Now())
	}
	api, err := t.serveAPI()
	if err != nil {
		cancel()
		return err
	}
	for n := range t.projection.State().Names() {
		t.dirty[n.Name] = true
	}
	serving.Go(func() { t.applyDefinitionsFile(termCtx, stopServing) })
	serving.Go(func() { t.sweep(termCtx, stopServing) })
	if t.svc.opts.OnLead != nil {
		t.svc.opts.OnLead(t.name, t.epoch)
	}
	go func() { // a deposal ends even an append that waits
		select {
		case <-t.ended:
			cancel()
		case <-termCtx.Done():
		}
	}()
	err = t.loop(termCtx, ctx)
	t.end(err)
	close(stopServing)
	api.stop()
	t.work.stop()
	cancel()
	serving.Wait()
	t.refuseRest()
	t.views.clear()
	t.svc.cells.Drop(t.name)
	return err
}

// loop is the scope's goroutine.
func (t *term) loop(termCtx, stopping context.Context) error {
	stop := stopping.Done()
	var budget <-chan time.Time
	var canNotAppendSince time.Time
	for {
		if t.draining && !t.inFlight() {
			return t.release(termCtx)
		}
		batch := t.gather()
		if len(batch) == 0 {
			timer := time.NewTimer(t.waitTime())
			select {
			case r := <-t.queue:
				batch = append(batch, r)
			case <-timer.C:
			case <-stop:
				stop = nil
				budget = t.drain()
			case t.going = <-t.leaving:
				budget = t.drain()
				if t.going == shutdown {
					batch = append(batch, request{command: leasecore.Shutdown{}, actor: operator("shutdown")})
				}
			case <-budget:
				return fmt.Errorf("stopping: still in flight after %s; the scope is not released", t.svc.cfg.ShutdownTimeout)
			case <-t.ended:
				timer.Stop()
				return t.endWhy
			}
			timer.Stop()
			if len(batch) == 0 {
				continue
			}
		}
		err := t.commit(termCtx, batch)
		switch {
		case err == nil:
			canNotAppendSince = time.Time{}
		case errors.Is(err, journal.ErrUnavailable), errors.Is(err, journal.ErrFull), errors.Is(err, journal.ErrRefused):
			if canNotAppendSince.IsZero() {
				canNotAppendSince = time.Now()
				t.log.Error("nothing can be recorded, so nothing is begun", "error", err)
			}
			if time.Since(canNotAppendSince) > giveUpAppending {
				return fmt.Errorf("no append for %s: %w", giveUpAppending, err)
			}
			if err := pause(termCtx, 100*time.Millisecond); err != nil {
				return t.why(err)
			}
		default:
			return t.why(err)
		}
	}
}

// drain begins to leave: nothing new is begun any more. The result says when
// the time for it is up.
func (t *term) drain() <-chan time.Time {
	t.draining = true
	t.log.Info("leaving: bringing what is in flight to its end")
	return time.After(t.svc.cfg.ShutdownTimeout.Duration())
}

// why gives the reason for which the term was ended, if there is one.
func (t *term) why(err error) error {
	select {
	case <-t.ended:
		if t.endWhy != nil {
			return t.endWhy
		}
	default:
	}
	return err
}

// waitTime is how long nothing is due.
func (t *term) waitTime() time.Duration {
	at, ok := t.agenda.next()
	if !ok {
		return maxWait
	}
	return min(max(at.Sub(t.svc.clock.Now()), minWait), maxWait)
}

// gather takes what is queued and due, up to a batch.
func (t *term) gather() []request {
	t.looked = t.svc.clock.Now()
	var batch []request
	for name := range t.dirty {
		if len(batch) >= batchCommands {
			break
		}
		delete(t.dirty, name)
		batch = append(batch, request{command: leasecore.Tick{Name: name}})
	}
	for _, name := range t.agenda.due(t.looked, batchCommands-len(batch)) {
		batch = append(batch, request{command: leasecore.Tick{Name: name}})
	}
	for len(batch) < batchCommands {
		select {
		case r := <-t.queue:
			batch = append(batch, r)
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
// is owed then. When the outcome of the append was unknown and nothing landed,
// it decides again on what then is the state. With an error nothing was stored
// and the requests are kept for another try, or the term is over.
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
		evs, results, taken := t.decide(batch)
		landed, err := t.append(ctx, evs)
		if err != nil {
			t.keep(batch)
			return err
		}
		if !landed {
			continue
		}
		t.settle(batch[:taken], results)
		batch = batch[taken:]
	}
	return nil
}

// decide decides as much of a batch as one append takes.
func (t *term) decide(batch []request) (evs []events.Event, results []decided, taken int) {
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
			taken++
			continue
		}
		out, err := t.decideOne(draft, at, r.command)
		results = append(results, decided{from: len(evs), to: len(evs) + len(out), err: err})
		evs = append(evs, out...)
		taken++
	}
	return evs, results, taken
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

// append appends events and applies what is new in the log. More than one append
// takes are appended in parts: every prefix of what was decided is a state that
// deciding goes on from.
func (t *term) append(ctx context.Context, evs []events.Event) (landed bool, err error) {
	for len(evs) > 0 {
		part := evs[:min(len(evs), journal.MaxBatch)]
		result, err := t.writer.Append(ctx, part)
		for errors.Is(err, journal.ErrTooLarge) && len(part) > 1 {
			part = part[:len(part)/2]
			result, err = t.writer.Append(ctx, part)
		}
		if err != nil {
			return false, err
		}
		for i := range result.Events {
			if err := t.apply(&result.Events[i]); err != nil {
				return false, err
			}
		}
		if !result.Landed {
			return false, nil
		}
		evs = evs[len(part):]
	}
	return true, nil
}

// apply makes one event of the log part of the state.
func (t *term) apply(e *events.Event) error {
	if err := t.projection.Adopt(e); err != nil {
		return err
	}
	if e.Type() == events.TypeInstalled {
		t.projection.State().Installed(e.Name, t.svc.clock.Now())
	}
	t.lastSeq.Store(e.Seq)
	t.names.Store(int64(t.projection.State().Len()))
	t.tellEvent(e)
	hitAfter(e.Type())
	if e.Name != events.EpochName && e.Name != events.DefinitionsName {
		t.dirty[e.Name] = true
	}
	return nil
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
	touched, panicked := map[string]bool{}, map[string]bool{}
	for name := range t.dirty {
		touched[name] = true
	}
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
		if errors.Is(results[i].err, errPanicked) {
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
	t.views.publish(state, name, now)
	t.work.sync(name, state.Owed(name, now))
	// From when the batch was gathered: what became due since is due at once.
	at, ok := state.Wake(name, t.looked)
	if later := now.Add(afterPanic); panicked && (!ok || at.After(later)) {
		at, ok = later, true
	}
	t.agenda.set(name, at, ok)
}

// keep puts back what could not be recorded: outcomes must not get lost. Who
// waits for an answer is told to come again.
func (t *term) keep(batch []request) {
	for i := range batch {
		r := &batch[i]
		if r.done != nil {
			r.done(nil, fmt.Errorf("%w: the log takes nothing now; try again", ErrBusy))
			continue
		}
		if tick, ok := r.command.(leasecore.Tick); ok && r.effect == nil {
			t.dirty[tick.Name] = true
			continue
		}
		select {
		case t.queue <- *r:
		default:
			t.work.redeliver(*r)
		}
	}
}

// refuseRest answers those who still wait when the term is over, and gives back
// what arrived too late and hangs on no guard (D5).
func (t *term) refuseRest() {
	for {
		select {
		case r := <-t.queue:
			if r.done != nil {
				r.done(nil, errNotLeading)
			}
			if r.late != nil {
				r.late()
			}
		default:
			return
		}
	}
}

// inFlight tells whether something must be brought to its end before the scope
// is given back.
func (t *term) inFlight() bool {
	for n := range t.projection.State().Names() {
		if n.InFlight() || t.going == shutdown && len(n.Leases) > 0 {
			return true
		}
	}
	return len(t.queue) > 0
}

// release ends the term in good order: the log says so, then the cell (E18).
func (t *term) release(ctx context.Context) error {
	release := leasecore.Release{Holder: t.svc.cells.HolderID(), Shutdown: t.going == shutdown}
	if err := t.commit(ctx, []request{{command: release}}); err != nil {
		return fmt.Errorf("recording the release: %w", err)
	}
	if err := t.svc.cells.Release(ctx, t.name); err != nil {
		return fmt.Errorf("releasing the scope: %w", err)
	}
	t.log.Info("released")
	switch t.going {
	case stepDown:
		return errSteppedDown
	case shutdown:
		return errShutDown
	default:
		return nil
	}
}
