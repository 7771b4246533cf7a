package vault

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// Circuit tells how a connection is.
type Circuit struct {
	// Out: the server can't be reached or does not serve. Calls fail at once,
	// without a request, until a probe succeeds.
	Out bool
	// Kind is why it is out.
	Kind Kind
	// Since is when it went out, NextProbe when a call may try again.
	Since, NextProbe time.Time
	// Probes is how many failed since it went out.
	Probes int
	// PausedUntil is the end of a pause that the server asked for with a 429;
	// zero when there is none.
	PausedUntil time.Time
	// Waiting and InFlight count calls.
	Waiting, InFlight int
}

// verdict is what the end of a call says of the server.
type verdict uint8

const (
	saysNothing verdict = iota // the caller went, or nothing was sent
	saysAlive                  // it answered for itself, a refusal included
	saysDoubt                  // a 500, a time-out, a lost connection: of one path, or of all
	saysOut                    // no connection, sealed, standing by, a gateway without a server
)

// A server is out when doubts follow each other without an answer between them,
// and are about so many mounts, or about a mount and what the server does itself
// (tokens): an engine whose database is down never gets there, however many
// leases it fails for (C39, C45).
const (
	doubtsOut      = 6
	doubtfulMounts = 3
)

// outcome is the end of a call.
type outcome struct {
	verdict    verdict
	kind       Kind
	retryAfter time.Duration
	mount      string // what it was about, to tell one failing engine from all
}

// pass lets a call through, or says why not.
type pass struct {
	lane   *lane
	gen    uint64
	probe  bool     // the call finds out whether the server is back
	denied *refusal // nothing may be sent
}

// refusal is why the gate lets nothing through.
type refusal struct {
	kind  Kind
	since time.Time // of the outage; zero when there is none
	wait  time.Duration
	ctx   error // the caller's context ended
}

// gate is a connection's circuit, its bounds and its order of urgency.
//
// Invariants, under mu: while out, at most one call is in flight that was
// admitted since it went out, the probe. inFlight <= InFlight and
// lane.inFlight <= PerMount, vital calls and the probe aside. gen changes when
// it goes out and when it comes back, and a call's end only counts in the
// generation that let it through: what was sent before an outage does not end
// the recovery after it.
type gate struct {
	limits Limits
	moved  func(Circuit) // told of changes, without mu
	news   chan struct{} // the circuit changed; for Run

	mu       sync.Mutex
	queue    queue
	inFlight int
	gen      uint64

	out       bool
	kind      Kind
	since     time.Time
	nextProbe time.Time
	failed    int // probes that failed; kept over a recovery that proved nothing
	probing   bool
	doubts    int
	doubtful  map[string]bool

	pausedUntil time.Time
	recovered   time.Time // when the last outage ended; zero: the recovery is over
	tokens      float64
	filled      time.Time

	alarm   *time.Timer // dispatches when a rate or a pause lets the next call go
	stopped bool
}

func newGate(limits Limits, moved func(Circuit)) *gate {
	return &gate{limits: limits, moved: moved, news: make(chan struct{}, 1), queue: queue{lanes: map[string]*lane{}}, doubtful: map[string]bool{}}
}

