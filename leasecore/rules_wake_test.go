package leasecore_test

import (
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
)

// TestL36_TheEarliestOfAllDeadlines is when a name is looked at next.
func TestL36_TheEarliestOfAllDeadlines(t *testing.T) {
	spread := func(w *world, no uint64) time.Duration {
		due, _ := w.lease(no).RenewalDue(w.name().Definition.RenewAt)
		return due.Sub(w.now)
	}
	for what, c := range map[string]struct {
		story func(t *testing.T) *world
		in    func(w *world) time.Duration
	}{
		"an acquisition's retry": {func(t *testing.T) *world {
			w := begin(t)
			w.do(leasecore.AcquireDone{Name: orders, Lease: 1, Err: went("down")})
			return w
		}, is(time.Second)},
		"a renewal": {func(t *testing.T) *world { return underway(t) }, func(w *world) time.Duration { return spread(w, 1) }},
		"a renewal's retry": {func(t *testing.T) *world {
			w := underway(t)
			w.pass(300 * time.Second)
			w.do(w.notRenewed(1, went("down")))
			return w
		}, is(time.Second)},
		"a successor": {func(t *testing.T) *world {
			w := begin(t)
			w.activate(1, unrenewable)
			return w
		}, func(w *world) time.Duration { return spread(w, 1) }},
		"a revocation's retry": {func(t *testing.T) *world {
			w := underway(t)
			w.do(leasecore.RevokeActive{Name: orders})
			w.do(w.grant(2, ttl("60")))
			w.do(leasecore.RevokeDone{Name: orders, Lease: 1, Err: went("down")})
			return w
		}, is(time.Second)},
		"the time to say yes": {func(t *testing.T) *world {
			w := underway(t, consumed)
			w.rotate()
			w.offer(2)
			return w
		}, is(10 * time.Second)},
		"the time to go back": {func(t *testing.T) *world {
			w := underway(t, consumed)
			w.rotate()
			w.offer(2)
			w.do(w.answer("A", false))
			return w
		}, is(5 * time.Second)},
		"a promise to readers": {func(t *testing.T) *world {
			w := underway(t)
			w.rotate()
			w.activate(2)
			return w
		}, is(5 * time.Second)},
		"a lease's end": {func(t *testing.T) *world {
			w := underway(t, verified)
			w.rotate()
			w.do(w.grant(2, ttl("2"), unrenewable))
			return w
		}, is(2 * time.Second)},
		"a guard's end": {func(t *testing.T) *world {
			w := begin(t)
			w.do(w.grant(1, guarded))
			return w
		}, is(60 * time.Second)},
		"retire_after": {func(t *testing.T) *world {
			w := underway(t, consumed, func(d *events.Definition) { d.RetireAfter = events.WholeSeconds(20) })
			w.rotate()
			w.offer(2)
			w.do(w.answer("A", true))
			w.pass(5 * time.Second) // the promise is over, A has not confirmed
			return w
		}, is(15 * time.Second)},
		"a poll": {func(t *testing.T) *world {
			w := begin(t, kind(events.KindKV))
			w.activate(1, secret, rereadIn("30"))
			return w
		}, is(31 * time.Second)},
		"the budget of acquisitions": {func(t *testing.T) *world {
			w := begin(t, func(d *events.Definition) { d.AcquisitionsPerHour = 1 })
			w.do(leasecore.AcquireDone{Name: orders, Lease: 1, Err: went("down")})
			w.pass(time.Second)
			return w
		}, is(3599 * time.Second)},
		"nothing": {func(t *testing.T) *world {
			w := underway(t)
			w.defineAll(nil)
			w.do(w.revoked(1))
			return w
		}, is(0)},
	} {
		t.Run(what, func(t *testing.T) {
			w := c.story(t)
			w.wakes(c.in(w))
		})
	}
}

func is(d time.Duration) func(*world) time.Duration { return func(*world) time.Duration { return d } }
