package service

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/handover"
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
	if err := t.replaceLost(ctx, blobs); err != nil {
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

// replaceLost asks for successors of active leases whose values are not in the
// store any more: an older backup of it was put back, or somebody purged them.
// Who holds them is not cut off: it is a rotation like any other.
func (t *term) replaceLost(ctx context.Context, blobs []handover.Blob) error {
	there := map[string]bool{}
	for _, b := range blobs {
		there[fmt.Sprint(b.Name, "/", b.Lease)] = true
	}
	type active struct {
		name  string
		lease uint64
	}
	lacking, err := t.do(ctx, leasecore.Tick{}, events.Actor{}, func(s *leasecore.State) any {
		var out []active
		for n := range s.Names() {
			l := n.Committed(t.svc.clock.Now())
			if l != nil && !there[fmt.Sprint(n.Name, "/", l.No)] && n.Candidate == 0 {
				out = append(out, active{n.Name, l.No})
			}
		}
		return out
	})
	if err != nil {
		return err
	}
	for _, a := range lacking.([]active) {
		if _, err := t.svc.blobs.Get(ctx, t.name, a.name, a.lease); !errors.Is(err, handover.ErrNoBlob) {
			continue
		}
		t.log.Error("the values of an active lease are gone from the store: asking for a successor", "name", a.name, "lease", a.lease)
		_, err := t.do(ctx, leasecore.Rotate{Name: a.name}, events.Service(t.svc.cells.HolderID()), nil)
		if err != nil && !errors.Is(err, leasecore.ErrBusy) {
			t.log.Warn("no successor could be asked for", "name", a.name, "error", err)
		}
	}
	return nil
}
