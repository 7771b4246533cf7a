package epochkv

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// maxWatched bounds the holders that are remembered at a time.
const maxWatched = 1024

// watched is what we see of another holder's cell, shared by all scopes that
// name it. Its lock is held over the read, so that one read serves them all.
type watched struct {
	lock chan struct{}

	read  time.Time // zero: read again
	cell  HolderCell
	rev   uint64
	there bool

	silentSince time.Time // first of the "no responders" in a row (E22); zero: none
	silentToken string
	full        bool // quiet long enough to be deposed
	fast        bool // by "no responders"
}

// watch returns the watched cell of a holder with its lock held; the caller
// unlocks. The cell is read when the last read is older than half a heartbeat,
// or older than the scope cell (of that incarnation, at that revision) the
// caller holds in hands and of another incarnation.
func (c *Cells) watch(ctx context.Context, holder, incarnation string, scopeRev uint64) (*watched, error) {
	w := c.watchedCell(holder)
	if err := acquire(ctx, w.lock); err != nil {
		return nil, err
	}
	now := c.cfg.now()
	young := !w.read.IsZero() && now.Sub(w.read) < c.cfg.Heartbeat/2
	if young && (w.rev > scopeRev || w.there && w.cell.Incarnation == incarnation) {
		return w, nil
	}
	cell, rev, err := c.readHolder(ctx, holder)
	if err != nil && !errors.Is(err, errNotFound) {
		w.read, w.silentSince = time.Time{}, time.Time{}
		<-w.lock
		return nil, err // our own failing read is no silence of the holder's
	}
	w.read, w.cell, w.rev, w.there = now, cell, rev, err == nil
	w.full, w.fast = false, false
	if w.there && w.cell.State == HolderLive {
		key := holderPrefix + holder
		token := strconv.FormatUint(rev, 10)
		w.full = c.observe(key, token)
		if !w.full && c.silent(ctx, w, holder, token) {
			w.full, w.fast = true, true
		}
	}
	return w, nil
}

// watchedCell finds or makes the entry of a holder.
func (c *Cells) watchedCell(holder string) *watched {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.watched[holder]
	if w != nil {
		return w
	}
	if len(c.watched) >= maxWatched { // most are gone; who is not is read again
		clear(c.watched)
	}
	w = &watched{lock: make(chan struct{}, 1)}
	c.watched[holder] = w
	return w
}

// observe counts one observation of a token and tells whether it was unmoved
// for the quiet polls. Observations closer than 3/4 of a heartbeat count once:
// a hint makes a step come early, and silence is a matter of time. While our
// own renewals don't get through there is nothing to be learned from another's
// silence: the count starts from zero.
func (c *Cells) observe(key, token string) (full bool) {
	now := c.cfg.now()
	o := c.dir.observed(key)
	switch {
	case o.Token != token:
		o = observation{Token: token, At: now}
	case !c.storeWorks(now):
		o = observation{Token: token, At: now}
	case now.Sub(o.At) >= c.cfg.Heartbeat*3/4:
		o = observation{Token: token, QuietPolls: min(o.QuietPolls+1, c.cfg.QuietPolls), At: now}
	}
	c.dir.observe(key, o)
	return o.QuietPolls >= c.cfg.QuietPolls
}

// storeWorks tells whether our own renewals are getting through.
func (c *Cells) storeWorks(now time.Time) bool {
	me, err := c.holder()
	return err == nil && now.Sub(me.sent) <= 2*c.cfg.Heartbeat
}

// silent asks the holder's presence subject (E22): true at the second "no
// responders" in a row, at least a heartbeat after the first, with the same
// token and our own renewals getting through.
func (c *Cells) silent(ctx context.Context, w *watched, holder, token string) bool {
	if c.cfg.Presence == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.RequestTimeout)
	defer cancel()
	none, err := c.cfg.Presence(ctx, holder)
	now := c.cfg.now()
	switch {
	case err != nil || !none || !c.storeWorks(now):
		w.silentSince = time.Time{}
	case w.silentSince.IsZero() || w.silentToken != token:
		w.silentSince, w.silentToken = now, token
	default:
		return now.Sub(w.silentSince) >= c.cfg.Heartbeat
	}
	return false
}

