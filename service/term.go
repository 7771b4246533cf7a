package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
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

// ErrBusy says that too much waits already, or that something is not there yet.
var ErrBusy = errors.New("busy")

// Who is told to come again is told when: soon where there is too much at the moment,
// later where something has to happen first.
const (
	againSoon  = 100 * time.Millisecond
	againLater = time.Second
)

// busy is an [ErrBusy] that says why, and when to try again.
func busy(in time.Duration, format string, args ...any) error {
	return fmt.Errorf("%w: %s; try again in %d ms", ErrBusy, fmt.Sprintf(format, args...), in.Milliseconds())
}

// errNotLeading says that the term is over.
var errNotLeading = errors.New("this instance does not lead the scope any more")

// term is one epoch of a scope under this instance.
type term struct {
	*scope
	epoch      uint64
	openedAt   time.Time
	projection *projector.Projection
	writer     *journal.Writer
	queue      chan *request
	agenda     *agenda
	dirty      map[string]bool // names to look at once more
	crowded    bool            // they were many since they were none
	changed    map[string]bool // names that events were applied to since the last settle
	work       *work
	saver      *saver
	views      views
	spans      *handovers  // nil: nothing is traced
	lingering  atomic.Bool // the scope was given back; who asks over NATS is still answered
	anew       anew
	inHand     inHand
	startAnew  bool // an operator decided that all is to be issued anew
	oddities   oddities
	documents  *documents
	fence      uint64 // the sequence of the epoch's first opened
	rekeyed    rekeying
	log        *slog.Logger

	left     atomic.Pointer[time.Time] // when we began to give the scope back
	lastSeq  atomic.Uint64
	lastTime atomic.Pointer[time.Time] // of the last event
	names    atomic.Int64
	// For the metrics: the names that wait to be looked at, the events since the
	// last snapshot, whether the log takes nothing, the effects by kind.
	due, unsaved atomic.Int64
	strangers    uint64 // the follower's, when the term began
	stalled      atomic.Bool
	working      [leasecore.EffectKinds]atomic.Int64
	pulse        pulse
	// handovers is how many names are being handed over, handing which ones.
	handovers    atomic.Int64
	handing      map[string]bool
	leavingScope atomic.Bool
	draining     bool
	leaving      chan departure
	going        departure
	looked       time.Time // when the last batch was gathered

	endOnce sync.Once
	ended   chan struct{}
	endWhy  error
}

func newTerm(sc *scope, p *projector.Projection, epoch, fence uint64) *term {
	t := &term{
		scope: sc, epoch: epoch, fence: fence, openedAt: p.State().OpenedAt, projection: p, queue: make(chan *request, queueLength), agenda: newAgenda(),
		dirty: map[string]bool{}, changed: map[string]bool{}, handing: map[string]bool{}, log: sc.log.With("epoch", epoch), ended: make(chan struct{}), leaving: make(chan departure, 1),
	}
	t.writer = sc.svc.journal.NewWriter(journal.Term{
		Scope: sc.name, Epoch: epoch, Fence: fence, Tail: fence, Chain: p.Chain(),
		OpenedVersion: p.State().Formats.Of(events.TypeOpened), Holder: sc.svc.cells.HolderID(), SealKey: sc.svc.keys.ID(), NewID: newID, Now: sc.svc.clock.Now,
	})
	t.documents = newDocuments(t)
	t.saver = newSaver(t)
	t.spans = newHandovers(t)
	t.lastSeq.Store(fence)
	t.names.Store(int64(p.State().Len()))
	t.strangers = sc.follower.strangers.Load()
	t.unsaved.Store(int64(p.Unsaved()))
	p.State().Took(sc.svc.clock.Now())
	return t
}

// end ends the term from outside its goroutine.
func (t *term) end(why error) {
	t.endOnce.Do(func() {
		t.endWhy = why
		t.documents.end()
		close(t.ended)
	})
}

// over tells whether the term has ended.
func (t *term) over() bool {
	select {
	case <-t.ended:
		return true
	default:
		return false
	}
}

