package service_test

import (
	"context"
	"errors"
	"testing"

	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/service"
)

// leading runs an instance that leads with a lease of app's and other's.
func leading(t *testing.T) (*rig, *service.Service, func() error) {
	r := newRig(t, "1h", "2h")
	r.definitions(1, otherDefinition)
	svc, stop := r.start("state-a")
	r.await("a lease", func() bool { return r.active("other") != 0 })
	return r, svc, stop
}

// TestGetInProcess gives what a get over NATS gives, without allocating once the
// values are open.
func TestGetInProcess(t *testing.T) {
	r, svc, stop := leading(t)
	ctx := context.Background()
	over, err := r.reader().Get(ctx, "other")
	if err != nil {
		t.Fatal(err)
	}
	got, err := svc.Get(ctx, "prod", "other")
	if err != nil || got.Lease != over.Lease || got.Epoch != over.Epoch || got.GoodFor <= 0 || got.ExpiresIn <= 0 || len(got.Values) == 0 {
		t.Fatal(got, err)
	}
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := svc.Get(ctx, "prod", "other"); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for each get", n)
	}
	if _, err := svc.Get(ctx, "prod", "nobody"); !errors.Is(err, leasecore.ErrUnknownName) {
		t.Error(err)
	}
	if _, err := svc.Get(ctx, "elsewhere", "other"); err == nil {
		t.Error("a credential of a scope that is not ours")
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := svc.Get(ctx, "prod", "other"); err == nil {
		t.Error("a credential of a scope that is not led")
	}
}
