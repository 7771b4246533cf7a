package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/leasesvc/leasesvc/epochkv"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/projector"
)

// scope is one scope's life in this instance: stand by, claim, catch up, lead,
// and stand by again.
type scope struct {
	svc  *Service
	name string
	log  *slog.Logger

	hints  chan struct{} // a claim step should come now
	reload chan struct{} // the definitions file should be read again

	mu      sync.Mutex
	term    *term  // nil: standing by
	holder  string // who leads, as far as we know
	blocked error  // why we don't claim; nil: nothing is wrong
}

func newScope(s *Service, name string) *scope {
	return &scope{svc: s, name: name, log: s.log.With("scope", name), hints: make(chan struct{}, 1), reload: make(chan struct{}, 1)}
}

// errDeposedOpening says that the claim was lost while its epoch was opened.
var errDeposedOpening = errors.New("deposed while the epoch was being opened")

// errLeftAlone says why a scope that was shut down is not claimed.
var errLeftAlone = errors.New("the scope was shut down by hand and all its leases revoked; restart an instance to lead it again")

// hint has the next claim step happen now.
func (sc *scope) hint() {
	select {
	case sc.hints <- struct{}{}:
	default:
	}
}

// depose ends the term in force, if there is one.
func (sc *scope) depose(why error) {
	sc.mu.Lock()
	t := sc.term
	sc.mu.Unlock()
	if t != nil {
		t.end(why)
	}
}

// restAfterFailure is how long a scope that ended for a failure of ours is left
// to others before we claim it again.
const (
	restAfterFailure  = 2 * time.Second
	restAfterStepDown = 5 * time.Second
)

// run lives until ctx ends; base carries what serves the stopping.
func (sc *scope) run(ctx, base context.Context) error {
	for {
		t, err := sc.standBy(ctx)
		if err != nil {
			return err
		}
		sc.setTerm(t)
		if sc.svc.cells.Held(sc.name) != t.epoch {
			t.end(errDeposedOpening) // before there was a term to end
		}
		err = t.lead(ctx, base)
		sc.setTerm(nil)
		if ctx.Err() != nil {
			return nil
		}
		rest := restAfterFailure
		var fenced *journal.Fenced
		var deposed *epochkv.Fenced
		switch {
		case errors.Is(err, errShutDown):
			continue // standing by keeps off by itself
		case errors.Is(err, errSteppedDown):
			rest = restAfterStepDown
		case errors.As(err, &fenced), errors.As(err, &deposed):
			sc.log.Error("fenced: standing by", "epoch", t.epoch, "error", err)
			if sc.svc.cfg.ExitOnFence {
				return &FencedError{Scope: sc.name, Cause: err}
			}
			continue
		default:
			sc.log.Error("stepped down: standing by", "epoch", t.epoch, "error", err)
		}
		if err := pause(ctx, rest); err != nil {
			return nil
		}
	}
}

func (sc *scope) setTerm(t *term) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.term = t
}

func (sc *scope) block(err error) {
	sc.mu.Lock()
	changed := (sc.blocked == nil) != (err == nil) || err != nil && sc.blocked.Error() != err.Error()
	sc.blocked = err
	sc.mu.Unlock()
	if changed && err != nil {
		sc.log.Error("not claiming the scope", "error", err)
	}
}

// follower folds the log as it grows, so that a takeover costs one claim and
// one append, not a replay.
type follower struct {
	mu         sync.Mutex // what follows, while following
	projection *projector.Projection
	ahead      skews
	cancel     context.CancelFunc
	done       chan error
}

func (sc *scope) follow(ctx context.Context) *follower {
	ctx, cancel := context.WithCancel(ctx)
	f := &follower{projection: projector.New(sc.name, sc.svc.keys.MACKey()), ahead: skews{}, cancel: cancel, done: make(chan error, 1)}
	go func() {
		f.done <- sc.svc.journal.Follow(ctx, sc.name, f.projection.LastSeq()+1, func(m journal.Message) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.fold(m)
		})
	}()
	return f
}

// fold looks at one message of the log.
func (f *follower) fold(m journal.Message) error {
	e, err := f.projection.Apply(m.Seq, m.Payload)
	if e != nil {
		f.ahead.note(e, m.Stored)
	}
	return err
}

// shutDown tells whether the scope was shut down by hand since our start; and
// what stopped the projection, if anything did.
func (f *follower) shutDown(started time.Time) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := &f.projection.State().Head
	return h.Shutdown && h.ReleasedAt.After(started), f.projection.Stopped()
}

// stop ends following; what was followed is the caller's from then on.
func (f *follower) stop() *follower {
	f.cancel()
	<-f.done
	return f
}

