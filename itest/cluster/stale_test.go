package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/itest/clustertest"
)

var staleAppends = flag.Int("cluster.stale", 30_000, "how many stale appends TestI1_StaleAppends tries, on one replica and on three")

// wholeEvery: after so many requests one is the whole of Append, which says by
// whom it is fenced.
const wholeEvery = 100

// TestI1_StaleAppends: a deposed holder whose process goes on appends again and
// again, on connections to all servers, while the new holder works: none is
// stored. Most are the request of an append alone, many in flight at a time; the
// others the whole of Append, single events and batches, which says by whom it
// is fenced.
func TestI1_StaleAppends(t *testing.T) {
	c := clustertest.Start(t)
	for _, replicas := range []int{1, 3} {
		t.Run(fmt.Sprintf("R%d", replicas), func(t *testing.T) {
			cfg := journal.Config{Stream: fmt.Sprintf("STALE%d", replicas), Replicas: replicas}
			if replicas == 3 { // two streams can't share subjects
				js := c.JS(t)
				if err := js.DeleteStream(within(t, 10*time.Second), "STALE1"); err != nil {
					t.Fatal(err)
				}
			}
			l := openLog(t, c.URL(), cfg)
			old := claim(t, l, "s", "a", 1)
			stored := 0
			if r, err := l.NewWriter(old).Append(within(t, 10*time.Second), retired("s", 1, 3)); err != nil || !r.Landed {
				t.Fatal(r, err)
			}
			stored += 3
			now := l.NewWriter(claim(t, l, "s", "b", 2))
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			var working sync.WaitGroup
			appended, reopened := 0, 0
			working.Go(func() { // the new one works on
				for ctx.Err() == nil {
					r, err := now.Append(context.WithoutCancel(ctx), retired("s", 2, 2))
					if err != nil || !r.Landed {
						t.Errorf("the new holder: %+v, %v", r, err)
						return
					}
					appended += 2
					reopened += len(r.Events) - 2
					<-time.After(10 * time.Millisecond) // so that many meet the fence, not an append in flight
				}
			})
			const workers = 2 * clustertest.Servers
			tally := &refusals{}
			var wg sync.WaitGroup
			begin := time.Now()
			for i := range workers {
				dead := openLog(t, c.URLOf(i%clustertest.Servers), cfg)
				nc := clustertest.Connect(t, c.URLOf(i%clustertest.Servers))
				wg.Go(func() {
					for left := *staleAppends / workers; left > 0; left -= wholeEvery {
						evs := retired("s", 1, 1)
						if left/wholeEvery%20 == 0 { // a stream that has discarded 50 batches takes none for 10 s
							evs = retired("s", 1, 3)
						}
						if _, err := dead.NewWriter(old).Append(context.WithoutCancel(ctx), evs); !isFenced(err, 2, "b") {
							t.Errorf("a stale append: %v", err)
							return
						}
						if err := tally.publish(nc, old, wholeEvery); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			took := time.Since(begin)
			cancel()
			working.Wait()
			at, openings := contents(t, l, "s")
			if tally.fence.Load()+tally.inFlight.Load() < int64(*staleAppends) || tally.fence.Load() == 0 || len(openings) != 2+reopened || len(at)-len(openings) != stored+appended {
				t.Errorf("%d stale appends; %d events, %d appended by the new holder; %d openings, %d of the new holder's own", tally.fence.Load()+tally.inFlight.Load(), len(at)-len(openings), appended, len(openings), reopened)
			}
			t.Logf("R%d: %d stale appends (%d refused by the fence, %d because one of the new holder's was in flight) in %v, none stored; %d events of the new holder meanwhile, %d reopenings of its own",
				replicas, tally.fence.Load()+tally.inFlight.Load(), tally.fence.Load(), tally.inFlight.Load(), took.Round(time.Second), appended, reopened)
		})
	}
}

// refusals counts what stale requests were answered.
type refusals struct{ fence, inFlight atomic.Int64 }

// publish sends n requests as a writer of the term would, all in flight at once,
// and waits for the answers: each must be a refusal.
func (r *refusals) publish(nc *nats.Conn, term journal.Term, n int) error {
	inbox := nc.NewInbox()
	answers := make(chan *nats.Msg, n)
	sub, err := nc.ChanSubscribe(inbox, answers)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	for _, e := range retired(term.Scope, term.Epoch, n) {
		chain := term.Chain
		payload, err := chain.Seal(&e)
		if err != nil {
			return err
		}
		err = nc.PublishMsg(&nats.Msg{
			Subject: "lease." + e.Scope + "." + e.Name + "." + string(e.Type()), Reply: inbox, Data: payload,
			Header: nats.Header{
				"Nats-Expected-Last-Subject-Sequence":         {strconv.FormatUint(term.Fence, 10)},
				"Nats-Expected-Last-Subject-Sequence-Subject": {events.OpenedSubject(term.Scope)},
			},
		})
		if err != nil {
			return err
		}
	}
	timeout := time.After(30 * time.Second)
	for range n {
		select {
		case m := <-answers:
			var ack struct {
				Seq   uint64 `json:"seq"`
				Error struct {
					Code int `json:"err_code"`
				} `json:"error"`
			}
			err := json.Unmarshal(m.Data, &ack)
			switch {
			case err == nil && ack.Error.Code == 10071:
				r.fence.Add(1)
			case err == nil && ack.Error.Code == 10164:
				r.inFlight.Add(1)
			default:
				return fmt.Errorf("a stale append came to %q %v", m.Data, err)
			}
		case <-timeout:
			return errors.New("a stale append was not answered in 30 s")
		}
	}
	return nil
}
