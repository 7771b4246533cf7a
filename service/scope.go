package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasesvc/leasesvc/epochkv"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/service/metrics"
)

// scope is one scope's life in this instance: stand by, claim, catch up, lead,
// and stand by again.
type scope struct {
	svc  *Service
	name string
	log  *slog.Logger

	hints    chan struct{} // a claim step should come now
	follower *follower
	reads    *reads
	keys     atomic.Pointer[scopeKeys]
	pins     pins

	sure   bool        // the follower's last opened is the stream's; of the goroutine that stands by
	probed atomic.Bool // our seal key opens the scope's values
	// loss is what the log does not have; recovered is what an operator decided
	// about that, until the epoch that goes on is opened; known is the highest epoch
	// that was known of at the start.
	loss      *LossError
	recovered *epochkv.Recovery
	known     uint64
	trusted   uint64 // up to where the log counts without its MACs

	reload chan struct{} // the definitions file should be read again

	led atomic.Pointer[term] // as term, for readers

	savedAt atomic.Int64 // when we stored a snapshot last, nanoseconds since 1970
	sign    time.Time    // when its holder was last seen to be alive; of the goroutine that stands by

	mu      sync.Mutex
	saved   []uint64  // where the snapshots stand that we know of, the highest first
	term    *term     // nil: standing by
	holder  string    // who leads, as far as we know
	blocked error     // why we don't claim; nil: nothing is wrong
	said    scopeEcho // what our heartbeat says of it: as it is, or as we led it last
}

