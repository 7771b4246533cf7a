package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leasesvc/leasesvc/handover/wire"
)

// lingers is how long a holder that gave its scope back goes on answering reads,
// so that nobody has to wait while its successor begins to serve.
const lingers = 300 * time.Millisecond

// serveReads has the term answer the scope's reads, and say so to standbys.
func (e *endpoints) serveReads() (err error) {
	r := e.term.reads
	r.serving.Store(e)
	e.presence, err = e.term.svc.nc.Subscribe(servingSubject(e.term.name), func(m *nats.Msg) {
		if now := time.Now(); e.term.certain(now).Before(now) {
			return // a standby may know better
		}
		_ = m.Respond(nil) // a standby that is not answered answers, too
	})
	if err != nil {
		return fmt.Errorf("serving the reads of scope %s: %w", e.term.name, err)
	}
	return nil
}

// stopReads leaves the reads to who comes next.
func (e *endpoints) stopReads() {
	e.term.reads.serving.CompareAndSwap(e, nil)
	if e.presence != nil {
		_ = e.presence.Unsubscribe() // fails only on a closed connection
	}
}

// linger answers reads, and nothing else, a while longer.
func (e *endpoints) linger(ctx context.Context) {
	e.leaving.Store(true)
	e.term.lingering.Store(true)
	_ = pause(ctx, lingers) // cut short is fine
}

// take answers a read on a goroutine of its own; false: this term serves no more,
// or can't promise anything any more. A get of values that are open waits for
// nothing, and is answered where it came in: a goroutine would cost it more.
func (e *endpoints) take(m read) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped || e.term.over() {
		return false
	}
	if m.op() == wire.OpGet {
		at, v := time.Now(), e.term.views.get(m.name())
		if !e.term.promises(v, m, at) {
			return false
		}
		if v.open() {
			e.answer(e.ctx, m, at)
			return true
		}
	}
	select {
	case e.slots <- struct{}{}:
	default:
		e.term.reply(m, nil, busy(againSoon, "%d requests are being answered", requestsAtOnce))
		return true
	}
	e.serving.Go(func() {
		defer func() { <-e.slots }()
		ctx, cancel := context.WithTimeout(e.ctx, e.term.svc.cfg.OperationTimeout.Duration())
		defer cancel()
		e.answer(ctx, m, time.Now())
	})
	return true
}

func (e *endpoints) answer(ctx context.Context, m read, at time.Time) {
	var bodies [][]byte
	var err error
	switch m.op() {
	case wire.OpKey:
		bodies, err = e.term.keyAnswer(e.term.epoch)
	default:
		var g given
		if g, err = e.term.give(ctx, m.name(), m.at, at); err == nil {
			bodies, err = e.term.sealed(m, g)
		}
	}
	e.term.reply(m, bodies, err)
}

// promises tells whether the term's answer to a get could promise anything at a
// moment, by the view that is looked at after it.
func (t *term) promises(v *view, m read, at time.Time) bool {
	_, err := v.promise(m.at, t.svc.clock.nanos(at), t.certain(at))
	return !errors.Is(err, errNotLeading)
}

// certain gives up to when the term's views are surely what counts. A holder
// that was deposed and does not know it was so after its last renewal was sent:
// its successor keeps the promises made in a quiet window from then on, as its
// opening event says ([events.Opened]). One that leaves was the holder until it
// began to.
func (t *term) certain(now time.Time) time.Time {
	certain := now
	if !t.svc.fresh(now) {
		age, err := t.svc.cells.RenewalAge(now)
		if err != nil {
			return time.Time{}
		}
		if over := age - t.svc.cells.QuietWindow(); over > 0 {
			certain = now.Add(-over)
		}
	}
	if left := t.left.Load(); left != nil && left.Before(certain) {
		certain = *left
	}
	return certain
}
