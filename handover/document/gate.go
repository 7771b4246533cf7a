package document

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

var (
	// ErrBusy says that an update waited its time: for an install of a lease that
	// it refers to, or for its turn. Try it again (L43).
	ErrBusy = errors.New("it took too long")
	// ErrOwnHandover says that an update comes from a consumer of the running
	// hand-over it would have to wait for, which waits for that consumer (L43).
	ErrOwnHandover = errors.New("a consumer of a running hand-over can't update a document that refers to its lease; answer the hand-over first")
	// ErrLifecycleEnded says that the epoch under which the documents were
	// loaded is over (L43, L47): somebody else leads, or will.
	ErrLifecycleEnded = errors.New("the lifecycle has ended")
	// ErrInFlight says that an install of the lease is in flight already (L5).
	ErrInFlight = errors.New("an install of the lease is in flight already")
)

// Gate keeps updates of documents and installs of the leases they refer to apart
// (L43). One gate stands for one lifecycle: an instance's epoch of a scope.
type Gate struct {
	wait time.Duration

	mu      sync.Mutex
	running map[string]*Running
	ended   bool
	changed chan struct{} // closed and replaced whenever an answer may differ
}

// NewGate makes a gate at which an update waits at most wait, the time for its
// turn at the store included.
func NewGate(wait time.Duration) *Gate {
	return &Gate{wait: wait, running: map[string]*Running{}, changed: make(chan struct{})}
}

// Running is an install in flight. Its owner must call [Running.End].
type Running struct {
	gate      *Gate
	lease     string
	consumers map[string]bool // guarded by gate.mu
}

// Begin says that an install of a lease is in flight from now on:
// [ErrInFlight], [ErrLifecycleEnded].
func (g *Gate) Begin(lease string) (*Running, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.ended:
		return nil, fmt.Errorf("installing %s: %w", lease, ErrLifecycleEnded)
	case g.running[lease] != nil:
		return nil, fmt.Errorf("installing %s: %w", lease, ErrInFlight)
	}
	r := &Running{gate: g, lease: lease, consumers: map[string]bool{}}
	g.running[lease] = r
	g.tell()
	return r, nil
}

// Join says that a consumer takes part in the hand-over, from before it is
// asked. An update of its that waits already is refused.
func (r *Running) Join(consumer string) {
	r.gate.mu.Lock()
	defer r.gate.mu.Unlock()
	r.consumers[consumer] = true
	r.gate.tell()
}

// End says that the install is over. It may be called more than once.
func (r *Running) End() {
	r.gate.mu.Lock()
	defer r.gate.mu.Unlock()
	if r.gate.running[r.lease] == r {
		delete(r.gate.running, r.lease)
		r.gate.tell()
	}
}

// End ends the lifecycle: who waits is refused at once, and so is everybody who
// comes later. It may be called more than once.
func (g *Gate) End() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
	g.tell()
}

// tell wakes all who wait. Called with mu held.
func (g *Gate) tell() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// Ended tells whether the lifecycle is over.
func (g *Gate) Ended() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ended
}

// Wait returns nil when no install of any of the leases is in flight. It waits
// for that as long as the gate allows ([ErrBusy]) and ctx lasts (its error). It
// refuses at once, [ErrOwnHandover], what comes from a consumer of such an
// install, and [ErrLifecycleEnded]. Consumer is empty for everybody else.
func (g *Gate) Wait(ctx context.Context, consumer string, leases []string) error {
	patience := time.NewTimer(g.wait)
	defer patience.Stop()
	return g.waitFor(ctx, patience.C, consumer, leases)
}

func (g *Gate) waitFor(ctx context.Context, patience <-chan time.Time, consumer string, leases []string) error {
	for {
		changed, lease, err := g.look(consumer, leases)
		if err != nil || changed == nil {
			return err
		}
		select {
		case <-changed:
		case <-patience:
			return fmt.Errorf("waiting for the install of %s: %w", lease, ErrBusy)
		case <-ctx.Done():
			return fmt.Errorf("waiting for the install of %s: %w", lease, context.Cause(ctx))
		}
	}
}

// look tells whether the gate is open to somebody: changed is nil when it is,
// else it is closed when it is worth looking again, and lease is in the way.
func (g *Gate) look(consumer string, leases []string) (changed <-chan struct{}, lease string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return nil, "", ErrLifecycleEnded
	}
	inFlight := slices.DeleteFunc(slices.Clone(leases), func(l string) bool { return g.running[l] == nil })
	for _, l := range inFlight {
		if consumer != "" && g.running[l].consumers[consumer] {
			return nil, l, fmt.Errorf("an install of %s is in flight: %w", l, ErrOwnHandover)
		}
	}
	if len(inFlight) == 0 {
		return nil, "", nil
	}
	return g.changed, inFlight[0], nil
}
