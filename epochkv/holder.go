package epochkv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// startTries bounds how often StartHolder starts over because a write of the
// process before, or of a deposer, landed in between.
const startTries = 8

// maxEcho bounds an echo, in bytes: it is sent every heartbeat.
const maxEcho = 64 << 10

// holding is our live holder cell.
type holding struct {
	incarnation string
	token       uint64    // its revision, as last acknowledged
	sent        time.Time // when its last successful renewal was sent, on both clocks (E21)
	echo        []byte    // what it said last
}

// StartHolder writes our holder cell for a new incarnation: the process before
// is dead (E5), or we were fenced. It forgets every claim of this process. On
// an error there is no live holder cell and nothing can be claimed; call it
// again.
func (c *Cells) StartHolder(ctx context.Context) error {
	if err := acquire(ctx, c.holding); err != nil {
		return fmt.Errorf("starting the holder: %w", err)
	}
	defer func() { <-c.holding }()

	c.mu.Lock()
	c.me = nil
	clear(c.leases)
	c.mu.Unlock()
	created, err := c.store.created(ctx)
	c.noteAuthorization(err, read)
	if err != nil {
		return fmt.Errorf("starting the holder: %w", err)
	}
	c.bindBucket(created)

	me := &holding{incarnation: newID()}
	for range startTries {
		if err = c.writeFirst(ctx, me); err == nil {
			break
		}
		if !errors.Is(err, errRefused) && !errors.Is(err, ErrInFlight) {
			break
		}
		if werr := wait(ctx, c.cfg.Heartbeat/4); werr != nil {
			err = errors.Join(werr, err)
			break
		}
	}
	if err != nil {
		return fmt.Errorf("starting the holder: %w", err)
	}
	c.mu.Lock()
	c.me, c.fence = me, nil
	c.mu.Unlock()
	return c.dir.flush(c.cfg.now())
}

// writeFirst puts our cell in the place of whatever is there.
func (c *Cells) writeFirst(ctx context.Context, me *holding) error {
	key := holderPrefix + c.id
	old, err := c.get(ctx, key)
	if err != nil && !errors.Is(err, errNotFound) {
		return err
	}
	// What our incarnation before said last stays until we say more: the log is
	// held to it.
	var before HolderCell
	if old.data != nil && decodeCell(key, old.data, &before) == nil {
		me.echo = before.Echo
	}
	sent := c.cfg.now()
	rev, err := c.put(ctx, key, old.revision, c.liveCell(me, me.echo))
	if err != nil {
		return err
	}
	me.token, me.sent = rev, sent
	return nil
}

func (c *Cells) liveCell(me *holding, echo json.RawMessage) HolderCell {
	return HolderCell{
		Product: product, Holder: c.id, Incarnation: me.incarnation, Instance: c.cfg.Instance,
		State: HolderLive, Attempt: newID(), WrittenAt: c.cfg.now().UTC(), Version: c.cfg.Version, Echo: echo,
	}
}

// Renew moves our token and carries the echo, a JSON value computed from local
// state only; nil clears the one before (E10, E13). Call it each heartbeat.
//
// It returns *Fenced when we were deposed: then every claim is dropped already
// and all effects must stop (E11). Any other error leaves us the holder, as
// far as we know: ErrUnknownOutcome, ErrInFlight, ErrNotAuthorized (E12), or a
// store that does not answer; call again at the next heartbeat. After a fence
// it returns ErrNoHolder, wrapping that *Fenced, until StartHolder.
func (c *Cells) Renew(ctx context.Context, echo []byte) error {
	if err := acquire(ctx, c.holding); err != nil {
		return fmt.Errorf("renewing: %w", err)
	}
	defer func() { <-c.holding }()
	me, err := c.holder()
	if err != nil {
		return fmt.Errorf("renewing: %w", err)
	}
	if len(echo) > maxEcho || (len(echo) > 0 && !json.Valid(echo)) {
		c.cfg.Logger.Warn("echo left out of the renewal: not JSON or too long", "bytes", len(echo), "limit", maxEcho)
		echo = nil
	}
	err = c.renew(ctx, me, echo)
	if errors.Is(err, errRefused) {
		err = c.renewRefused(ctx, me, echo, err)
	}
	if err != nil {
		return fmt.Errorf("renewing: %w", err)
	}
	if err := c.dir.flushAfter(c.cfg.now(), c.cfg.Heartbeat); err != nil {
		c.cfg.Logger.Error("renewed, but the state directory can't be written: a restart will wait like a stranger", "error", err)
	}
	return nil
}

// renew is one compare-and-set on the token we hold.
func (c *Cells) renew(ctx context.Context, me holding, echo []byte) error {
	sent := c.cfg.now() // before sending: the earliest moment the token can have moved
	rev, err := c.put(ctx, holderPrefix+c.id, me.token, c.liveCell(&me, echo))
	if err != nil {
		return err
	}
	c.stats.renewals.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.me.token, c.me.sent, c.me.echo = rev, sent, echo
	return nil
}

