package service_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/service"
	"github.com/leasesvc/leasesvc/service/api"
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
	if err := stop(); err != nil {
		t.Fatal(err)
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
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if len(r.vault.Leases()) == 0 {
		t.Fatal("no credential was made: the story shows nothing")
	}
	if r.count(events.TypeAcquired) != 0 {
		t.Fatal("it was recorded")
	}
	r.await("the guard's end", func() bool { return len(r.vault.Leases()) == 0 })
}

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

// TestL47_StopReleasesWaits: a consumer that hangs does not hold the instance
// longer than its hand-over may take; and nothing of the old epoch is written
// under the next.
func TestL47_StopReleasesWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.definitions(1, appDefinition)
	s := &shop{rig: r}
	stop := r.run("state-a")
	r.serve(s)
	r.await("the first commit", func() bool { return s.lease() == 1 })
	s.hang(true)
	r.done(r.api().Rotate(aBit(t), "prod", "app"))
	r.await("the question", func() bool { return r.count(events.TypeHandoverStarted) == 2 })
	began := time.Now()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("stopping took %v; prepare_timeout and rollback_timeout are 3 s", took)
	}
	if r.count(events.TypeReleased) != 1 || r.count(events.TypeInstalled) != 1 {
		t.Errorf("%d releases, %d commits", r.count(events.TypeReleased), r.count(events.TypeInstalled))
	}
	s.hang(false)
	r.run("state-b")
	r.await("the next holder", func() bool { return r.count(events.TypeOpened) == 2 && r.active("app") == 1 })
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := 1; i < len(r.log); i++ {
		if r.log[i].Epoch < r.log[i-1].Epoch || r.log[i].Seq <= r.log[i-1].Seq {
			t.Fatalf("sequence %d of epoch %d follows %d of epoch %d", r.log[i].Seq, r.log[i].Epoch, r.log[i-1].Seq, r.log[i-1].Epoch)
		}
	}
}

// TestL48_ShutdownGivesEverythingBack, and the scope is left alone until an
// instance is started anew (L49), which acquires afresh.
func TestL48_ShutdownGivesEverythingBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.definitions(1, appDefinition+otherDefinition)
	s := &shop{rig: r}
	stop := r.run("state-a")
	r.serve(s)
	r.await("both leases", func() bool { return s.lease() != 0 && r.active("other") != 0 })
	r.done(r.api().Shutdown(aBit(t), "prod"))
	r.await("the release", func() bool { return r.count(events.TypeReleased) == 1 })
	if leases := r.vault.Leases(); len(leases) != 0 {
		t.Fatalf("Vault still has %d leases", len(leases))
	}
	if n := r.count(events.TypeRevoked); n != 2 {
		t.Fatalf("%d were revoked", n)
	}
	r.await("standing by", func() bool { return strings.Contains(r.out.String(), "shut down by hand") })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if n := r.count(events.TypeOpened); n != 1 {
		t.Fatalf("the scope was opened %d times", n)
	}
	r.run("state-a")
	r.await("fresh leases", func() bool { return s.lease() > 2 && r.active("other") > 2 })
}

// TestL49_AStoppedOneStartsAgain with what it had: nothing is acquired.
func TestL49_AStoppedOneStartsAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.definitions(1, otherDefinition)
	stop := r.run("state-a")
	r.await("a lease", func() bool { return r.active("other") == 1 })
	first, err := r.reader().Get(aBit(t), "other")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		stop = r.run("state-a")
		r.await("the same lease", func() bool { return r.active("other") == 1 })
	}
	again, err := r.reader().Get(aBit(t), "other")
	if err != nil || again.Public != first.Public {
		t.Fatalf("%s, before it was %s, %v", again.Public, first.Public, err)
	}
	if n := r.count(events.TypeRequested); n != 1 {
		t.Fatalf("%d acquisitions", n)
	}
	opened := r.events(events.TypeOpened)
	if len(opened) != 3 || opened[1].Epoch <= opened[0].Epoch || opened[2].Epoch <= opened[1].Epoch {
		t.Fatalf("%d epochs", len(opened))
	}
}

