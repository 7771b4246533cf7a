package service_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/service"
)

// failOnce has the first append fail that begins with an event of this type, and
// tells whether it did.
func (r *rig) failOnce(typ events.Type) (did func() bool) {
	var failed atomic.Bool
	r.before = func(s *service.Service) {
		service.HoldAppendsBack(s, func(evs []events.Event) error {
			if evs[0].Type() == typ && failed.CompareAndSwap(false, true) {
				return fmt.Errorf("held back: %w", journal.ErrUnavailable)
			}
			return nil
		})
	}
	return failed.Load
}

// TestP3_WhatIsInTheLogIsNotDecidedAgain: of two events of one decision the second
// does not get into the log at first. The decision has happened, its caller is told
// so, and nothing is recorded twice.
func TestP3_WhatIsInTheLogIsNotDecidedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.definitions(1, otherDefinition)
	did := r.failOnce(events.TypeRevoking)
	r.start("state-a")
	r.await("a lease", func() bool { return r.active("other") == 1 })
	r.done(r.api().Revoke(aBit(t), "prod", "other")) // retired, revoking
	r.await("the revocation", func() bool { return r.count(events.TypeRevoked) == 1 })
	if !did() {
		t.Fatal("no append failed: the decision did not go in parts")
	}
	for _, typ := range []events.Type{events.TypeRetired, events.TypeRevoking} {
		if n := len(r.of(typ, "other", 1)); n != 1 {
			t.Errorf("%d events %s of lease 1", n, typ)
		}
	}
	r.await("a successor", func() bool { return r.active("other") == 2 })
}

// TestP12_AYesWithoutItsCommit: the last yes is in the log, the commit that follows
// from it is not at first. It is made up for, with nobody asked again.
func TestP12_AYesWithoutItsCommit(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.definitions(1, appDefinition)
	did := r.failOnce(events.TypeInstalled)
	r.start("state-a")
	r.serve(&shop{rig: r})
	r.await("the commit", func() bool { return r.active("app") == 1 })
	if !did() {
		t.Fatal("no append failed: the decision did not go in parts")
	}
	if n := r.count(events.TypePrepared); n != 1 {
		t.Errorf("%d answers are recorded", n)
	}
	if n := r.count(events.TypeRollbackStarted); n != 0 {
		t.Errorf("%d roll backs", n)
	}
}
