package service_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/handover/wire"
	"github.com/leasesvc/leasesvc/service"
)

// TestC29_RestartAcquiresNothing: the old leases go on, whether the process left in
// good order or not.
func TestC29_RestartAcquiresNothing(t *testing.T) {
	t.Parallel()
	r := newCaseRig(t, "1h", "2h")
	reads := r.watch("database/creds/app", nil)
	r.definitions(1, definition("app", "")+definition("batch", ""))
	stop := r.run("state-a")
	r.await("both leases", func() bool { return r.count(events.TypeInstalled) == 2 })
	app, batch := r.active("app"), r.active("batch")
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	second, stop := r.start("state-a")
	r.await("the restarted holder", func() bool {
		return r.count(events.TypeOpened) == 2 && r.serves(second, "app") && r.serves(second, "batch")
	})
	service.CutOff(second) // as a kill does
	_ = stop()             // which NATS hears nothing of
	third, _ := r.start("state-a")
	r.await("the holder restarted after a kill", func() bool {
		return r.count(events.TypeOpened) == 3 && r.serves(third, "app") && r.serves(third, "batch")
	})
	r.definitions(2, definition("app", "")+definition("batch", "")+definition("later", ""))
	r.done(r.api().Apply(aBit(t), "prod"))
	r.await("a lease that is new", func() bool { return r.active("later") != 0 }) // what was owed before it is done, too
	if n := reads.count(); n != 3 || r.count(events.TypeRequested) != 3 || r.active("app") != app || r.active("batch") != batch {
		t.Errorf("%d credentials were read and %d asked for, 3 names have one each; app has lease %d, had %d; batch has %d, had %d",
			n, r.count(events.TypeRequested), r.active("app"), app, r.active("batch"), batch)
	}
	if n := len(r.events(events.TypeRevoking)); n > 0 {
		t.Errorf("%d leases were revoked", n)
	}
}

// TestC29_RestartWhileVaultIsOut: what can't be renewed because we have no token yet
// is renewed when we have one, and no successor is asked for: nobody has refused.
func TestC29_RestartWhileVaultIsOut(t *testing.T) {
	t.Parallel()
	r := newCaseRig(t, "1h", "2h")
	r.definitions(1, definition("app", ", renew_at: 0.0003"))
	stop := r.run("state-a")
	r.await("a renewal", func() bool { return r.count(events.TypeRenewed) > 0 })
	lease := r.active("app")
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	renewed := r.count(events.TypeRenewed)
	sealed := r.vault.Inject(devvault.Fault{Status: 503, Body: `{"errors":["Vault is sealed"]}`})
	r.run("state-a")
	r.await("a renewal that can't be made", func() bool { return r.count(events.TypeRenewFailed) > 0 })
	failed := data[*events.RenewFailed](t, r.events(events.TypeRenewFailed)[0])
	if failed.Kind != "not-logged-in" || failed.Refused || !strings.Contains(failed.Message, "sealed") {
		t.Errorf("it failed as %q, refused: %v: %s", failed.Kind, failed.Refused, failed.Message)
	}
	if sealed.Hits() == 0 {
		t.Error("Vault was not asked")
	}
	sealed.Remove()
	r.await("a renewal", func() bool { return r.count(events.TypeRenewed) > renewed })
	if n := r.count(events.TypeRequested); n != 1 || r.active("app") != lease {
		t.Errorf("%d credentials were asked for, lease %d is active", n, r.active("app"))
	}
}

func (r *rig) serves(s *service.Service, name string) bool {
	_, err := s.Get(context.Background(), "prod", name)
	return err == nil
}

// TestC51_TheMachineSlept: on waking nothing that has expired is served, in process
// or over NATS, and what is due is done.
func TestC51_TheMachineSlept(t *testing.T) {
	t.Parallel()
	r := newCaseRig(t, "1h", "2h")
	r.definitions(1, definition("app", ""))
	svc, _ := r.start("state-a")
	r.await("a lease", func() bool { return r.count(events.TypeInstalled) == 1 && r.serves(svc, "app") })
	expired := r.active("app")
	grants := r.hold("GET", "database/creds/app") // so that there is no successor yet
	service.Sleep(svc, 90*time.Minute)

	got, err := svc.Get(context.Background(), "prod", "app")
	var refused wire.Refusal
	if !errors.As(err, &refused) || refused.Code != wire.CodeExpired {
		t.Errorf("on waking the service gives lease %d, %v, not that it has expired", got.Lease, err)
	}
	if c, err := r.reader().Get(aBit(t), "app"); err == nil || errors.Is(err, consumer.ErrUnavailable) {
		t.Errorf("on waking a reader is given lease %d, %v, not that it has expired", c.Lease, err)
	}
	r.await("the reading of a successor", func() bool { return grants.Hits() > 0 })
	grants.pass()
	r.await("a successor", func() bool { return r.active("app") > expired && r.serves(svc, "app") })
	if got, err = svc.Get(context.Background(), "prod", "app"); err != nil || got.Lease == expired {
		t.Errorf("lease %d is served, %v", got.Lease, err)
	}
	r.await("the end of the lease that expired", func() bool {
		return len(r.of(events.TypeExpired, "app", expired))+len(r.of(events.TypeRevoked, "app", expired)) > 0
	})
}