// elsewhere obtains a lease that is not the service's.
func (r *rig) elsewhere(ttl string) api.Adoption {
	r.t.Helper()
	out, err := r.vault.Do(context.Background(), "GET", "database/creds/app", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	data := out["data"].(map[string]any)
	return api.Adoption{
		LeaseID: out["lease_id"].(string), TTL: events.MustSeconds(ttl), Renewable: true, Until: time.Now().Add(time.Minute),
		Values: fmt.Appendf(nil, `{"username":%q,"password":%q}`, data["username"], data["password"]),
	}
}

// TestL51_AdoptedIsInstalledLikeAnyOther: consumers move to it, the one before
// is revoked; what can't be used is refused and not tracked.
func TestL51_AdoptedIsInstalledLikeAnyOther(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.definitions(1, appDefinition)
	s := &shop{rig: r}
	r.run("state-a")
	r.serve(s)
	r.await("the first commit", func() bool { return s.lease() == 1 })
	client := r.api()
	st, err := client.Status(aBit(t), "prod")
	if err != nil {
		t.Fatal(err)
	}
	a := r.elsewhere("3600")
	stale, bare := a, a
	stale.Until = time.Now().Add(-time.Minute)
	bare.Values = []byte(`{"username":"u"}`)
	for _, bad := range []api.Adoption{stale, bare, {LeaseID: a.LeaseID, Until: a.Until}} {
		if _, err := client.Adopt(aBit(t), "prod", "app", st.ServiceKey, bad); err == nil {
			t.Errorf("adopted: %v", bad.LogValue())
		}
	}
	if _, err := client.Adopt(aBit(t), "prod", "nobody", st.ServiceKey, a); err == nil {
		t.Error("adopted for a name that is not there")
	}
	if r.count(events.TypeAdopted) != 0 {
		t.Fatal("a refused one is tracked")
	}
	r.done(client.Adopt(aBit(t), "prod", "app", st.ServiceKey, a))
	r.await("the consumer on it", func() bool { return s.lease() == 2 })
	r.await("the end of the one before", func() bool { return r.count(events.TypeRevoked) == 1 })
	leases := r.vault.Leases()
	if len(leases) != 1 || leases[0].ID != a.LeaseID {
		t.Fatalf("Vault has %d leases", len(leases))
	}
}

// TestL52_ReissueAll replaces every active lease, under the token now in force.
func TestL52_ReissueAll(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.definitions(1, appDefinition+otherDefinition)
	s := &shop{rig: r}
	r.run("state-a")
	r.serve(s)
	r.await("both leases", func() bool { return s.lease() != 0 && r.active("other") != 0 })
	first := r.active("other")
	r.done(r.api().Reissue(aBit(t), "prod"))
	r.await("both successors", func() bool { return s.lease() > 2 && r.active("other") > 2 && r.active("other") != first })
	r.await("the end of both before", func() bool { return r.count(events.TypeRevoked) == 2 && len(r.vault.Leases()) == 2 })
}

// TestL53_L55_ExpiredIsNeverHandedOut: while Vault gives nothing new, readers get
// what lives and then an error that says so; it is not counted either.
func TestL53_L55_ExpiredIsNeverHandedOut(t *testing.T) {
	t.Parallel()
	r := newRig(t, "3s", "3s")
	r.definitions(1, otherDefinition)
	r.run("state-a")
	r.await("a lease", func() bool { return r.active("other") == 1 })
	r.vault.Inject(devvault.Fault{Path: "database/creds/app", Status: 503, Body: `{"errors":["away"]}`})
	r.vault.Inject(devvault.Fault{Path: "sys/leases/renew*", Status: 503, Body: `{"errors":["away"]}`})
	reader, got := r.reader(), 0
	var err error
	r.await("the end", func() bool {
		var c consumer.Credential
		c, err = reader.Get(aBit(t), "other")
		if err != nil {
			return true
		}
		if got++; !c.ExpiresAt.After(time.Now()) || c.GoodUntil.After(c.ExpiresAt) {
			t.Fatalf("lease %d, which ended at %v, is good until %v", c.Lease, c.ExpiresAt, c.GoodUntil)
		}
		return false
	})
	if got == 0 || !errors.Is(err, consumer.ErrExpired) && !errors.Is(err, consumer.ErrNone) {
		t.Errorf("%d answers, then %v", got, err)
	}
	st, err := r.api().Status(aBit(t), "prod")
	if err != nil || st.Names != 1 || st.Usable != 0 {
		t.Errorf("%d of %d are usable, %v", st.Usable, st.Names, err)
	}
}

// TestL53_ABusyHolderKnowsTheEnd: a credential ends for readers though the holder
// has not got round to recording it.
func TestL53_ABusyHolderKnowsTheEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, "3s", "3s")
	r.definitions(1, otherDefinition)
	svc, _ := r.start("state-a")
	r.await("a lease", func() bool { return r.active("other") == 1 })
	reader, busy, free, held := r.reader(), make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		held <- service.Decide(context.Background(), svc, "prod", leasecore.Tick{}, func(*leasecore.State) {
			close(busy)
			<-free
		})
	}()
	<-busy
	var err error
	r.await("the end", func() bool {
		_, err = reader.Get(aBit(t), "other")
		return err != nil
	})
	close(free)
	if !errors.Is(err, consumer.ErrExpired) {
		t.Errorf("%v", err)
	}
	if err := <-held; err != nil {
		t.Error(err)
	}
}

