package clustertest_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasesvc/leasesvc/itest/clustertest"
)

func TestMain(m *testing.M) { clustertest.Main(m) }

// TestFaultsHappen: a server that is killed, stopped or cut off is, and what was
// acknowledged before is there after.
func TestFaultsHappen(t *testing.T) {
	c := clustertest.Start(t)
	js := c.JS(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "s", Subjects: []string{"s.>"}, Replicas: 3}); err != nil {
		t.Fatal(err)
	}
	stored := 0
	publish := func() {
		t.Helper()
		clustertest.Await(t, 30*time.Second, "a publish to be acknowledged", func() bool {
			rctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			defer cancel()
			_, err := js.Publish(rctx, "s.x", nil, jetstream.WithExpectLastSequencePerSubject(uint64(stored)))
			if err == nil {
				stored++
				return true
			}
			// An answer may have been lost: what is there decides.
			if m, gerr := js.Stream(rctx, "s"); gerr == nil {
				stored = int(m.CachedInfo().State.LastSeq)
			}
			return false
		})
	}
	publish()
	killed := c.AwaitStreamLeader("s")
	c.Kill(killed)
	if c.Running(killed) || c.StreamLeader("s") == killed {
		t.Fatal("the killed server runs")
	}
	publish()
	c.Restart(killed)
	c.AwaitReady()

	stopped := c.AwaitStreamLeader("s")
	c.Stop(stopped)
	clustertest.Await(t, 30*time.Second, "another leader than the stopped one", func() bool { return c.StreamLeader("s") >= 0 })
	publish()
	c.Wake(stopped)
	c.AwaitReady()
	c.MoveLeader("s", (stopped+1)%clustertest.Servers)

	var dropped atomic.Int64
	p := clustertest.NewProxy(t, c.URLOf(0), func(f clustertest.Frame) clustertest.Verdict {
		if f.ToClient && dropped.CompareAndSwap(0, 1) {
			return clustertest.Drop
		}
		return clustertest.Pass
	}, nil)
	nc := clustertest.Connect(t, p.URL())
	if _, err := nc.Request("$JS.API.INFO", nil, 300*time.Millisecond); err == nil {
		t.Error("the answer was not dropped")
	}
	if _, err := nc.Request("$JS.API.INFO", nil, 5*time.Second); err != nil || p.Count(clustertest.Drop) != 1 {
		t.Errorf("%v; %d dropped", err, p.Count(clustertest.Drop))
	}
	before := nc.Stats().Reconnects
	p.CutAll()
	clustertest.Await(t, 10*time.Second, "a new connection", func() bool { return nc.IsConnected() && nc.Stats().Reconnects > before })
}
