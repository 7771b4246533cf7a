package service

import (
	"context"
	"sync"
	"time"

	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/tracing"
	"github.com/leasesvc/leasesvc/vault"
)

// work runs the effects that a term's state owes, each at most once at a time.
// Its maps belong to the scope's goroutine; the effects run on their own.
type work struct {
	term    *term
	ctx     context.Context
	cancel  context.CancelFunc
	running map[string]map[leasecore.Effect]context.CancelFunc // by name
	wg      sync.WaitGroup
}

func newWork(ctx context.Context, t *term) *work {
	ctx, cancel := context.WithCancel(ctx)
	return &work{term: t, ctx: ctx, cancel: cancel, running: map[string]map[leasecore.Effect]context.CancelFunc{}}
}

// sync brings what runs for a name in line with what is owed: starts what is
// missing, cancels what is owed no more. What has run to its end counts as
// running until its outcome was decided ([work.finished]).
func (w *work) sync(name string, owed []leasecore.Effect) {
	jobs := w.running[name]
	still := make(map[leasecore.Effect]bool, len(owed))
	for _, e := range owed {
		still[e] = true
		if _, runs := jobs[e]; runs {
			continue
		}
		if w.term.draining && e.Kind == leasecore.Verify {
			continue // the successor proves it
		}
		ctx, cancel := context.WithCancel(w.ctx)
		if jobs == nil {
			jobs = map[leasecore.Effect]context.CancelFunc{}
			w.running[name] = jobs
		}
		jobs[e] = cancel
		w.start(ctx, cancel, e)
	}
	for e, cancel := range jobs {
		if !still[e] {
			cancel()
			delete(jobs, e)
		}
	}
	if len(jobs) == 0 {
		delete(w.running, name)
	}
}

// finished forgets an effect whose outcome was decided; if it is still owed, it
// starts again at the next sync.
func (w *work) finished(e leasecore.Effect) {
	jobs := w.running[e.Name]
	if cancel := jobs[e]; cancel != nil {
		cancel()
		delete(jobs, e)
	}
}

// stop cancels everything and waits for it.
func (w *work) stop() {
	w.cancel()
	w.wg.Wait()
}

// redeliver hands in an outcome that found no room.
func (w *work) redeliver(r request) {
	w.wg.Go(func() { w.term.deliver(w.ctx, r) })
}

// start runs one effect. What it is about is copied from the state here, on the
// scope's goroutine.
func (w *work) start(ctx context.Context, cancel context.CancelFunc, e leasecore.Effect) {
	ctx, span := w.term.spans.effect(w.urgency(ctx, e), e)
	run := w.plan(e, span)
	w.term.working[e.Kind].Add(1)
	w.wg.Go(func() {
		defer cancel()
		defer w.term.working[e.Kind].Add(-1)
		if err := w.fresh(ctx, e); err != nil {
			span.end(tracing.Ended)
			return // the term is over, or the effect is owed no more
		}
		r, ok := run(ctx)
		span.done(r, ok)
		if ok {
			r.effect = &e
			w.term.deliver(w.ctx, r)
		}
	})
}

// urgency tells Vault's gate until when an effect must have happened, so that
// after an outage those go first whose lease ends first.
func (w *work) urgency(ctx context.Context, e leasecore.Effect) context.Context {
	n := w.term.projection.State().Name(e.Name)
	l := n.Lease(e.Lease)
	if e.Kind == leasecore.Acquire {
		l = n.Lease(n.Active) // the one that is to be replaced
	}
	if l == nil {
		return ctx
	}
	if end, ends := l.Expires(); ends {
		return vault.WithUrgency(ctx, end)
	}
	return ctx
}

// fresh waits, before what can't be undone, until our last renewal is younger
// than the quiet window (E21). It is a courtesy that keeps overlaps short;
// safety is the log.
func (w *work) fresh(ctx context.Context, e leasecore.Effect) error {
	switch e.Kind {
	case leasecore.Verify, leasecore.Extend, leasecore.Renew, leasecore.Poll:
		return nil
	}
	for w.term.svc.cells.FreshEnough(time.Now()) != nil {
		if err := pause(ctx, w.term.svc.cfg.Heartbeat.Duration()/2); err != nil {
			return err
		}
	}
	return nil
}

// plan gives the function that does an effect; false: there is no outcome to
// tell, the term is over.
func (w *work) plan(e leasecore.Effect, span *effectSpan) func(context.Context) (request, bool) {
	name := w.term.projection.State().Name(e.Name)
	job := job{term: w.term, effect: e, definition: name.Definition, epoch: w.term.epoch, span: span}
	if l := name.Lease(e.Lease); l != nil {
		job.lease = *l
	}
	if in := name.Incarnation(e.Incarnation); in != nil {
		job.incarnation = *in
	}
	if h := name.Handover; h != nil {
		job.deadline = h.Started.Add(h.Budget)
	}
	job.reverted, job.replaces = name.Reverted, name.Active
	if a := name.Lease(name.Active); a != nil {
		job.replaced, job.printed = a.Guard, a.Fingerprint
	}
	for i := range name.Leases {
		if o := &name.Leases[i]; o.No != job.lease.No && o.Guard != "" && o.Guard == job.lease.Guard {
			job.guardShared = true
		}
	}
	switch e.Kind {
	case leasecore.Acquire:
		return job.acquire
	case leasecore.Extend:
		return job.extend
	case leasecore.Verify:
		return job.verify
	case leasecore.Prepare:
		return job.prepare
	case leasecore.Tell:
		return job.tell
	case leasecore.Renew:
		return job.renew
	case leasecore.Poll:
		return job.poll
	default:
		return job.revoke
	}
}