// TestL53_L54_WhatIsThere: presence decides, not truth; and what is not there is
// told apart.
func TestL53_L54_WhatIsThere(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	values := map[string]any{"false": false, "zero": 0, "null": nil, "empty": "", "list": []any{}}
	r.do("kv2/data/token", map[string]any{"data": values})
	r.definitions(1, tokenDefinition+appDefinition)
	r.run("state-a")
	r.await("the secret", func() bool { return r.active("token") == 1 })
	reader := r.reader()
	for key, want := range map[string]string{"false": "false", "zero": "0", "null": "null", "empty": "", "list": "[]"} {
		c, err := reader.Get(aBit(t), "token", key)
		if err != nil {
			t.Errorf("%s: %v", key, err)
			continue
		}
		if v, ok := c.Get(key); !ok || v.Reveal() != want || len(c.Keys()) != 1 {
			t.Errorf("%s: %q, %t, of %v", key, v.Reveal(), ok, c.Keys())
		}
	}
	all, err := reader.Get(aBit(t), "token")
	if err != nil || len(all.Keys()) != len(values) {
		t.Errorf("%v, %v", all.Keys(), err)
	}
	for what, c := range map[string]struct {
		name, key string
		err       error
	}{
		"unknown name":      {"nobody", "key", consumer.ErrUnknownName},
		"unknown key":       {"token", "absent", consumer.ErrUnknownKey},
		"none is there yet": {"app", "username", consumer.ErrNone},
	} {
		if _, err := reader.Get(aBit(t), c.name, c.key); !errors.Is(err, c.err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestD8_ALeaseIDBelongsToOneScope: what one scope owns another does not adopt.
func TestD8_ALeaseIDBelongsToOneScope(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.moreScopes = "  second: {definitions: second.yaml}\n"
	r.definitions(1, otherDefinition)
	r.write("second.yaml", "revision: 1\nleases:\n"+otherDefinition)
	r.run("state-a")
	r.await("a lease in each", func() bool { return r.count(events.TypeInstalled) == 2 })
	client, a := r.api(), r.elsewhere("3600")
	st, err := client.Status(aBit(t), "prod")
	if err != nil {
		t.Fatal(err)
	}
	r.done(client.Adopt(aBit(t), "prod", "other", st.ServiceKey, a))
	if _, err := client.Adopt(aBit(t), "second", "other", st.ServiceKey, a); err == nil {
		t.Error("the second scope adopted what the first one owns")
	}
}
