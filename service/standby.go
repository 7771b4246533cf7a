package service

import (
	"context"
	"sync"
	"time"
)

// A standby answers a read by what it has folded of the log, once that is seen
// to be all that the log held at a moment: the moment up to which the answer is
// certain.

const (
	// catchUp is how long a standby waits to be fed what the log's leader has.
	catchUp = 250 * time.Millisecond
	// barrierLife is how long what was seen serves other reads.
	barrierLife = 20 * time.Millisecond
)

// barrier is the last moment of which a scope's log was seen to be folded whole.
// Its lock is held over the reading, so that one serves all who wait.
type barrier struct {
	mu sync.Mutex
	at time.Time
}

// standbyGot answers a get. errNotLeading: it can't be answered here, or not yet.
func (sc *scope) standbyGot(ctx context.Context, m read) ([][]byte, error) {
	certain, ok := sc.foldedWhole(ctx, m.at)
	if !ok {
		return nil, errNotLeading
	}
	v, now, ok := sc.follower.look(m.name(), sc.svc.clock.Now())
	if !ok {
		return nil, errNotLeading
	}
	views := &sc.reads.views
	views.show(m.name(), v)
	g, err := sc.giveOf(ctx, views, m.name(), v, m.at, now.UnixNano(), certain)
	if err != nil {
		return nil, err
	}
	return sc.sealed(m, g)
}

// standbyKey answers for the seal key, which all instances of a scope share.
func (sc *scope) standbyKey() ([][]byte, error) {
	epoch := sc.follower.opened().epoch
	if !sc.probed.Load() || epoch == 0 || sc.follower.stopped() != nil {
		return nil, errNotLeading
	}
	return sc.keyAnswer(epoch)
}

// foldedWhole gives a moment of which the scope's log was folded whole, as the
// log's leader told it; false: there is none. A leader that was replaced and
// does not know it is told apart by the cells: on its side our own renewals
// don't get through.
func (sc *scope) foldedWhole(ctx context.Context, wanted time.Time) (time.Time, bool) {
	if !sc.probed.Load() || sc.svc.cells.FreshEnough(time.Now()) != nil {
		return time.Time{}, false
	}
	b := &sc.reads.seen
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.at.After(wanted) || now.Sub(b.at) < barrierLife {
		return b.at, true
	}
	last, err := sc.svc.journal.Last(ctx, sc.name)
	if err != nil || !sc.follower.caughtUp(ctx, last, catchUp) {
		return time.Time{}, false
	}
	b.at = now
	return now, true
}

// look gives what is followed of a name, and the time by which its lease must be
// judged: no earlier than what the log's server and those who stamped the leases
// thought it was. False: what is followed counts for nothing, since no epoch was
// ever opened, a term of ours has it, or the log can't be followed.
func (f *follower) look(name string, now time.Time) (*view, time.Time, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	state := f.projection.State()
	if f.taken || f.projection.Stopped() != nil || state.Epoch == 0 {
		return nil, now, false
	}
	if f.stored.After(now) {
		now = f.stored
	}
	now = now.Add(f.ahead.live(state))
	return viewOf(state, name, now), now, true
}