func newScope(s *Service, name string) *scope {
	sc := &scope{
		svc: s, name: name, log: s.log.With("scope", name),
		hints: make(chan struct{}, 1), reload: make(chan struct{}, 1), follower: newFollower(s, name),
	}
	sc.keys.Store(newScopeKeys(s.keys, nil))
	sc.reads = newReads(sc)
	return sc
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
		sc.follower.foreign.end()
		sc.svc.metrics.Ended(sc.name, endOf(ctx, err))
		sc.setTerm(nil)
		if ctx.Err() != nil {
			return sc.stoppedIn(err)
		}
		if err := sc.follower.giveBack(ctx, sc); err != nil {
			return nil // stopped while standing by: nothing is held
		}
		rest := restAfterFailure
		var fenced *journal.Fenced
		var deposed *epochkv.Fenced
		switch {
		case errors.Is(err, errShutDown):
			continue // standing by keeps off by itself
		case errors.Is(err, errSteppedDown):
			sc.log.Info("stepped down as asked: leaving the scope to others for a while", "for", restAfterStepDown.String())
			rest = restAfterStepDown
		case errors.As(err, &fenced), errors.As(err, &deposed):
			by := sc.fencedBy(ctx, err)
			sc.log.Error(by.Error()+"; standing by", "epoch", t.epoch, "cause", err)
			if sc.svc.cfg.ExitOnFence {
				return by
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

// endOf tells why a term ended, for the metrics.
func endOf(ctx context.Context, err error) string {
	var fenced *journal.Fenced
	var deposed *epochkv.Fenced
	switch {
	case errors.As(err, &fenced):
		return metrics.EndFenced
	case errors.As(err, &deposed), errors.Is(err, errDeposedOpening):
		return metrics.EndDeposed
	case errors.Is(err, errShutDown):
		return metrics.EndShutDown
	case errors.Is(err, errSteppedDown):
		return metrics.EndSteppedDown
	case ctx.Err() != nil:
		return metrics.EndStopped
	default:
		return metrics.EndFailed
	}
}

// stoppedIn says whether a term that ended while the process was being stopped ended
// in good order: given back, as asked before too, or somebody else's by then (E14).
func (sc *scope) stoppedIn(err error) error {
	var fenced *journal.Fenced
	var deposed *epochkv.Fenced
	switch {
	case err == nil, errors.Is(err, errSteppedDown), errors.Is(err, errShutDown):
		return nil
	case errors.As(err, &fenced), errors.As(err, &deposed):
		sc.log.Warn("the scope was somebody else's when it was to be given back", "error", err)
		return nil
	default:
		return fmt.Errorf("scope %s: %w", sc.name, err)
	}
}

// fencedBy tells by whom: the one who opened the scope last, if that can be read
// and was not ourselves.
func (sc *scope) fencedBy(ctx context.Context, cause error) *FencedError {
	by := &FencedError{Scope: sc.name, Cause: cause}
	ctx, cancel := context.WithTimeout(ctx, sc.svc.cfg.OperationTimeout.Duration())
	defer cancel()
	if last, err := sc.svc.journal.LastOpened(ctx, sc.name); err == nil && last != nil && last.Data() != nil {
		by.Epoch, by.Holder = last.Event.Epoch, last.Data().Holder
	}
	return by
}

// setTerm notes what we lead; who holds the scope is told anew after it.
func (sc *scope) setTerm(t *term) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.term, sc.holder = t, ""
	sc.led.Store(t)
}

func (sc *scope) block(err error) {
	sc.mu.Lock()
	changed := (sc.blocked == nil) != (err == nil) || err != nil && !sameTrouble(sc.blocked, err)
	sc.blocked = err
	sc.mu.Unlock()
	if changed && err != nil {
		sc.log.Error("not claiming the scope", "error", err)
	}
}

// sameTrouble tells whether two errors need to be told only once. That our
// renewals don't get through says how long ago the last one did, each time anew.
func sameTrouble(a, b error) bool {
	return a.Error() == b.Error() || errors.Is(a, epochkv.ErrStale) && errors.Is(b, epochkv.ErrStale)
}

// standBy steps towards a claim until the scope is ours and its epoch is
// opened. The error is ctx's, or one that ends the process.
func (sc *scope) standBy(ctx context.Context) (*term, error) {
	for {
		wait, began := sc.svc.cfg.Heartbeat.Duration(), time.Now()
		last, claim, err := sc.step(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			sc.block(err)
		case claim.Claimed():
			t, err := sc.openEpoch(ctx, last, claim)
			if err == nil {
				sc.block(nil)
				return t, nil
			}
			sc.svc.cells.Drop(sc.name)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			sc.block(err)
			sc.sure = false
			if err := sc.follower.giveBack(ctx, sc); err != nil {
				return nil, err
			}
		default:
			sc.block(nil)
			sc.noteHolder(claim.Holder)
			if claim.QuietPolls == 0 && claim.Next > 0 {
				sc.sign = time.Now()
			}
			wait = claim.Next
		}
		// Counted from when the step began: asking a holder that does not answer
		// takes its time.
		if err := sc.waitForStep(ctx, max(0, wait-time.Since(began))); err != nil {
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

// opening is the opened event that a claim was begun on.
type opening struct {
	seq, epoch uint64
	key        string // the seal key of that epoch
}

// step makes one claim step (P1): the last opened is read first, and never
// again in this claim. An instance that can't open the scope's values never
// claims.
func (sc *scope) step(ctx context.Context) (opening, epochkv.Claim, error) {
	down, err := sc.follower.shutDown(sc.svc.started)
	if loss := sc.lossOf(err); loss != nil {
		if err := sc.heedDecision(ctx, loss); err != nil {
			return opening{}, epochkv.Claim{}, err
		}
		down, err = sc.follower.shutDown(sc.svc.started)
	}
	var future *events.FutureError
	switch {
	case errors.As(err, &future):
		return opening{}, epochkv.Claim{}, &BehindError{Scope: sc.name, Release: sc.svc.opts.Version, Future: future}
	case err != nil:
		return opening{}, epochkv.Claim{}, err
	case down:
		return opening{}, epochkv.Claim{}, errLeftAlone
	}
	last, err := sc.lastOpened(ctx)
	if err != nil {
		return opening{}, epochkv.Claim{}, err
	}
	if err := sc.keys.Load().missing(sc.name); err != nil {
		if err := sc.reloadKeys(ctx, err); err != nil {
			return opening{}, epochkv.Claim{}, err
		}
	}
	if !sc.probed.Load() {
		if err := sc.svc.blobs.Probe(ctx, sc.svc.keys, sc.name); err != nil {
			return opening{}, epochkv.Claim{}, fmt.Errorf("probing the seal key: %w", err)
		}
		sc.probed.Store(true)
	}
	claim, err := sc.svc.cells.ClaimStep(ctx, sc.name, last.epoch)
	return last, claim, err
}

// lastOpened gives the last opened event: as the follower knows it, once that
// was seen to be right, so that standing by costs no request. If it is not the
// last any more the opening is refused, and the stream is asked again.
func (sc *scope) lastOpened(ctx context.Context) (opening, error) {
	followed := sc.follower.opened()
	if sc.sure {
		return followed, nil
	}
	opened, err := sc.svc.journal.LastOpened(ctx, sc.name)
	switch {
	case errors.Is(err, events.ErrEvent) && opened != nil:
		// Somebody else wrote under the subject: it is the fence all the same,
		// and it says nothing of an epoch.
		sc.log.Error("the last opened event is none that counts; claiming above it", "error", err)
		return opening{seq: opened.Seq, epoch: followed.epoch, key: followed.key}, nil
	case err != nil:
		return opening{}, err
	case opened == nil:
		return opening{}, nil
	}
	last := opening{seq: opened.Seq, epoch: opened.Event.Epoch, key: followed.key}
	if d := opened.Data(); sc.svc.keys.Has(d.SealKey) {
		last.key = d.SealKey
	}
	sc.sure = last == followed
	return last, nil
}

// openEpoch appends the opening event under the claim, on the expectation that the
// opened which was read before the claim is still the last, and folds the log
// up to and including it (P2). Nothing is served before that.
func (sc *scope) openEpoch(ctx context.Context, last opening, claim epochkv.Claim) (*term, error) {
	s := sc.svc
	if claim.How == epochkv.HowReleased {
		if err := sc.heedRelease(ctx); err != nil {
			return nil, err
		}
	}
	if by := sc.follower.aheadBy(); by > 0 {
		s.noteBehind(sc.log, time.Now().UTC().Add(by))
	}
	if err := sc.keepKey(ctx, last.key); err != nil && !(sc.recovered != nil && errors.Is(err, errNoOldKey)) {
		return nil, err
	}
	holder := s.cells.HolderID()
	ev := events.Event{
		ID: newID(), Scope: sc.name, Name: events.EpochName, Version: sc.follower.formats().Of(events.TypeOpened), Epoch: claim.Epoch, Time: s.clock.Now(), Actor: events.Service(holder),
		Data: &events.Opened{Holder: holder, How: string(claim.How), Attempt: newID(), SealKey: s.keys.ID(), StreamCreated: s.journal.Created().UTC()},
	}
	if claim.How == epochkv.HowQuiet { // it may have been deposed in error (E22)
		ev.Data.(*events.Opened).Overlap = events.FromDuration(s.cells.QuietWindow())
	}
	if sc.recovered != nil {
		opened := ev.Data.(*events.Opened)
		opened.How, opened.Found, opened.Lost = events.HowRecovered, told(sc.recovered.Found), told(sc.recovered.Lost)
		ev.Actor = events.Actor{Name: "operator/recover", Claimed: true}
	}
	sign := sc.follower.lastSign(string(claim.How))
	ring := sc.keys.Load().mac
	ring.Endorse(&ev, last.key)
	chain := events.NewChainUnder(ring)
	payload, err := chain.Seal(&ev)
	if err != nil {
		return nil, err
	}
	fence, err := s.journal.AppendOpened(ctx, payload, ev, last.seq)
	if err != nil {
		return nil, fmt.Errorf("opening epoch %d: %w", claim.Epoch, err)
	}
	p, ahead, stored := sc.follower.takeAt(ctx, fence)
	err = s.journal.Replay(ctx, sc.name, p.LastSeq()+1, fence, func(m journal.Message) error {
		stored = m.Stored
		return fold(p, ahead, m)
	})
	if err != nil {
		return nil, fmt.Errorf("folding the log up to our epoch %d: %w", claim.Epoch, err)
	}
	if head := p.State().Head; head.Fence != fence || head.Epoch != claim.Epoch {
		return nil, fmt.Errorf("folding the log up to our epoch %d: it ends in epoch %d", claim.Epoch, head.Epoch)
	}
	s.noteBehind(sc.log, stored.Add(ahead.live(p.State())))
	if n, recent := p.Skipped(); n > 0 {
		sc.log.Error("events in the log do not count", "skipped", n, "last", recent[len(recent)-1].Why)
	}
	ev.Seq = fence
	s.metrics.Opened(sc.name, ev.Data.(*events.Opened).How, sc.without(claim.How, sign))
	sc.tellEvent(&ev)
	if last.key != "" && last.key != s.keys.ID() {
		sc.log.Warn("the seal key was changed: from this epoch on another one is in force", "before", last.key, "seal_key", s.keys.ID())
	}
	sc.log.Info("leading", "epoch", claim.Epoch, "how", string(claim.How), "fence", fence, "names", p.State().Len())
	t := newTerm(sc, p, claim.Epoch, fence)
	t.startAnew = sc.recovered != nil && sc.recovered.Anew
	sc.recovered = nil
	return t, nil
}

// without tells for how long nobody led the scope, now that we do: from the last
// sign of who led it before. Below 0: nobody did.
func (sc *scope) without(how epochkv.How, sign time.Time) time.Duration {
	if how == epochkv.HowQuiet && sc.sign.After(sign) {
		sign = sc.sign // as exact as a heartbeat
	}
	if sign.IsZero() || how == epochkv.HowFresh {
		return -1
	}
	return max(0, sc.svc.clock.Now().Sub(sign))
}

// maxTold bounds what of a recovery stands in the log.
const maxTold = 100

func told(all []string) []string {
	if len(all) <= maxTold {
		return all
	}
	return append(slices.Clone(all[:maxTold-1]), fmt.Sprintf("and %d more", len(all)-maxTold+1))
}

// heedWait is how long a claim of a released scope waits for the release to be
// fed, which was in the log before the scope could be claimed.
const heedWait = 5 * time.Second

// heedRelease looks, before a scope that was given back is opened, at how it was:
// the follower may be behind the cell, and what was shut down by hand is left
// alone (L48).
func (sc *scope) heedRelease(ctx context.Context) error {
	seq, err := sc.svc.journal.LastReleased(ctx, sc.name)
	if err != nil {
		return err
	}
	if !sc.follower.caughtUp(ctx, seq, heedWait) {
		return fmt.Errorf("the release at sequence %d was not read within %s", seq, heedWait)
	}
	down, err := sc.follower.shutDown(sc.svc.started)
	if err == nil && down {
		if err = sc.svc.cells.Release(ctx, sc.name); err == nil {
			err = errLeftAlone
		}
	}
	return err
}

// tellEvent says an event of ours to the log and to who listens.
func (sc *scope) tellEvent(e *events.Event) {
	sc.svc.metrics.Applied(e)
	sc.log.Log(context.Background(), levelOf(e), "event", "seq", e.Seq, "epoch", e.Epoch, "name", e.Name, "lease", e.Lease, "type", string(e.Type()), "says", events.Sentence(e))
	tellOddity(sc.log, e)
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
