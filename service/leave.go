package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasesvc/leasesvc/leasecore"
)

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

// drain begins to leave: nothing new is begun any more. The result says when
// the time for it is up.
func (t *term) drain() <-chan time.Time {
	t.draining = true
	t.leavingScope.Store(true)
	t.log.Info("leaving: bringing what is in flight to its end")
	return time.After(t.svc.cfg.ShutdownTimeout.Duration())
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
	now := time.Now()
	t.left.Store(&now) // from here on somebody else may lead
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
