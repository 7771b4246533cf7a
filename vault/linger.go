package vault

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// guardReserve is how long before its guard's end a read is broken off at the
// latest: a server that is not done by then would record a lease under a token
// that is gone, and that lease would live for its whole TTL (seen on OpenBao).
const guardReserve = 2 * time.Second

// lingering are the reads that their callers gave up and that go on.
//
// A server breaks off what it is doing when the connection is lost. In the middle
// of a read that is the worst moment: the database has the account and the lease
// is not recorded, so nothing ever takes the account away, no guard either (seen
// on OpenBao: a few in a hundred reads that were cut off at various moments). So a
// deadline of ours, or a caller that goes, does not close the connection: the
// read goes on to its end, nobody looks at the answer, and the guard ends what it
// made.
type lingering struct {
	life context.Context // ends with Close
	end  context.CancelFunc
	wg   sync.WaitGroup
	now  atomic.Int64
}

func newLingering() *lingering {
	l := &lingering{}
	l.life, l.end = context.WithCancel(context.Background())
	return l
}

// close breaks off what still goes on and waits for it.
func (l *lingering) close() {
	l.end()
	l.wg.Wait()
}

// toItsEnd is attempt for a read under a guard.
func (c *Client) toItsEnd(ctx context.Context, rq request) (answer, error) {
	opCtx, stop := context.WithTimeout(ctx, c.cfg.OpTimeout)
	defer stop()
	sendCtx, cancel := context.WithDeadline(c.lingering.life, rq.linger)
	type end struct {
		a   answer
		err error
	}
	done := make(chan end, 1)
	rq.arrives = &atomic.Bool{}
	c.lingering.now.Add(1)
	c.lingering.wg.Go(func() {
		defer cancel()
		defer c.lingering.now.Add(-1)
		a, err := c.send(ctx, sendCtx, rq)
		done <- end{a, err}
	})
	select {
	case e := <-done:
		return e.a, e.err
	case <-opCtx.Done():
	}
	// Those in flight are bounded by the gate, which this one leaves now.
	if !rq.arrives.Load() || c.lingering.now.Load() > 2*int64(c.cfg.Limits.InFlight) {
		cancel() // nothing was sent, or too many go on already
		<-done
	}
	return answer{}, c.unanswered(ctx, opCtx, rq, rq.arrives.Load(), opCtx.Err())
}