// enter waits for the call's turn. The caller must leave with the pass unless
// it was denied.
func (g *gate) enter(ctx context.Context, a ask) pass {
	g.mu.Lock()
	now := time.Now()
	if r := g.refuses(now); r != nil {
		g.mu.Unlock()
		return pass{denied: r}
	}
	w := g.queue.add(a)
	g.dispatch(now)
	g.mu.Unlock()
	select {
	case p := <-w.ready:
		return p
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.at >= 0 {
		g.queue.remove(w)
		g.queue.forget(w.lane)
		return pass{denied: &refusal{ctx: ctx.Err()}}
	}
	p := <-w.ready // its turn came in the same moment
	if p.denied == nil {
		g.end(p, outcome{}, time.Now())
		g.dispatch(time.Now())
	}
	return pass{denied: &refusal{ctx: ctx.Err()}}
}

// refuses tells at once what need not wait.
func (g *gate) refuses(now time.Time) *refusal {
	switch {
	case g.out && !g.probing && now.Before(g.nextProbe):
		return &refusal{kind: g.kind, since: g.since, wait: g.nextProbe.Sub(now)}
	case g.pausedUntil.Sub(now) > pauseWait:
		return &refusal{kind: KindQuota, wait: g.pausedUntil.Sub(now)}
	case g.queue.size >= g.limits.Waiting:
		return &refusal{kind: KindQuota, wait: time.Second}
	}
	return nil
}

// leave ends a call.
func (g *gate) leave(p pass, o outcome) {
	g.mu.Lock()
	now := time.Now()
	was := g.out
	g.end(p, o, now)
	g.dispatch(now)
	changed := was != g.out
	status := g.status()
	g.mu.Unlock()
	if !changed {
		return
	}
	select {
	case g.news <- struct{}{}:
	default: // Run has not looked at the last one yet
	}
	g.moved(status)
}

func (g *gate) end(p pass, o outcome, now time.Time) {
	g.inFlight--
	p.lane.inFlight--
	g.queue.forget(p.lane)
	if until := now.Add(o.retryAfter); o.retryAfter > 0 && until.After(g.pausedUntil) {
		g.pausedUntil = until
	}
	switch {
	case p.probe:
		g.probing = false
		g.endProbe(o, now)
	case p.gen != g.gen:
	case o.verdict == saysOut:
		g.goOut(o.kind, now)
	case o.verdict == saysDoubt:
		g.doubts++
		if len(g.doubtful) < doubtfulMounts {
			g.doubtful[o.mount] = true
		}
		if g.doubts >= doubtsOut && g.allAreDoubtful() {
			g.goOut(o.kind, now)
		}
	case o.verdict == saysAlive:
		g.failed = 0
		g.trust()
	}
}

func (g *gate) allAreDoubtful() bool {
	itself := g.doubtful[""] || g.doubtful["auth"] || g.doubtful["sys"]
	return len(g.doubtful) >= doubtfulMounts || itself && len(g.doubtful) > 1
}

func (g *gate) trust() {
	g.doubts = 0
	clear(g.doubtful)
}

func (g *gate) goOut(kind Kind, now time.Time) {
	g.out, g.kind, g.since = true, kind, now
	g.gen++
	g.trust()
	g.plan(now)
}

// plan sets when the next probe may go.
func (g *gate) plan(now time.Time) {
	wait := min(g.limits.ProbeFirst<<min(g.failed, 20), g.limits.ProbeLast)
	if wait <= 0 {
		wait = g.limits.ProbeLast
	}
	g.nextProbe = now.Add(wait + time.Duration((rand.Float64()-0.5)*0.4*float64(wait)))
}

func (g *gate) endProbe(o outcome, now time.Time) {
	switch o.verdict {
	case saysNothing: // its caller went: the next one probes
	case saysOut:
		g.failed++
		g.kind = o.kind
		g.plan(now)
	case saysDoubt: // the server is there; whether this path is all of it will show
		g.failed++
		g.comeBack(now)
	case saysAlive:
		g.failed = 0
		g.comeBack(now)
	}
}

func (g *gate) comeBack(now time.Time) {
	g.out, g.kind, g.since, g.nextProbe = false, KindNone, time.Time{}, time.Time{}
	g.gen++
	g.recovered, g.filled, g.tokens = now, now, 1
}

// dispatch lets go what may, most urgent first.
func (g *gate) dispatch(now time.Time) {
	for g.queue.size > 0 {
		if g.out {
			if g.probing {
				return
			}
			if now.Before(g.nextProbe) {
				g.denyAll(refusal{kind: g.kind, since: g.since, wait: g.nextProbe.Sub(now)})
				return
			}
			g.probing = true
			g.admit(g.queue.first(int(^uint(0)>>1)), pass{probe: true})
			continue
		}
		if pause := g.pausedUntil.Sub(now); pause > pauseWait {
			g.denyAll(refusal{kind: KindQuota, wait: pause})
			return
		} else if pause > 0 && !g.stopped {
			g.wake(pause)
			return
		}
		w := g.queue.first(g.limits.PerMount)
		if w == nil || !w.ask.vital && g.inFlight >= g.limits.InFlight {
			return // the end of a call comes here again
		}
		if !w.ask.vital && !g.stopped {
			if wait := g.take(now); wait > 0 {
				g.wake(wait)
				return
			}
		}
		g.admit(w, pass{})
	}
}

func (g *gate) admit(w *waiter, p pass) {
	g.queue.remove(w)
	g.inFlight++
	w.lane.inFlight++
	p.lane, p.gen = w.lane, g.gen
	w.ready <- p
}

func (g *gate) denyAll(r refusal) {
	for _, l := range g.queue.lanes {
		for _, w := range l.waiting {
			w.at = -1
			w.ready <- pass{denied: &r}
		}
		l.waiting = nil
		g.queue.forget(l)
	}
	g.queue.size = 0
}

// take takes one request from the rate, or tells how long until there is one.
func (g *gate) take(now time.Time) time.Duration {
	rate := g.limits.Rate
	if !g.recovered.IsZero() {
		steps := int(now.Sub(g.recovered) / recoveryDoubles)
		if steps >= recoverySteps {
			g.recovered = time.Time{}
		} else if slow := g.limits.RecoveryRate * float64(int(1)<<steps); rate == 0 || slow < rate {
			rate = slow
		}
	}
	if rate == 0 {
		return 0
	}
	burst := max(1, rate/10)
	if g.filled.IsZero() {
		g.tokens = burst
	} else {
		g.tokens = min(burst, g.tokens+now.Sub(g.filled).Seconds()*rate)
	}
	g.filled = now
	if g.tokens < 1 {
		return time.Duration((1 - g.tokens) / rate * float64(time.Second))
	}
	g.tokens--
	return 0
}

// wake has dispatch run again after wait.
func (g *gate) wake(wait time.Duration) {
	wait = max(wait, time.Millisecond)
	if g.alarm == nil {
		g.alarm = time.AfterFunc(wait, g.ring)
		return
	}
	g.alarm.Reset(wait)
}

func (g *gate) ring() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.stopped {
		g.dispatch(time.Now())
	}
}

// stop ends the waiting of all; a call that comes later waits for no rate and no
// short pause.
func (g *gate) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopped = true
	if g.alarm != nil {
		g.alarm.Stop()
	}
	g.denyAll(refusal{kind: KindCanceled})
}

// status tells how things are, under mu.
func (g *gate) status() Circuit {
	c := Circuit{Out: g.out, Kind: g.kind, Since: g.since, NextProbe: g.nextProbe, Waiting: g.queue.size, InFlight: g.inFlight}
	if g.out {
		c.Probes = g.failed
	}
	if time.Now().Before(g.pausedUntil) {
		c.PausedUntil = g.pausedUntil
	}
	return c
}