// standBy follows the log and steps towards a claim until the scope is ours and
// its epoch is opened. The error is ctx's, or one that ends the process.
func (sc *scope) standBy(ctx context.Context) (*term, error) {
	f := sc.follow(ctx)
	running := true
	defer func() {
		if running {
			f.stop()
		}
	}()
	for {
		wait := sc.svc.cfg.Heartbeat.Duration()
		opened, claim, err := sc.step(ctx, f)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			sc.block(err)
		case claim.Claimed():
			running = false
			t, err := sc.open(ctx, f.stop(), opened, claim)
			if err == nil {
				sc.block(nil)
				return t, nil
			}
			sc.svc.cells.Drop(sc.name)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			sc.block(err)
			f = sc.follow(ctx)
			running = true
		default:
			sc.block(nil)
			sc.noteHolder(claim.Holder)
			wait = claim.Next
		}
		if err := sc.waitForStep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

func (sc *scope) noteHolder(holder string) {
	sc.mu.Lock()
	changed := sc.holder != holder
	sc.holder = holder
	sc.mu.Unlock()
	if changed && holder != "" {
		sc.log.Info("standing by", "holder", holder)
	}
}

func (sc *scope) waitForStep(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-sc.hints:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// step makes one claim step (P1): the last opened is read first, and never
// again in this claim. An instance that can't open the scope's values never
// claims.
func (sc *scope) step(ctx context.Context, f *follower) (*journal.Opened, epochkv.Claim, error) {
	if down, err := f.shutDown(sc.svc.started); err != nil {
		return nil, epochkv.Claim{}, err
	} else if down {
		return nil, epochkv.Claim{}, errLeftAlone
	}
	opened, err := sc.svc.journal.LastOpened(ctx, sc.name)
	if errors.Is(err, events.ErrEvent) && opened != nil {
		// Somebody else wrote under the subject: it is the fence all the same,
		// and it says nothing of an epoch.
		sc.log.Error("the last opened event is none that counts; claiming above it", "error", err)
	} else if err != nil {
		return nil, epochkv.Claim{}, err
	}
	if err := sc.svc.blobs.Probe(ctx, sc.svc.keys, sc.name); err != nil {
		return nil, epochkv.Claim{}, fmt.Errorf("probing the seal key: %w", err)
	}
	var epoch uint64
	if opened != nil {
		epoch = opened.Event.Epoch
	}
	claim, err := sc.svc.cells.ClaimStep(ctx, sc.name, epoch)
	return opened, claim, err
}

// open appends the opening event under the claim, on the expectation that the
// opened which was read before the claim is still the last, and folds the log
// up to and including it (P2). Nothing is served before that.
func (sc *scope) open(ctx context.Context, f *follower, last *journal.Opened, claim epochkv.Claim) (*term, error) {
	p := f.projection
	if err := p.Stopped(); err != nil {
		return nil, err
	}
	s := sc.svc
	var expect uint64
	if last != nil {
		expect = last.Seq
	}
	if ahead := f.ahead.live(p.State()); ahead > 0 {
		s.noteBehind(sc.log, time.Now().UTC().Add(ahead))
	}
	holder := s.cells.HolderID()
	ev := events.Event{
		ID: newID(), Scope: sc.name, Name: events.EpochName, Epoch: claim.Epoch, Time: s.clock.Now(), Actor: events.Service(holder),
		Data: &events.Opened{Holder: holder, How: string(claim.How), Attempt: newID(), SealKey: s.keys.ID(), StreamCreated: s.journal.Created().UTC()},
	}
	chain := events.NewChain(s.keys.MACKey())
	payload, err := chain.Seal(&ev)
	if err != nil {
		return nil, err
	}
	fence, err := s.journal.AppendOpened(ctx, payload, ev, expect)
	if err != nil {
		return nil, fmt.Errorf("opening epoch %d: %w", claim.Epoch, err)
	}
	var stored time.Time
	err = s.journal.Replay(ctx, sc.name, p.LastSeq()+1, fence, func(m journal.Message) error {
		stored = m.Stored
		return f.fold(m)
	})
	if err != nil {
		return nil, fmt.Errorf("folding the log up to our epoch %d: %w", claim.Epoch, err)
	}
	if head := p.State().Head; head.Fence != fence || head.Epoch != claim.Epoch {
		return nil, fmt.Errorf("folding the log up to our epoch %d: it ends in epoch %d", claim.Epoch, head.Epoch)
	}
	s.noteBehind(sc.log, stored.Add(f.ahead.live(p.State())))
	if err := s.cells.Opened(sc.name, claim.Epoch); err != nil {
		return nil, err
	}
	if n, recent := p.Skipped(); n > 0 {
		sc.log.Error("events in the log do not count", "skipped", n, "last", recent[len(recent)-1].Why)
	}
	ev.Seq = fence
	sc.tellEvent(&ev)
	sc.log.Info("leading", "epoch", claim.Epoch, "how", string(claim.How), "fence", fence, "names", p.State().Len())
	return newTerm(sc, p, claim.Epoch, fence), nil
}

// tellEvent says an event of ours to the log and to who listens.
func (sc *scope) tellEvent(e *events.Event) {
	sc.log.Info("event", "seq", e.Seq, "epoch", e.Epoch, "name", e.Name, "lease", e.Lease, "type", string(e.Type()), "says", events.Sentence(e))
	if sc.svc.opts.OnEvent != nil {
		sc.svc.opts.OnEvent(*e)
	}
}

// noteBehind keeps our clock from running behind the server's, or behind the
// clock that the leases in the log were stamped by.
func (s *Service) noteBehind(log *slog.Logger, t time.Time) {
	if behind := s.clock.AtLeast(t); behind > tolerated {
		log.Warn("our clock is behind the one that the leases were stamped by and was set ahead", "by", behind.String())
	}
}

// echo is what the heartbeat carries of what this instance is doing (E13), from
// memory alone.
func (s *Service) echo() []byte {
	type scopeEcho struct {
		Epoch   uint64 `json:"epoch"`
		LastSeq uint64 `json:"last_seq"`
		Names   int    `json:"names"`
	}
	out := struct {
		Version  string               `json:"version"`
		Protocol int                  `json:"protocol"`
		Scopes   map[string]scopeEcho `json:"scopes"`
	}{s.opts.Version, 1, map[string]scopeEcho{}}
	for name, sc := range s.scopes {
		sc.mu.Lock()
		if t := sc.term; t != nil {
			out.Scopes[name] = scopeEcho{Epoch: t.epoch, LastSeq: t.lastSeq.Load(), Names: int(t.names.Load())}
		}
		sc.mu.Unlock()
	}
	b, err := json.Marshal(out)
	if err != nil {
		return nil
	}
	return b
}
