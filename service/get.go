package service

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/leasesvc/leasesvc/handover/wire"
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

// given is a committed credential as it is given to a reader: a view of it, its
// values, and the times of [Got].
type given struct {
	view               *view
	values             *wire.Values
	goodFor, expiresIn time.Duration
}

// LogValue implements slog.LogValuer: never the values.
func (g Got) LogValue() slog.Value {
	return slog.GroupValue(slog.Uint64("epoch", g.Epoch), slog.Uint64("n", g.N), slog.Uint64("lease", g.Lease))
}

// Get gives the committed credential of a name that this instance leads, for
// callers in this process: what a get over NATS gives, without NATS and without
// a seal. It meets neither the scope's goroutine nor, once the values were read
// from the store, any other I/O; it allocates nothing then, but the 24 bytes of a look
// at the wall clock in a millisecond. Errors: a [wire.Refusal],
// [leasecore.ErrUnknownName], that another instance leads, or what reading the values
// met.
func (s *Service) Get(ctx context.Context, scope, name string) (Got, error) {
	sc := s.scopes[scope]
	if sc == nil {
		return Got{}, errNotLeading
	}
	t := sc.led.Load()
	if t == nil || t.lingering.Load() {
		return Got{}, errNotLeading
	}
	now := s.clock.soon()
	g, err := t.give(ctx, name, now, now)
	if err != nil {
		return Got{}, err
	}
	v := g.view
	return Got{Values: *g.values, Epoch: v.epoch, N: v.n, Lease: v.lease, Public: v.public, GoodFor: g.goodFor, ExpiresIn: g.expiresIn}, nil
}

// give gives the committed credential of a name to who asked at a time. at is a
// moment before now, and after that: the view that is looked at counted then.
func (t *term) give(ctx context.Context, name string, came, at time.Time) (given, error) {
	if t.over() {
		return given{}, errNotLeading
	}
	return t.giveOf(ctx, &t.views, name, t.views.get(name), came, t.svc.clock.nanos(at), t.certain(at))
}

// giveOf gives the credential of a view. certain is up to when the view was surely
// what counts: what has replaced it did so later, and its lease is revoked no
// sooner than good_for after that. So good_for from then on is what the answer
// may promise, counted, as readers do, from before they asked.
func (sc *scope) giveOf(ctx context.Context, from *views, name string, v *view, came time.Time, now int64, certain time.Time) (given, error) {
	promise, err := v.promise(came, now, certain)
	if err != nil {
		return given{}, err
	}
	values, err := sc.open(ctx, from, name, v)
	if err != nil {
		return given{}, err
	}
	g := given{view: v, values: values, goodFor: promise, expiresIn: v.expiresIn(now)}
	if g.expiresIn > 0 {
		g.goodFor = min(g.goodFor, g.expiresIn)
	}
	return g, nil
}

// read opens the values of one of the term's views.
func (t *term) read(ctx context.Context, name string, v *view) (wire.Values, error) {
	values, err := t.open(ctx, &t.views, name, v)
	if err != nil {
		return nil, err
	}
	return *values, nil
}

// open opens a view's values, once.
func (sc *scope) open(ctx context.Context, from *views, name string, v *view) (*wire.Values, error) {
	if values := v.values.Load(); values != nil {
		return values, nil
	}
	values, err := sc.svc.values(ctx, sc.name, name, v.lease)
	if err != nil {
		return nil, fmt.Errorf("reading the values of %s, lease %d: %w", name, v.lease, err)
	}
	sc.hold(from, name, v, values)
	return &values, nil
}

// hold keeps the values of a view open, for as long as there is room.
func (sc *scope) hold(from *views, name string, v *view, values wire.Values) {
	v.values.Store(&values)
	if let := from.opened.add(name); let != "" && let != name {
		if v := from.get(let); v != nil {
			v.letGo()
		}
	}
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
