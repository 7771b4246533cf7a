package service_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/service"
)

// The rules of the lease manager that need its surroundings. What the core
// decides has its tests in leasecore.

// otherDefinition asks nobody and needs no proof.
const otherDefinition = `  other:
    path: database/creds/app
    kind: postgresql
    good_for: 200ms
`

// tokenDefinition is a secret without lease.
const tokenDefinition = `  token:
    path: kv2/data/token
    kind: kv
    good_for: 200ms
    poll: 1s
`

// aBit is a context for one request.
func aBit(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// TestL1_AStartWithoutDefinitions leads all the same: the first definition that
// comes later is served.
func TestL1_AStartWithoutDefinitions(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.definitions(1, "  {}\n")
	r.run("state-a")
	r.await("the empty definitions", func() bool { return r.count(events.TypeApplied) == 1 })
	r.definitions(2, otherDefinition)
	r.done(r.api().Apply(aBit(t), "prod"))
	r.await("a lease", func() bool { return r.active("other") == 1 })
}

// TestL1_NothingBeginsWhileStopping: what is in flight goes on to its end, and
// whatever is asked for meanwhile begins nothing.
func TestL1_NothingBeginsWhileStopping(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.definitions(1, appDefinition+otherDefinition)
	s := &shop{rig: r}
	stop := r.run("state-a")
	r.serve(s)
	r.await("both leases", func() bool { return s.lease() != 0 && r.active("other") != 0 })
	g := r.hold("GET", "database/creds/app")
	r.done(r.api().Rotate(aBit(t), "prod", "app"))
	r.await("the read in flight", func() bool { return g.Hits() == 1 })
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	r.await("the stopping", func() bool { return strings.Contains(r.out.String(), "leaving") })

	before := r.count(events.TypeRequested)
	client := r.api()
	_, _ = client.Rotate(aBit(t), "prod", "other") // refused, or without effect
	_, _ = client.Reissue(aBit(t), "prod")
	g.pass()
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if after := r.count(events.TypeRequested); after != before {
		t.Errorf("%d acquisitions began while it was stopping", after-before)
	}
	if r.count(events.TypeReleased) != 1 {
		t.Error("the scope was not released")
	}
}

// TestL2_ADefinitionNeedsAPath: an error with its place, before anything starts.
func TestL2_ADefinitionNeedsAPath(t *testing.T) {
	r := newRig(t, "1h", "2h")
	r.definitions(1, "  app:\n    kind: postgresql\n")
	_, err := service.New(r.config("state-a"), service.Options{})
	if err == nil || !strings.Contains(err.Error(), "definitions.yaml:3") || !strings.Contains(err.Error(), "path") {
		t.Fatalf("%v", err)
	}
}

// TestL5_TheWaitForItsTurnCounts against the operation's deadline: past it there
// is no effect.
func TestL5_TheWaitForItsTurnCounts(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.definitions(1, otherDefinition)
	svc, _ := r.start("state-a")
	r.await("a lease", func() bool { return r.active("other") == 1 })
	busy, free, held := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		held <- service.Decide(context.Background(), svc, "prod", leasecore.Tick{}, func(*leasecore.State) {
			close(busy)
			<-free
		})
	}()
	<-busy
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := service.Decide(ctx, svc, "prod", leasecore.Rotate{Name: "other"}, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waited past its deadline: %v", err)
	}
	close(free)
	if err := <-held; err != nil {
		t.Fatal(err)
	}
	if err := service.Decide(aBit(t), svc, "prod", leasecore.Tick{Name: "other"}, nil); err != nil {
		t.Fatal(err)
	}
	if n := r.count(events.TypeRequested); n != 1 {
		t.Error("who asked has given up, and it was done all the same")
	}
}

// TestL6_AFailureIsRecordedAndRetried: it is in the log and in the program's log,
// costs nobody anything, and the next attempt comes by itself.
func TestL6_AFailureIsRecordedAndRetried(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.definitions(1, otherDefinition)
	fault := r.vault.Inject(devvault.Fault{Method: "GET", Path: "database/creds/app", Status: 500, Body: `{"errors":["no"]}`, Times: 1})
	r.run("state-a")
	r.await("a lease", func() bool { return r.active("other") == 2 })
	failed := r.events(events.TypeAcquireFailed)
	if fault.Hits() != 1 || len(failed) != 1 {
		t.Fatalf("%d hits, %d failures in the log", fault.Hits(), len(failed))
	}
	f := failed[0].Data.(*events.AcquireFailed)
	if wait := f.Retry.At.Sub(failed[0].Time); f.Retry.Attempt != 1 || wait < time.Second {
		t.Errorf("planned is attempt %d in %v", f.Retry.Attempt, wait)
	}
	if !strings.Contains(r.out.String(), "acquire-failed") {
		t.Error("nobody was told")
	}
}

