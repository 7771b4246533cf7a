package service_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/service"
)

// The loop, polls and clocks: L36 to L39.

// TestL36_APassThatPanicsCostsOneCommand: it is reported, and the loop goes on.
func TestL36_APassThatPanicsCostsOneCommand(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.definitions(1, otherDefinition)
	svc, _ := r.start("state-a")
	r.await("a lease", func() bool { return r.active("other") == 1 })
	// An outcome without its content, which nothing of ours makes.
	err := service.Decide(aBit(t), svc, "prod", leasecore.RenewDone{Name: "other", Lease: 1}, nil)
	if !errors.Is(err, service.ErrPanicked) {
		t.Fatalf("it did not panic, or nobody was told: %v", err)
	}
	if !strings.Contains(r.out.String(), "panicked") {
		t.Error("it was not reported")
	}
	r.done(r.api().Rotate(aBit(t), "prod", "other"))
	r.await("the rotation", func() bool { return r.active("other") == 2 })
}

// TestL36_AfterAPanicTheNextPassComes in 5 s, though nothing else is due.
func TestL36_AfterAPanicTheNextPassComes(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.definitions(1, otherDefinition)
	svc, _ := r.start("state-a")
	r.await("a lease", func() bool { return r.active("other") == 1 })
	look := func(f func(n *leasecore.Name)) {
		t.Helper()
		if err := service.Decide(aBit(t), svc, "prod", leasecore.Tick{}, func(s *leasecore.State) { f(s.Name("other")) }); err != nil {
			t.Fatal(err)
		}
	}
	// A hand-over of a lease that is not there, which no log gives.
	look(func(n *leasecore.Name) {
		n.Successor = events.ReasonRotate
		n.Handover = &leasecore.Handover{N: 1, Lease: 99, Unasked: "nobody"}
	})
	if err := service.Decide(aBit(t), svc, "prod", leasecore.Tick{Name: "other"}, nil); !errors.Is(err, service.ErrPanicked) {
		t.Fatalf("it did not panic, or nobody was told: %v", err)
	}
	look(func(n *leasecore.Name) { n.Handover = nil })
	r.await("the next pass", func() bool { return r.count(events.TypeRequested) == 2 })
}

// TestL38_Polling: unchanged nothing happens, also nothing is written; changed it
// is an install. L27: without a lease id Vault is not asked to revoke anything.
func TestL38_L13_L27_Polling(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.do("kv2/data/token", map[string]any{"data": map[string]any{"key": "one"}})
	r.definitions(1, tokenDefinition)
	r.run("state-a")
	r.await("the secret", func() bool { return r.active("token") == 1 })
	r.await("the first commit", func() bool { return r.count(events.TypeInstalled) == 1 })
	reads := func() int { return r.vault.Count("GET", "kv2/data/token") }
	seq := r.lastSeq()
	r.do("kv2/data/token", map[string]any{"data": map[string]any{"key": "one"}}) // another version, the same values
	before := reads()
	r.await("a reading", func() bool { return reads() > before })
	before = reads()
	r.await("another, which followed that", func() bool { return reads() > before })
	if now := r.lastSeq(); now != seq {
		t.Fatalf("an unchanged secret wrote %d events", now-seq)
	}
	r.do("kv2/data/token", map[string]any{"data": map[string]any{"key": "two"}})
	r.await("the new value", func() bool { return r.active("token") == 2 })
	c, err := r.reader().Get(aBit(t), "token", "key")
	if v, _ := c.Get("key"); err != nil || v.Reveal() != "two" {
		t.Fatalf("readers get lease %d, %v", c.Lease, err)
	}
	r.await("the end of the first", func() bool { return r.count(events.TypeRevoked) == 1 })
	if n := r.vault.Count("", "sys/leases/revoke*"); n != 0 {
		t.Errorf("Vault was asked to revoke %d times", n)
	}
}

// TestL38_ItNeverExpiresForReaders, whatever duration comes with it.
func TestL38_ItNeverExpiresForReaders(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.do("kv/token", map[string]any{"key": "one", "ttl": "2s"}) // version 1 gives this as the lease's duration
	r.definitions(1, strings.Replace(tokenDefinition, "kv2/data/token", "kv/token", 1))
	r.run("state-a")
	r.await("the secret", func() bool { return r.active("token") != 0 })
	reader, reads := r.reader(), func() int { return r.vault.Count("GET", "kv/token") }
	for reads() < 3 { // some seconds
		c, err := reader.Get(aBit(t), "token", "key")
		if err != nil || !c.ExpiresAt.IsZero() {
			t.Fatalf("after %d readings: lease %d, expires %v, %v", reads(), c.Lease, c.ExpiresAt, err)
		}
	}
	if n := r.count(events.TypeRequested); n != 1 {
		t.Fatalf("it was acquired %d times", n)
	}
}

// TestL39_ItsOwnClock: a static role is read again once it has rotated, not
// before; that its time runs is no change.
func TestL39_ItsOwnClock(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	if err := r.accts.Create(context.Background(), devvault.Account{User: "static"}); err != nil {
		t.Fatal(err)
	}
	r.do("database/static-roles/st", map[string]any{"db_name": "main", "username": "static", "rotation_period": "8s"})
	before := r.vault.Counters().Rotations
	r.definitions(1, strings.Replace(otherDefinition, "creds/app", "static-creds/st", 1))
	r.run("state-a")
	r.await("the second commit", func() bool { return r.count(events.TypeInstalled) == 2 })
	if n := r.vault.Counters().Rotations - before; n != 1 {
		t.Errorf("changed after %d rotations", n)
	}
	c, err := r.reader().Get(aBit(t), "other")
	if err != nil {
		t.Fatal(err)
	}
	if err := (&shop{rig: r}).login(c); err != nil {
		t.Errorf("readers get what is dead: %v", err)
	}
}
