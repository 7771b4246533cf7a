package service_test

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/service"
)

// TestSweepPurgesWhatNoEventNames, however much of it there is, and leaves what one
// names.
func TestSweepPurgesWhatNoEventNames(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.definitions(1, otherDefinition)
	svc, _ := r.start("state-a")
	r.await("a lease", func() bool { return r.active("other") == 1 })
	js, err := jetstream.New(r.nats.Conn(t))
	if err != nil {
		t.Fatal(err)
	}
	put := func(name string, lease int) {
		if _, err := js.PublishAsync(fmt.Sprintf("$KV.%s.prod.%s.%d", handover.BlobsBucket, name, lease), []byte("sealed")); err != nil {
			t.Fatal(err)
		}
	}
	const ghosts = 2500
	for i := range ghosts {
		put(fmt.Sprint("ghost-", i), 1000+i)
	}
	put("other", 77)
	<-js.PublishAsyncComplete()
	for _, want := range []int{ghosts + 1, 0} {
		if n, err := service.Sweep(aBit(t), svc, "prod"); err != nil || n != want {
			t.Fatalf("%d swept, not %d: %v", n, want, err)
		}
	}
	blobs, err := handover.OpenBlobs(aBit(t), js, handover.BlobsBucket, 1)
	if err != nil {
		t.Fatal(err)
	}
	left, err := blobs.List(aBit(t), "prod")
	if err != nil || len(left) != 1 || left[0].Name != "other" || left[0].Lease != 1 {
		t.Errorf("left are %v, %v", left, err)
	}
	if _, err := svc.Get(aBit(t), "prod", "other"); err != nil {
		t.Error(err)
	}
}