// Listen asks the presence subjects of the holders that are being watched, in
// between the claim steps: call it every half a heartbeat. The first "no
// responders" (E22) is heard sooner so, and half a heartbeat is gained of the two
// that a holder's end may take to show. It deposes nobody: the second question,
// at least a heartbeat later, is a claim step's, which has read the token before;
// an answer to a question of Listen's, too, makes the first one count no more.
func (c *Cells) Listen(ctx context.Context) {
	if c.cfg.Presence == nil {
		return
	}
	c.mu.Lock()
	all := make(map[string]*watched, len(c.watched))
	for holder, w := range c.watched {
		all[holder] = w
	}
	c.mu.Unlock()
	for holder, w := range all {
		select {
		case w.lock <- struct{}{}:
			c.listen(ctx, w, holder)
			<-w.lock
		default: // a claim step asks right now
		}
	}
}

// listen asks one holder. The lock of w is held.
func (c *Cells) listen(ctx context.Context, w *watched, holder string) {
	if w.read.IsZero() || c.cfg.now().Sub(w.read) > 2*c.cfg.Heartbeat || !w.there || w.cell.State != HolderLive {
		return // nobody stands by for it
	}
	first := w.silentSince.IsZero()
	_ = c.silent(ctx, w, holder, strconv.FormatUint(w.rev, 10)) // what it means is the next step's to say
	if w.silentSince.IsZero() || !first {
		return
	}
	// It may have renewed since we read its token: what must not move from now on
	// is the token as it is now.
	cell, rev, err := c.readHolder(ctx, holder)
	if err != nil || cell.State != HolderLive || cell.Incarnation != w.cell.Incarnation {
		w.silentSince = time.Time{}
		return
	}
	w.silentToken = strconv.FormatUint(rev, 10)
}

// next is how long the following step should wait: a heartbeat, or until the
// second question of E22 counts.
func (c *Cells) next(w *watched) time.Duration {
	if w == nil || w.silentSince.IsZero() {
		return c.cfg.Heartbeat
	}
	left := c.cfg.Heartbeat - c.cfg.now().Sub(w.silentSince)
	return min(max(left, 0), c.cfg.Heartbeat)
}

// refresh has every holder's cell read again: something happened.
func (c *Cells) refresh() {
	c.mu.Lock()
	all := make([]*watched, 0, len(c.watched))
	for _, w := range c.watched {
		all = append(all, w)
	}
	c.mu.Unlock()
	for _, w := range all {
		select {
		case w.lock <- struct{}{}:
			w.read = time.Time{}
			<-w.lock
		default: // being read right now
		}
	}
}

// depose takes the holder's cell from it by compare-and-set on the token that
// was observed (E6). The lock of w is held.
func (c *Cells) depose(ctx context.Context, w *watched) error {
	key := holderPrefix + w.cell.Holder
	cell := w.cell
	cell.State, cell.By, cell.Echo = HolderDeposed, c.id, nil
	cell.Attempt, cell.WrittenAt, cell.Version = newID(), c.cfg.now().UTC(), c.cfg.Version
	rev, err := c.put(ctx, key, w.rev, cell)
	switch {
	case err == nil:
		c.stats.deposals.Add(1)
		if w.fast {
			c.stats.fastDeposals.Add(1)
		}
		c.cfg.Logger.Warn("deposed a silent holder", "holder", cell.Holder, "instance", cell.Instance,
			"token", w.rev, "no_responders", w.fast)
		w.cell, w.rev, w.read = cell, rev, c.cfg.now()
		w.full, w.silentSince = false, time.Time{}
		c.dir.forget(key)
		return nil
	case errors.Is(err, errRefused): // it renewed, or somebody else was faster
		c.stats.lostRaces.Add(1)
		w.read, w.full, w.silentSince = time.Time{}, false, time.Time{}
		c.dir.forget(key)
		return nil
	}
	w.read = time.Time{} // may have been applied: the next step reads
	return fmt.Errorf("deposing holder %s: %w", cell.Holder, err)
}
