package service

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
)

const (
	// sweepEvery is how often sealed values are looked through that no event
	// names; they are swept once they are older than sweepAfter: until then
	// their event may be on its way.
	sweepEvery = 10 * time.Minute
	sweepAfter = 10 * time.Minute
)

// sweep purges the sealed values of leases that the log does not know: of
// intents that were orphaned, of refused adoptions, of leases that expired.
func (t *term) sweep(ctx context.Context, stop <-chan struct{}) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		if n, err := t.sweepOnce(ctx, sweepAfter); err != nil && ctx.Err() == nil {
			t.log.Warn("sweeping sealed values", "error", err)
		} else if n > 0 {
			t.log.Info("sealed values that no event names were swept", "count", n)
		}
		select {
		case <-tick.C:
		case <-stop:
			return
		}
	}
}

// sweepOnce purges what is older than after and gives how many it were.
func (t *term) sweepOnce(ctx context.Context, after time.Duration) (swept int, err error) {
	blobs, err := t.svc.blobs.List(ctx, t.name)
	if err != nil {
		return 0, err
	}
	for _, b := range blobs {
		if time.Since(b.Created) < after {
			continue
		}
		known, err := t.do(ctx, leasecore.Tick{}, events.Actor{}, func(s *leasecore.State) any {
			if doc, ok := strings.CutPrefix(b.Name, documentBlobPrefix); ok {
				return s.Documents[doc].Blob == strconv.FormatUint(b.Lease, 10)
			}
			n := s.Name(b.Name)
			return n != nil && n.Lease(b.Lease) != nil
		})
		if err != nil {
			return swept, err
		}
		if known.(bool) {
			continue
		}
		if err := t.svc.blobs.Purge(ctx, t.name, b.Name, b.Lease); err != nil {
			return swept, err
		}
		swept++
	}
	return swept, nil
}
