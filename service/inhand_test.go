package service_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/service"
)

// TestAHandoverReadsNothingBack: verifier, consumer and readers get the values of a
// lease that was acquired just now without a look into the store; nothing of them is
// held beside it afterwards.
func TestAHandoverReadsNothingBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.definitions(1, appDefinition)
	svc, _ := r.start("state-a")
	s := &shop{rig: r}
	r.serve(s)
	r.await("a lease", func() bool { return r.active("app") == 1 })

	var mu sync.Mutex
	var read []string
	nc := r.nats.Conn(t)
	for _, api := range []string{"$JS.API.STREAM.MSG.GET.", "$JS.API.DIRECT.GET."} {
		sub, err := nc.Subscribe(api+"KV_"+handover.BlobsBucket+".>", func(m *nats.Msg) {
			mu.Lock()
			defer mu.Unlock()
			read = append(read, m.Subject+" "+string(m.Data))
		})
		if err != nil {
			t.Fatal(err)
		}
		exact, err := nc.Subscribe(strings.TrimSuffix(api, ".")+".KV_"+handover.BlobsBucket, func(m *nats.Msg) {
			mu.Lock()
			defer mu.Unlock()
			if strings.Contains(string(m.Data), ".app.2") {
				read = append(read, m.Subject+" "+string(m.Data))
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _, _ = sub.Unsubscribe(), exact.Unsubscribe() }()
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	r.done(r.api().Rotate(aBit(t), "prod", "app"))
	r.await("the hand-over", func() bool { return r.active("app") == 2 && s.lease() == 2 })
	got, err := svc.Get(aBit(t), "prod", "app")
	if err != nil || got.Lease != 2 || len(got.Values) == 0 {
		t.Fatalf("lease %d with %d bytes, %v", got.Lease, len(got.Values), err)
	}
	r.await("the end of the one before", func() bool { return r.count(events.TypeRevoked) == 1 })
	mu.Lock()
	defer mu.Unlock()
	if len(read) > 0 {
		t.Errorf("read back: %s", strings.Join(read, "; "))
	}
	if n := service.InHand(svc, "prod"); n > 0 {
		t.Errorf("values of %d names are held beside the store", n)
	}
}