// TestL6_AFailureOfTheLifecycleSchedulesNothing: the end of the term is not the
// name's failure. What the next holder finds is an intent.
func TestL6_AFailureOfTheLifecycleSchedulesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.more = "shutdown_timeout: 200ms\n"
	r.definitions(1, otherDefinition)
	g := r.hold("GET", "database/creds/app")
	stop := r.run("state-a")
	r.await("the read in flight", func() bool { return g.Hits() == 1 })
	if err := stop(); err == nil || !strings.Contains(err.Error(), "in flight") {
		t.Fatalf("the story shows nothing: %v", err)
	}
	if n := r.count(events.TypeAcquireFailed); n != 0 {
		t.Fatalf("%d failures were recorded", n)
	}
	g.pass()
	r.run("state-a")
	r.await("a lease", func() bool { return r.active("other") == 2 })
	if r.count(events.TypeOrphaned) != 1 || r.count(events.TypeAcquireFailed) != 0 {
		t.Fatalf("%d orphaned, %d failed", r.count(events.TypeOrphaned), r.count(events.TypeAcquireFailed))
	}
}

// TestL16_AFailingRevocationFailsNoInstall, and is tried until it succeeds.
func TestL16_AFailingRevocationFailsNoInstall(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.definitions(1, appDefinition)
	s := &shop{rig: r}
	r.run("state-a")
	r.serve(s)
	r.await("the first commit", func() bool { return s.lease() == 1 })
	fault := r.vault.Inject(devvault.Fault{Path: "sys/leases/revoke*", Status: 500, Body: `{"errors":["no"]}`, Times: 2})
	r.done(r.api().Rotate(aBit(t), "prod", "app"))
	r.await("the revocation", func() bool { return r.count(events.TypeRevoked) == 1 })
	if fault.Hits() != 2 || r.count(events.TypeRevokeFailed) != 2 {
		t.Errorf("%d hits, %d failures in the log", fault.Hits(), r.count(events.TypeRevokeFailed))
	}
	var installed, revoking uint64
	for _, e := range r.events(events.TypeInstalled) {
		installed = e.Seq
	}
	for _, e := range r.events(events.TypeRevoking) {
		revoking = e.Seq
	}
	if s.lease() != 2 || r.count(events.TypeRollbackStarted) != 0 || revoking < installed {
		t.Errorf("on lease %d, %d roll backs, installed at %d, revoking at %d", s.lease(), r.count(events.TypeRollbackStarted), installed, revoking)
	}
	if leases := r.vault.Leases(); len(leases) != 1 {
		t.Errorf("Vault has %d leases", len(leases))
	}
}

// TestL24_WhatArrivesAfterTheEndIsLeftToItsGuard (D5): the log knows nothing of
// it, and it is gone by itself.
func TestL24_WhatArrivesAfterTheEndIsLeftToItsGuard(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.more = "shutdown_timeout: 200ms\n"
	r.moreVault = "guard_role: leasesvc, guard_ttl: 2s, timeout: 1s"
	r.definitions(1, otherDefinition)
	// The credential is made; its answer comes after the end.
	made := make(chan struct{}, 1)
	r.vault.Inject(devvault.Fault{Method: "GET", Path: "database/creds/app", Times: 1, Do: func(_ http.ResponseWriter, q *http.Request, next http.Handler) {
		next.ServeHTTP(httptest.NewRecorder(), q)
		made <- struct{}{}
		<-q.Context().Done()
		panic(http.ErrAbortHandler)
	}})
	stop := r.run("state-a")
	<-made
	if err := stop(); err == nil || !strings.Contains(err.Error(), "in flight") {
		t.Fatalf("the story shows nothing: %v", err)
	}
	if len(r.vault.Leases()) == 0 {
		t.Fatal("no credential was made: the story shows nothing")
	}
	if r.count(events.TypeAcquired) != 0 {
		t.Fatal("it was recorded")
	}
	r.await("the guard's end", func() bool { return len(r.vault.Leases()) == 0 })
}