// submit queues a command without waiting. ErrBusy: the queue is full.
func (t *term) submit(r request) error {
	if t.over() {
		return errNotLeading
	}
	select {
	case t.queue <- &r:
		return nil
	default:
		return fmt.Errorf("scope %s: %w", t.name, busy(againSoon, "%d commands wait", queueLength))
	}
}

// deliver queues an outcome and waits for room, since an outcome is never
// dropped while the term lasts.
func (t *term) deliver(ctx context.Context, r request) {
	select {
	case t.queue <- &r:
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
	t.views.inherit(&t.reads.views)
	t.reads.views.clear()
	names := t.projection.State().SortedNames()
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
	serving.Go(func() { t.rekey(termCtx, stopServing) })
	serving.Go(func() { t.documents.run(termCtx, stopServing) })
	serving.Go(t.persistEpoch)
	serving.Go(func() { t.readAllAhead(termCtx, stopServing, names) })
	serving.Go(func() { t.endWaiting(ctx, termCtx, cancel) })
	err = t.loop(termCtx, ctx)
	if err == nil || errors.Is(err, errSteppedDown) {
		api.linger(base)
	}
	t.end(err)
	close(stopServing)
	api.stop()
	t.work.stop()
	t.saver.last(base, err == nil || errors.Is(err, errSteppedDown) || errors.Is(err, errShutDown))
	cancel()
	serving.Wait()
	t.refuseRest()
	t.views.clear()
	t.svc.cells.Drop(t.name)
	return err
}

// endWaiting ends what waits without a bound of its own, such as an append whose
// outcome can't be settled without NATS: at once when we are deposed, and when
// the process is being stopped and the time for that is up.
func (t *term) endWaiting(stopping, termCtx context.Context, cancel context.CancelFunc) {
	defer cancel()
	select {
	case <-t.ended:
		return
	case <-termCtx.Done():
		return
	case <-stopping.Done():
	}
	late := time.NewTimer(t.svc.cfg.ShutdownTimeout.Duration() + lingers)
	defer late.Stop()
	select {
	case <-t.ended:
	case <-termCtx.Done():
	case <-late.C:
		t.log.Warn("stopping: NATS does not settle the last append; the scope is not released, a successor waits its quiet polls")
	}
}

// persistEpoch makes a restart of this process know the epoch as its own (E3).
// Nothing waits for it: a crash before it costs a successor's quiet polls.
func (t *term) persistEpoch() {
	if err := t.svc.cells.Opened(t.name, t.epoch); err != nil {
		t.log.Warn("the epoch was not persisted; a restart will wait like a stranger", "error", err)
	}
}

// loop is the scope's goroutine.
func (t *term) loop(termCtx, stopping context.Context) error {
	defer t.pulse.rest()
	stop := stopping.Done()
	var budget <-chan time.Time
	var canNotAppendSince time.Time
	for {
		t.pulse.work()
		if t.draining && !t.inFlight() {
			t.pulse.rest()
			return t.release(termCtx)
		}
		batch := t.gather()
		t.due.Store(int64(len(t.dirty)))
		if len(batch) == 0 {
			t.pulse.rest()
			timer := time.NewTimer(t.waitTime())
			select {
			case r := <-t.queue:
				batch = append(batch, *r)
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
				return fmt.Errorf("stopping: still in flight after %s; the scope is not released, a successor waits its quiet polls", t.svc.cfg.ShutdownTimeout.Duration())
			case <-t.ended:
				timer.Stop()
				return t.endWhy
			}
			timer.Stop()
			if len(batch) == 0 {
				continue
			}
		}
		t.pulse.work()
		err := t.commit(termCtx, batch)
		t.unsaved.Store(int64(t.projection.Unsaved()))
		t.stalled.Store(err != nil)
		switch {
		case err == nil:
			canNotAppendSince = time.Time{}
			t.saver.consider(termCtx)
			t.pulse.rest()
		case passes(err):
			if canNotAppendSince.IsZero() {
				canNotAppendSince = time.Now()
				t.log.Error("nothing can be recorded, so nothing is begun", "error", err)
			}
			t.pulse.rest()
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
