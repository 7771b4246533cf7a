package service_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/service"
	"github.com/leasesvc/leasesvc/service/api"
)

// TestOverloadRefusesCallsAndMissesNoRenewal: more requests than a slow log takes
// are told to come again, and in how long; the leases are renewed all the same, and
// whoever reads is answered.
func TestOverloadRefusesCallsAndMissesNoRenewal(t *testing.T) {
	t.Parallel()
	r := newRig(t, "8s", "1h")
	r.heartbeat = "500ms" // one of a slow machine is late by more than a quiet window of 600 ms
	const names = 30
	var lines strings.Builder
	for i := range names {
		fmt.Fprintf(&lines, "  n%d: {path: database/creds/app, kind: postgresql, good_for: 0s}\n", i)
	}
	r.definitions(1, lines.String())
	r.before = func(s *service.Service) {
		service.HoldAppendsBack(s, func([]events.Event) error {
			<-time.After(20 * time.Millisecond) // each append takes as long
			return nil
		})
	}
	svc, _ := r.start("state-a")
	r.await("the leases", func() bool { return r.count(events.TypeInstalled) >= names })

	ctx, cancel := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	defer flood.Wait()
	defer cancel()
	var asked, busy, other atomic.Int64
	problems := make(chan string, 1)
	for range 4 {
		nc := r.nats.Conn(t)
		outstanding := make(chan struct{}, 500) // more than are answered at once
		inbox := nats.NewInbox()
		sub, err := nc.Subscribe(inbox, func(m *nats.Msg) {
			<-outstanding
			var p api.Problem
			switch err := json.Unmarshal(m.Data, &p); {
			case err == nil && p.Code == api.CodeBusy && strings.Contains(p.Message, "try again in 100 ms"):
				busy.Add(1)
			case err == nil && p.Code == api.CodeUnknownName:
				other.Add(1)
			default:
				select {
				case problems <- string(m.Data):
				default:
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		flood.Go(func() {
			defer func() { _ = sub.Unsubscribe() }()
			for {
				select {
				case outstanding <- struct{}{}:
				case <-ctx.Done():
					return
				}
				asked.Add(1)
				if err := nc.PublishRequest(api.Subject(api.OpRotate, "prod", "nobody"), inbox, nil); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	renewed := func() int { return r.count(events.TypeRenewed) }
	from := renewed()
	r.await("two renewals of each", func() bool {
		if _, err := svc.Get(ctx, "prod", "n0"); err != nil {
			t.Errorf("a get failed: %v", err)
		}
		return renewed() >= from+2*names
	})
	cancel()
	select {
	case p := <-problems:
		t.Errorf("somebody was told: %s", p)
	default:
	}
	if busy.Load() == 0 || other.Load() == 0 {
		t.Errorf("of %d requests %d were told to come again and %d were decided: this is no overload", asked.Load(), busy.Load(), other.Load())
	}
	for _, typ := range []events.Type{events.TypeExpired, events.TypeRenewFailed} {
		if n := r.count(typ); n > 0 {
			t.Errorf("%d events %s", n, typ)
		}
	}
	if n := r.count(events.TypeRequested); n != names {
		t.Errorf("%d leases were asked for, not %d", n, names)
	}
}
