package epochkv

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// How a scope was taken; it goes into the opening event.
type How string

// Ways to take a scope (E3). None of them excuses from the opening event.
const (
	HowFresh    How = "fresh"    // there was no cell
	HowOwn      How = "own"      // the cell was ours, at an epoch that was opened
	HowReleased How = "released" // its holder gave it back
	HowQuiet    How = "quiet"    // its holder was deposed or its incarnation is gone, or it was our own claim, never opened
)

// Claim is the outcome of a claim step.
type Claim struct {
	Epoch uint64 // the revision of our claim; 0: waiting
	How   How    // when claimed

	// When waiting:
	Holder     string        // who has it, as far as the cell says
	QuietPolls int           // how many observations found its token unmoved
	Next       time.Duration // when to step again; 0: now, the holder was just deposed
}

// Claimed tells whether the scope is ours.
func (cl Claim) Claimed() bool { return cl.Epoch != 0 }

// ClaimStep makes one step towards leading scope: one read, the holder's cell
// read at most once for all scopes, and at most one compare-and-set (E1).
// logEpoch is the last epoch opened in the log, read before this call and not
// again in this claim (P1); 0 when there is none.
//
// It returns *EpochBehind (E7), ErrNoHolder, ErrForeignCell (E16), ErrStale
// (renew first), ErrUnknownOutcome, ErrInFlight or ErrNotAuthorized. After any
// error but the first three, step again at the next heartbeat. A claim this
// process had of the scope is dropped first.
func (c *Cells) ClaimStep(ctx context.Context, scope string, logEpoch uint64) (Claim, error) {
	claim, err := c.claimStep(ctx, scope, logEpoch)
	if ferr := c.dir.flushAfter(c.cfg.now(), c.cfg.Heartbeat); ferr != nil {
		c.cfg.Logger.Error("the state directory can't be written: a restart will wait like a stranger", "error", ferr)
	}
	if err != nil {
		return Claim{}, fmt.Errorf("claiming scope %s: %w", scope, err)
	}
	return claim, nil
}

func (c *Cells) claimStep(ctx context.Context, scope string, logEpoch uint64) (Claim, error) {
	if err := checkScope(scope); err != nil {
		return Claim{}, err
	}
	c.Drop(scope)
	if err := c.FreshEnough(c.cfg.now()); err != nil {
		return Claim{}, err // who can't renew can't lead either
	}
	me, err := c.holder()
	if err != nil {
		return Claim{}, err
	}
	cell, rev, err := c.readScope(ctx, scope)
	absent := errors.Is(err, errNotFound)
	if err != nil && !absent {
		return Claim{}, err
	}
	switch {
	case absent:
		return c.take(ctx, scope, rev, logEpoch, me, HowFresh)
	case cell.Released:
		return c.take(ctx, scope, rev, logEpoch, me, HowReleased)
	case cell.Holder == c.id && c.dir.epoch(scope) == rev:
		return c.take(ctx, scope, rev, logEpoch, me, HowOwn)
	case cell.Holder == c.id && cell.Incarnation == me.incarnation:
		// A claim of this very process that it did not open: its answer was
		// lost, or the append. Nobody to wait for, but no clean hand-over.
		return c.take(ctx, scope, rev, logEpoch, me, HowQuiet)
	case cell.Holder == c.id: // claimed by us before a crash, its opening not known to be in the log (E8)
		return c.takeIfGone(ctx, scope, cell, rev, logEpoch, me)
	}

	w, err := c.watch(ctx, cell.Holder, cell.Incarnation, rev)
	if err != nil {
		return Claim{}, err
	}
	unlock := func() { <-w.lock }
	switch {
	case !w.there, w.cell.Incarnation != cell.Incarnation, w.cell.State == HolderStopped:
		unlock()
		return c.takeIfGone(ctx, scope, cell, rev, logEpoch, me)
	case w.cell.State == HolderDeposed:
		unlock() // a thousand scopes of a dead holder are taken side by side
		return c.take(ctx, scope, rev, logEpoch, me, HowQuiet)
	}
	defer unlock()
	waiting := Claim{Holder: cell.Holder, QuietPolls: c.dir.observed(holderPrefix + cell.Holder).QuietPolls, Next: c.next(w)}
	if !w.full {
		return waiting, nil
	}
	if err := c.depose(ctx, w); err != nil {
		return Claim{}, err
	}
	if w.cell.State == HolderDeposed {
		waiting.Next = 0
		c.hint(allScopes)
	} else {
		waiting.QuietPolls, waiting.Next = 0, c.cfg.Heartbeat
	}
	return waiting, nil
}

