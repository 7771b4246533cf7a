package service

import (
	"context"
	"errors"
	"slices"
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
	// sweepTogether is how many of them the state is asked about at once.
	sweepTogether = 1000
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

// sweepOnce purges what is older than after and gives how many it were. It reads
// the store and the views, and asks the state in parts, so that it stops the scope
// for no longer than a few decisions do, however many names there are.
func (t *term) sweepOnce(ctx context.Context, after time.Duration) (swept int, err error) {
	blobs, err := t.svc.blobs.List(ctx, t.name)
	if err != nil {
		return 0, err
	}
	if err := t.replaceLost(ctx, blobs); err != nil {
		return 0, err
	}
	blobs = slices.DeleteFunc(blobs, func(b handover.Blob) bool { return time.Since(b.Created) < after })
	for part := range slices.Chunk(blobs, sweepTogether) {
		unnamed, err := t.do(ctx, leasecore.Tick{}, events.Actor{}, func(s *leasecore.State) any {
			return slices.DeleteFunc(part, func(b handover.Blob) bool { return names(s, b) })
		})
		if err != nil {
			return swept, err
		}
		for _, b := range unnamed.([]handover.Blob) {
			if err := t.svc.blobs.Purge(ctx, t.name, b.Name, b.Lease); err != nil {
				return swept, err
			}
			swept++
		}
	}
	return swept, nil
}

// names tells whether the log names sealed values.
func names(s *leasecore.State, b handover.Blob) bool {
	if doc, ok := strings.CutPrefix(b.Name, documentBlobPrefix); ok {
		return s.Documents[doc].Blob == strconv.FormatUint(b.Lease, 10)
	}
	n := s.Name(b.Name)
	return n != nil && n.Lease(b.Lease) != nil
}

// replaceLost asks for successors of active leases whose values are not in the
// store any more: an older backup of it was put back, or somebody purged them.
// Who holds them is not cut off: it is a rotation like any other.
func (t *term) replaceLost(ctx context.Context, blobs []handover.Blob) error {
	type key struct {
		name  string
		lease uint64
	}
	there := make(map[key]bool, len(blobs))
	for _, b := range blobs {
		there[key{b.Name, b.Lease}] = true
	}
	var lacking []key
	now := t.svc.clock.Now()
	t.views.byName.each(func(name string, v *view) {
		if k := (key{name, v.lease}); v.committed() && v.usable(now) && !there[k] {
			lacking = append(lacking, k)
		}
	})
	for _, a := range lacking {
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
