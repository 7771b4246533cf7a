package cluster

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/itest/clustertest"
	"github.com/leasesvc/leasesvc/service/api"
)

var kills = flag.Int("cluster.kills", 20, "how many processes TestKillsLoseNothing kills")

// TestKillsLoseNothing kills servers and instances at random moments while
// credentials are rotated all the time: what was acknowledged, as instances said
// and an independent follower and API clients saw, is in the log afterwards; no
// event stands twice, the MAC chain has no gap, and epochs grow (I1).
func TestKillsLoseNothing(t *testing.T) {
	const names = 4
	c := clustertest.Start(t)
	d := clustertest.Deploy(t, c, clustertest.Options{Names: names, TTL: "6s", MaxTTL: "15s"})
	in := []*clustertest.Instance{d.Instance("a"), d.Instance("b")}
	d.Leads("prod", 0, time.Minute)
	r := d.Record()
	d.Usable("prod", names, time.Minute)
	c.AwaitReady()

	ctx, cancel := context.WithCancel(t.Context())
	load := &load{d: d, names: names}
	var working sync.WaitGroup
	working.Go(func() { load.rotate(ctx) })
	defer working.Wait()
	defer cancel()

	rnd := rand.New(rand.NewPCG(*seed, 1))
	happened := map[string]int{}
	for n := 0; n < *kills; {
		<-time.After(time.Duration(rnd.Int64N(int64(1500 * time.Millisecond))))
		var servers, instances []int
		switch draw := rnd.IntN(10); {
		case draw < 5:
			instances = []int{rnd.IntN(len(in))}
		case draw < 8:
			servers = []int{rnd.IntN(clustertest.Servers)}
		case draw < 9:
			servers, instances = []int{rnd.IntN(clustertest.Servers)}, []int{rnd.IntN(len(in))}
		default:
			servers = []int{0, 1, 2}
		}
		happened[fmt.Sprintf("%d servers, %d instances", len(servers), len(instances))]++
		n += len(servers) + len(instances)
		before := r.Last()
		for _, i := range instances {
			in[i].Kill()
		}
		for _, i := range servers {
			c.Kill(i)
		}
		<-time.After(time.Duration(rnd.Int64N(int64(2 * time.Second))))
		for _, i := range servers {
			c.Restart(i)
		}
		for _, i := range instances {
			in[i].Start()
		}
		if len(servers) > 0 {
			c.AwaitReady() // another one may be killed
		}
		r.AwaitMatch("an event after a kill", before, 90*time.Second, func(s *clustertest.Seen) bool { return s.Type() == events.TypeInstalled })
	}
	cancel()
	working.Wait()
	c.AwaitReady()
	st := d.Leads("prod", 0, time.Minute)
	d.Usable("prod", names, time.Minute)
	r.AwaitMatch("the follower to catch up", 0, time.Minute, func(s *clustertest.Seen) bool { return s.Seq >= st.LastSeq })

	checked := r.Check(in...)
	load.check(t, r)
	t.Logf("killed: %v", happened)
	t.Logf("%d events, of which %d were said by instances to be in the log; %d takeovers, %d reopenings; %d rotations acknowledged, %d refused, %d unanswered",
		checked.Events, checked.Told, checked.Takeovers, checked.Reopened, len(load.acknowledged), load.refused, load.unanswered)
	if checked.Told < 100 || len(load.acknowledged) < 10 || checked.Takeovers < 3 {
		t.Error("too little happened for this to prove anything")
	}
}

// load asks for rotations and remembers what was acknowledged.
type load struct {
	d     *clustertest.Deployment
	names int

	acknowledged        []uint64 // the log's last sequence at the answer
	refused, unanswered int
}

func (l *load) rotate(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		rctx, cancel := context.WithTimeout(ctx, time.Second)
		done, err := l.d.API.Rotate(rctx, "prod", fmt.Sprintf("n%d", n%l.names))
		cancel()
		var problem *api.Problem
		switch {
		case err == nil:
			l.acknowledged = append(l.acknowledged, done.Seq)
		case errors.As(err, &problem):
			l.refused++
		default:
			l.unanswered++
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// check looks that the log holds what was acknowledged.
func (l *load) check(t *testing.T, r *clustertest.Recorder) {
	t.Helper()
	there := map[uint64]bool{}
	for _, s := range r.Select(func(*clustertest.Seen) bool { return true }) {
		there[s.Seq] = true
	}
	for _, seq := range l.acknowledged {
		if !there[seq] {
			t.Errorf("a rotation was acknowledged at sequence %d, which is not in the log", seq)
		}
	}
}