// renewRefused reads once to tell our own lost answer from a deposal (E11).
func (c *Cells) renewRefused(ctx context.Context, me holding, echo []byte, refusal error) error {
	cell, rev, err := c.readHolder(ctx, c.id)
	switch {
	case err != nil:
		return c.fenced("", fmt.Errorf("renewal refused (%w), and reading why: %w", refusal, err))
	case cell.Incarnation != me.incarnation:
		return c.fenced(cell.Holder, fmt.Errorf("the holder cell is of incarnation %s since revision %d: "+
			"another process has a copy of state directory %s", cell.Incarnation, rev, c.dir.path))
	case cell.State != HolderLive:
		return c.fenced(cell.By, fmt.Errorf("the holder cell is %s since revision %d", cell.State, rev))
	}
	// Ours: adopt the token, and move it, or a challenger goes on counting.
	c.stats.adopted.Add(1)
	me.token = rev
	c.mu.Lock()
	c.me.token = rev
	c.mu.Unlock()
	err = c.renew(ctx, me, echo)
	if errors.Is(err, errRefused) {
		return c.fenced("", fmt.Errorf("refused again after adopting revision %d: %w", rev, err))
	}
	return err
}

// fenced drops every claim and the holder cell, and says by whom.
func (c *Cells) fenced(by string, cause error) error {
	f := &Fenced{By: by, Cause: cause}
	c.stats.fenced.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.me, c.fence = nil, f
	clear(c.leases)
	return f
}

// StopHolder marks our holder cell stopped and forgets every claim. Release
// the scopes first: those that were not wait for a challenger's quiet polls
// (E18). Without a live holder cell it does nothing; already deposed is
// success.
func (c *Cells) StopHolder(ctx context.Context) error {
	if err := acquire(ctx, c.holding); err != nil {
		return fmt.Errorf("stopping the holder: %w", err)
	}
	defer func() { <-c.holding }()
	me, err := c.holder()
	if err != nil {
		return nil
	}
	c.mu.Lock()
	c.me = nil
	clear(c.leases)
	c.mu.Unlock()
	// What was last said stays: whoever starts next holds the log to it.
	cell := c.liveCell(&me, me.echo)
	cell.State = HolderStopped
	if _, err := c.put(ctx, holderPrefix+c.id, me.token, cell); err != nil && !errors.Is(err, errRefused) {
		return fmt.Errorf("stopping the holder: %w", err)
	}
	return c.dir.flush(c.cfg.now())
}

// FreshEnough is the check before every irreversible effect (E21): nil when
// our last successful renewal was sent less than the quiet window before now,
// on the monotonic clock and on the wall clock. Otherwise *Fenced, ErrNoHolder
// or ErrStale. It asks nobody.
func (c *Cells) FreshEnough(now time.Time) error {
	age, err := c.RenewalAge(now)
	if err == nil && age >= c.QuietWindow() {
		return fmt.Errorf("last renewal sent %s ago, quiet window %s: %w", age, c.QuietWindow(), ErrStale)
	}
	return err
}

// RenewalAge is how long before now our last successful renewal was sent: the
// more of what the monotonic and the wall clock say. *Fenced or ErrNoHolder when
// we hold nothing. It asks nobody.
func (c *Cells) RenewalAge(now time.Time) (time.Duration, error) {
	me, err := c.holder()
	if err != nil {
		return 0, err
	}
	return max(now.Sub(me.sent), now.Round(0).Sub(me.sent.Round(0))), nil
}

// RenewedAt gives when our last renewal was sent, with its monotonic reading; it
// is what [Cells.FreshEnough] counts from. The error says that we hold nothing.
func (c *Cells) RenewedAt() (time.Time, error) {
	me, err := c.holder()
	return me.sent, err
}

// holder returns a copy of our live holding, or why there is none.
func (c *Cells) holder() (holding, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.me != nil:
		return *c.me, nil
	case c.fence != nil:
		return holding{}, fmt.Errorf("%w: %w", ErrNoHolder, c.fence)
	}
	return holding{}, ErrNoHolder
}

// readHolder reads the holder cell of id from the stream's leader.
func (c *Cells) readHolder(ctx context.Context, id string) (HolderCell, uint64, error) {
	var cell HolderCell
	e, err := c.get(ctx, holderPrefix+id)
	if err != nil {
		return cell, 0, err
	}
	if e.data == nil {
		return cell, e.revision, errNotFound
	}
	err = decodeCell(holderPrefix+id, e.data, &cell)
	cell.Stored = e.stored
	return cell, e.revision, err
}
