package service

import (
	"context"
	"sync"
	"time"

	"github.com/leasesvc/leasesvc/handover/wire"
	"github.com/leasesvc/leasesvc/leasecore"
)

// Got is a committed credential.
type Got struct {
	// Values are shared with all who ask: they must not be changed.
	Values wire.Values
	// Epoch, N and Lease say which one it is.
	Epoch, N, Lease uint64
	// Public is the value that identifies the account, if there is one.
	Public string
	// GoodFor is how long the caller may rely on it before it asks again,
	// ExpiresIn what is left of the lease; 0: it does not expire.
	GoodFor, ExpiresIn time.Duration
}

// Get gives the committed credential of a name that this instance leads, for
// callers in this process: what a get over NATS gives, without NATS and without
// a seal. It meets neither the scope's goroutine nor, once the values were read
// from the store, any other I/O, and allocates nothing then. Errors: a
// [wire.Refusal], [leasecore.ErrUnknownName], that another instance leads, or
// what reading the values met.
func (s *Service) Get(ctx context.Context, scope, name string) (Got, error) {
	sc := s.scopes[scope]
	if sc == nil {
		return Got{}, errNotLeading
	}
	t := sc.led.Load()
	if t == nil || t.lingering.Load() {
		return Got{}, errNotLeading
	}
	return t.got(ctx, name)
}

// got gives the committed credential of a name as readers may see it now.
func (t *term) got(ctx context.Context, name string) (Got, error) {
	at := time.Now()
	if t.over() || !t.svc.fresh(at) {
		return Got{}, errNotLeading // what we see may be over (E21)
	}
	v, now := t.views.get(name), t.svc.clock.nanos(at)
	switch {
	case v == nil || v.definition == nil:
		return Got{}, leasecore.ErrUnknownName
	case v.lease == 0:
		return Got{}, wire.Refusal{Code: wire.CodeNone, Message: "no credential is committed: " + v.state}
	case v.expiresAt != 0 && now >= v.expiresAt:
		return Got{}, wire.Refusal{Code: wire.CodeExpired, Message: "the committed credential expired at " + v.expires.Format(time.RFC3339)}
	}
	values, err := t.read(ctx, name, v)
	if err != nil {
		return Got{}, err
	}
	got := Got{Values: values, Epoch: v.epoch, N: v.n, Lease: v.lease, Public: v.public, GoodFor: v.goodFor}
	if v.expiresAt != 0 {
		got.ExpiresIn = time.Duration(v.expiresAt - now)
		got.GoodFor = min(got.GoodFor, got.ExpiresIn)
	}
	return got, nil
}

// fresh tells whether our last renewal is younger than the quiet window (E21), as
// [epochkv.Cells.FreshEnough] does; it is asked only when that renewal is not
// young any more which was the last when it was asked before. When there is no holding
// any more the terms end, and nobody asks.
func (s *Service) fresh(now time.Time) bool {
	if f := s.freshness.Load(); f != nil && now.Before(f.until) && now.UnixNano() < f.wall {
		return true
	}
	sent, err := s.cells.RenewedAt()
	if err != nil || s.cells.FreshEnough(now) != nil {
		return false
	}
	until := sent.Add(s.cells.QuietWindow())
	s.freshness.Store(&freshness{until: until, wall: until.UnixNano()})
	return true
}

// freshness is until when a renewal is young, by the monotonic and by the wall
// clock.
type freshness struct {
	until time.Time
	wall  int64
}

// maxOpened bounds the names of a scope whose values are held open: a few
// megabytes. The values of others are read from the store again when somebody
// asks.
const maxOpened = 4096

// opened remembers in which order names' values were opened, to let go of the
// first ones.
type opened struct {
	mu    sync.Mutex
	names []string // a ring once it is full
	next  int
}

// add notes a name and gives the one whose values are to be let go; "": none.
func (o *opened) add(name string) (let string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.names) < maxOpened {
		o.names = append(o.names, name)
		return ""
	}
	let, o.names[o.next] = o.names[o.next], name
	o.next = (o.next + 1) % maxOpened
	return let
}
