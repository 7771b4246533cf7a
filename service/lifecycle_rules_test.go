package service_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/service"
	"github.com/leasesvc/leasesvc/service/api"
)

// Stopping, starting, adopting: L47 to L52, D8, P2.

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

// TestP2_LeadsFromTheWholeLog: a holder that comes at once after the last event
// decides and answers from all of them.
func TestP2_LeadsFromTheWholeLog(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.definitions(1, otherDefinition)
	stop := r.run("state-a")
	r.await("a lease", func() bool { return r.active("other") == 1 })
	for no := uint64(2); no <= 6; no++ {
		r.done(r.api().Rotate(aBit(t), "prod", "other"))
		r.await("the rotation", func() bool { return r.active("other") == no })
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	svc, err := service.New(r.config("state-b"), service.Options{OnEvent: func(e events.Event) {
		if e.Type() == events.TypeRequested {
			t.Errorf("it began with %s of lease %d", e.Type(), e.Lease)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- svc.Run(ctx) }()
	r.await("an answer", func() bool { return r.active("other") != 0 })
	first := r.active("other")
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if first != 6 {
		t.Fatalf("its first answer was lease %d", first)
	}
}
