package epochkv

import (
	"context"
	"errors"
	"fmt"
)

// releaseTries bounds how often a release is repeated while another write to
// the cell is in flight on a replicated stream.
const releaseTries = 4

// Release gives scope back, so that a successor need not wait (E14). Our claim
// is dropped first, whatever happens then; the cell is marked, never deleted.
// Without a claim it does nothing; a refusal because we were deposed is
// success. On an error the cell may still name us: a successor waits its quiet
// polls.
func (c *Cells) Release(ctx context.Context, scope string) error {
	c.mu.Lock()
	epoch, held := c.leases[scope]
	delete(c.leases, scope)
	holds := c.me != nil
	var me holding
	if holds {
		me = *c.me // a copy: the heartbeat goes on moving the token
	}
	c.mu.Unlock()
	if !held || !holds {
		return nil
	}
	cell := c.scopeCell(me)
	cell.Released, cell.Epoch = true, epoch
	err := c.release(ctx, scope, epoch, cell)
	if err != nil {
		return fmt.Errorf("releasing scope %s: %w", scope, err)
	}
	c.dir.setEpoch(scope, 0)
	c.hint(scope)
	return nil
}

func (c *Cells) release(ctx context.Context, scope string, epoch uint64, cell ScopeCell) error {
	var err error
	for range releaseTries {
		_, err = c.put(ctx, scopePrefix+scope, epoch, cell)
		if err == nil || errors.Is(err, errRefused) {
			return nil
		}
		if !errors.Is(err, ErrInFlight) {
			break
		}
		if werr := wait(ctx, c.cfg.Heartbeat/4); werr != nil {
			return errors.Join(werr, err)
		}
	}
	if !errors.Is(err, ErrUnknownOutcome) || ctx.Err() != nil {
		return err
	}
	// No answer: the cell tells whether it is still our claim. A write that is
	// still on its way can only release the epoch we dropped already.
	_, rev, rerr := c.readScope(ctx, scope)
	if rerr == nil && rev != epoch {
		return nil
	}
	return errors.Join(err, rerr)
}