// takeIfGone waits the quiet polls for a cell whose incarnation has no live
// holder cell any more: its token is the scope cell's own revision, and there
// is nobody to depose. The same holder's next incarnation is faster when it
// may be ("own").
func (c *Cells) takeIfGone(ctx context.Context, scope string, cell ScopeCell, rev, logEpoch uint64, me holding) (Claim, error) {
	key := scopePrefix + scope
	if !c.observe(key, "gone:"+strconv.FormatUint(rev, 10)) {
		return Claim{Holder: cell.Holder, QuietPolls: c.dir.observed(key).QuietPolls, Next: c.cfg.Heartbeat}, nil
	}
	return c.take(ctx, scope, rev, logEpoch, me, HowQuiet)
}

// take is the compare-and-set that makes the scope ours, on the revision that
// was read in this step (E2, E6).
func (c *Cells) take(ctx context.Context, scope string, rev, logEpoch uint64, me holding, how How) (Claim, error) {
	if rev < logEpoch {
		if err := c.checkBehind(ctx, scope, logEpoch); err != nil {
			return Claim{}, err
		}
	}
	key := scopePrefix + scope
	epoch, err := c.put(ctx, key, rev, c.scopeCell(me))
	switch {
	case errors.Is(err, errRefused):
		c.stats.lostRaces.Add(1)
		c.dir.forget(key)
		return Claim{Next: c.cfg.Heartbeat}, nil
	case err != nil:
		return Claim{}, err
	case epoch <= logEpoch:
		return Claim{}, &EpochBehind{Scope: scope, Revision: epoch, LogEpoch: logEpoch}
	}
	c.dir.forget(key)
	c.stats.claims.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.me == nil || c.me.incarnation != me.incarnation { // fenced or stopped meanwhile: the cell is nobody's
		return Claim{}, ErrNoHolder
	}
	c.leases[scope] = epoch
	return Claim{Epoch: epoch, How: how}, nil
}

// checkBehind looks at the whole bucket when a scope's cell is older than the
// log's last epoch, or gone (E7). The cell alone decides nothing: it may have
// been deleted, and a read can be answered by an old leader. A bucket that is
// not above the log was recreated or restored.
func (c *Cells) checkBehind(ctx context.Context, scope string, logEpoch uint64) error {
	last, err := c.store.lastRevision(ctx)
	if err != nil {
		return err
	}
	if last < logEpoch {
		return &EpochBehind{Scope: scope, Revision: last + 1, LogEpoch: logEpoch}
	}
	return nil
}

// Opened notes that the opening event of a claimed epoch is known to be in the
// log: from now on a restarted process recognises the cell as its own (E3,
// E8). It is persisted at once, or with the next heartbeat when something was
// written less than one ago.
func (c *Cells) Opened(scope string, epoch uint64) error {
	if held := c.Held(scope); held != epoch || epoch == 0 {
		return fmt.Errorf("noting epoch %d of scope %s as opened: we hold %d: %w", epoch, scope, held, ErrNoHolder)
	}
	c.dir.setEpoch(scope, epoch)
	if err := c.dir.flushAfter(c.cfg.now(), c.cfg.Heartbeat); err != nil {
		return fmt.Errorf("noting epoch %d of scope %s as opened: %w", epoch, scope, err)
	}
	return nil
}

func (c *Cells) scopeCell(me holding) ScopeCell {
	return ScopeCell{
		Product: product, Holder: c.id, Incarnation: me.incarnation,
		Attempt: newID(), ClaimedAt: c.cfg.now().UTC(), Version: c.cfg.Version,
	}
}

// readScope reads a scope's cell from the stream's leader. errNotFound comes
// with the revision a create has to replace.
func (c *Cells) readScope(ctx context.Context, scope string) (ScopeCell, uint64, error) {
	var cell ScopeCell
	e, err := c.get(ctx, scopePrefix+scope)
	if err != nil {
		return cell, 0, err
	}
	if e.data == nil {
		return cell, e.revision, errNotFound
	}
	return cell, e.revision, decodeCell(scopePrefix+scope, e.data, &cell)
}
