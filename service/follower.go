package service

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/projector"
)

// follower folds a scope's log as it grows while the scope is not ours, so that
// a takeover costs one claim and one append, not a replay. All followers of an
// instance are fed by one consumer of the stream ([Service.followAll]).
type follower struct {
	scope string

	mu         sync.Mutex
	projection *projector.Projection
	ahead      skews
	delivered  uint64    // the last sequence of the scope that was fed
	stored     time.Time // when the server stored it
	last       journal.Message
	fed        chan struct{} // closed when the next message was fed
	taken      bool          // a term owns the projection; what is fed meanwhile is read again later
	left       followed      // what the projection said when it was taken

	foreign foreign
	// strangers counts the messages that were met and do not count.
	strangers atomic.Uint64
	pulse     pulse
}

func newFollower(s *Service, scope string) *follower {
	return &follower{scope: scope, projection: projector.NewUnder(scope, newScopeKeys(s.keys, nil).mac), ahead: skews{}, fed: make(chan struct{})}
}

// fold looks at one message of the log.
func fold(p *projector.Projection, ahead skews, m journal.Message) error {
	e, err := p.Apply(m.Seq, m.Payload)
	if e != nil {
		ahead.note(e, m.Stored)
	}
	return err
}

// feed gives the follower the next message. What stops the projection is kept
// there and keeps the scope from being claimed.
func (f *follower) feed(m journal.Message) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pulse.work()
	defer f.pulse.rest()
	f.delivered, f.stored, f.last = m.Seq, m.Stored, m
	if f.taken {
		f.strangers.Add(uint64(f.foreign.arrived(m.Seq, time.Now())))
	} else {
		before, _ := f.projection.Skipped()
		_ = fold(f.projection, f.ahead, m)
		after, _ := f.projection.Skipped()
		f.strangers.Add(after - before)
	}
	close(f.fed)
	f.fed = make(chan struct{})
}

// followed is what a follower tells of its scope's log, also while a term has the
// projection: then it is what the term found.
type followed struct {
	opened     opening
	shutdown   bool
	releasedAt time.Time
	formats    events.Formats
	stopped    error
}

// says needs mu.
func (f *follower) says() followed {
	if f.taken {
		return f.left
	}
	h, chain := &f.projection.State().Head, f.projection.Chain()
	return followed{
		opened:   opening{seq: h.Fence, epoch: h.Epoch, key: chain.SealKey()},
		shutdown: h.Shutdown, releasedAt: h.ReleasedAt, formats: h.Formats, stopped: f.projection.Stopped(),
	}
}

// ring has the follower check its log with the scope's keys, and trust it without
// up to a sequence.
func (f *follower) ring(keys *scopeKeys, trusted uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.projection.Rering(keys.mac)
	f.projection.Trust(trusted)
}

// begin has the follower begin with a projection, and gives what it is to be fed
// next.
func (f *follower) begin(p *projector.Projection, ahead skews) (next uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.projection, f.ahead = p, ahead
	return p.LastSeq() + 1
}

// opened gives the last opened event that was followed.
func (f *follower) opened() opening {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.says().opened
}

// formats gives the versions of events that may be written into the log, as far as
// it was followed; they only ever grow.
func (f *follower) formats() events.Formats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.says().formats
}

// shutDown tells whether the scope was shut down by hand since our start; the
// error is what stopped the projection, if anything did.
func (f *follower) shutDown(started time.Time) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	is := f.says()
	return is.shutdown && is.releasedAt.After(started), is.stopped
}

// stopped gives what stopped the projection; nil: nothing did.
func (f *follower) stopped() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.says().stopped
}

// caughtUp waits until the message at seq was fed, or stands in the snapshot that
// was begun with; false: it was not in time.
func (f *follower) caughtUp(ctx context.Context, seq uint64, within time.Duration) bool {
	late := time.NewTimer(within)
	defer late.Stop()
	for {
		f.mu.Lock()
		fed, there := f.fed, f.delivered >= seq || !f.taken && f.projection.LastSeq() >= seq
		f.mu.Unlock()
		if there {
			return true
		}
		select {
		case <-fed:
		case <-late.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// lastSign gives the last that the log and our own look at its holder say of
// somebody having led the scope; zero: nobody did.
func (f *follower) lastSign(how string) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if how == events.HowReleased {
		return f.says().releasedAt
	}
	return f.stored
}

// aheadBy gives how far ahead of the server's the clock was that stamped a living
// lease.
func (f *follower) aheadBy() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ahead.live(f.projection.State())
}

// feedWait is how long a takeover waits for its opening event to be fed, which is
// faster than reading it; then it reads what is missing.
const feedWait = 100 * time.Millisecond

// takeAt gives the projection to a term, as soon as the event at seq was fed; and
// when the server stored that event, if it was.
func (f *follower) takeAt(ctx context.Context, seq uint64) (*projector.Projection, skews, time.Time) {
	late := time.NewTimer(feedWait)
	defer late.Stop()
	for fence := seq; ; {
		f.mu.Lock()
		fed, there := f.fed, f.delivered >= seq
		if there {
			f.left = f.says()
			f.left.formats = maps.Clone(f.left.formats)
			f.taken = true
			f.foreign.begin(fence)
			defer f.mu.Unlock()
			return f.projection, f.ahead, f.stored
		}
		f.mu.Unlock()
		select {
		case <-fed:
		case <-late.C:
			seq = 0 // as it is
		case <-ctx.Done():
			seq = 0
		}
	}
}

// giveBack follows again after a term: from the last snapshot or the beginning of
// the log, since what was fed meanwhile was not folded. The error is ctx's.
func (f *follower) giveBack(ctx context.Context, sc *scope) error {
	for p, ahead := sc.restored(ctx); ; {
		f.mu.Lock()
		to := f.delivered
		if p.LastSeq() >= to || p.Stopped() != nil {
			f.projection, f.ahead, f.taken, f.left = p, ahead, false, followed{}
			f.foreign.end()
			f.mu.Unlock()
			return nil
		}
		f.mu.Unlock()
		err := sc.svc.journal.Replay(ctx, f.scope, p.LastSeq()+1, to, func(m journal.Message) error { return fold(p, ahead, m) })
		if err != nil && p.Stopped() == nil {
			sc.log.Warn("reading the log again", "error", err)
			if err := pause(ctx, time.Second); err != nil {
				return err
			}
		}
	}
}

// followAll feeds the followers of all scopes from one consumer, from a sequence
// on.
func (s *Service) followAll(ctx context.Context, next uint64) error {
	for {
		err := s.journal.Follow(ctx, "", next, func(m journal.Message) error {
			next = m.Seq + 1
			defer s.followed.Store(m.Seq)
			scope, _, _, err := events.ParseSubject(m.Subject)
			if err != nil {
				s.strangers.Add(1)
				return nil // somebody else wrote it: no scope of ours
			}
			if sc := s.scopes[scope]; sc != nil {
				if s.beforeFeed != nil {
					s.beforeFeed()
				}
				sc.follower.feed(m)
			}
			return nil
		})
		if ctx.Err() != nil || errors.Is(err, context.Canceled) {
			return nil
		}
		s.log.Error("following the log", "error", err)
		if err := pause(ctx, time.Second); err != nil {
			return nil
		}
	}
}
