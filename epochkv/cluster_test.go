package epochkv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
)

// runCluster starts three servers that know each other.
func runCluster(t *testing.T) []*server.Server {
	t.Helper()
	// A clustered JetStream wants its routes from the start, so the ports are
	// chosen before: free a moment ago.
	var ports []int
	var routes []*url.URL
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
		routes = append(routes, &url.URL{Scheme: "nats-route", Host: l.Addr().String()})
		_ = l.Close()
	}
	var servers []*server.Server
	for i := range 3 {
		servers = append(servers, runServer(t, func(o *server.Options) {
			o.ServerName = fmt.Sprintf("n%d", i)
			o.Cluster = server.ClusterOpts{Name: "epochs", Host: "127.0.0.1", Port: ports[i]}
			o.Routes = routes
		}))
	}
	eventually(t, "JetStream has a leader that knows three peers", func() bool {
		for _, s := range servers {
			if s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == 3 {
				return true
			}
		}
		return false
	})
	return servers
}

func urls(servers []*server.Server) string {
	var u []string
	for _, s := range servers {
		u = append(u, s.ClientURL())
	}
	return strings.Join(u, ",")
}

func streamLeader(t *testing.T, js jetstream.JetStream, bucket string) string {
	t.Helper()
	var leader string
	eventually(t, "the bucket's stream has a leader", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		st, err := js.Stream(ctx, streamName(bucket))
		if err != nil || st.CachedInfo().Cluster == nil {
			return false
		}
		leader = st.CachedInfo().Cluster.Leader
		return leader != ""
	})
	return leader
}

func TestR3_AServersDeathDeposesNobody(t *testing.T) {
	servers := runCluster(t)
	const beat = 100 * time.Millisecond
	real := func(c *Config) {
		c.Replicas, c.Heartbeat, c.RequestTimeout, c.now = 3, beat, time.Second, time.Now
	}
	js := connect(t, urls(servers))
	a := start(t, js, newClock(), "", real)
	b := start(t, connect(t, urls(servers)), newClock(), "", real)

	var wg sync.WaitGroup
	holding, crash := context.WithCancel(t.Context())
	challenging, stop := context.WithCancel(t.Context())
	defer func() { crash(); stop(); wg.Wait() }()
	epoch := a.step("x").Epoch
	if epoch == 0 {
		t.Fatal("not claimed")
	}
	wg.Go(func() { // the holder
		for wait(holding, beat) == nil {
			if err := a.Renew(holding, nil); errors.As(err, new(*Fenced)) {
				t.Errorf("holder: %v", err)
				return
			}
		}
	})
	wg.Go(func() { // the challenger
		for wait(challenging, beat) == nil {
			_ = b.Renew(challenging, nil)
			if _, err := b.ClaimStep(challenging, "x", 0); err != nil && errors.As(err, new(*Fenced)) {
				t.Errorf("challenger: %v", err)
			}
		}
	})

	for i, s := range servers {
		if s.Name() != streamLeader(t, js, DefaultBucket) {
			continue
		}
		renewed := a.Stats().Renewals
		s.Shutdown()
		s.WaitForShutdown()
		t.Logf("server n%d, the bucket's leader, is down", i)
		down := time.Now()
		eventually(t, "the holder renews again", func() bool { return a.Stats().Renewals >= renewed+5 })
		t.Logf("renewing again after %s", time.Since(down).Round(time.Millisecond))
		break
	}
	if got := b.Stats().Deposals; got != 0 || b.Held("x") != 0 || a.Held("x") != epoch {
		t.Errorf("a server's death deposed the holder: %d deposals", got)
	}
	crash()
	eventually(t, "the challenger leads after the holder died", func() bool { return b.Held("x") > epoch })
}

// TestR3_ClaimantsAreLinearizable is TestClaimantsAreLinearizable on a
// replicated bucket whose leader steps down again and again.
func TestR3_ClaimantsAreLinearizable(t *testing.T) {
	servers := runCluster(t)
	cs := &claimants{
		t: t, seed: *claimantSeed, n: 4, scopes: []string{"a", "b"}, rate: 1,
		cfg:     Config{Bucket: "r3", Create: true, Replicas: 3, Heartbeat: 15 * time.Millisecond, RequestTimeout: time.Second},
		connect: func(i int) jetstream.JetStream { return connect(t, servers[i%3].ClientURL()) },
	}
	js := connect(t, urls(servers))
	if _, err := js.CreateStream(t.Context(), StreamConfig("r3", 3)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	moved := 0
	wg.Go(func() {
		for wait(ctx, 700*time.Millisecond) == nil {
			rctx, done := context.WithTimeout(ctx, time.Second)
			if m, err := js.Conn().RequestWithContext(rctx, "$JS.API.STREAM.LEADER.STEPDOWN.KV_r3", nil); err == nil && strings.Contains(string(m.Data), `"success":true`) {
				moved++
			}
			done()
		}
	})
	cs.run(2 * *claimantTime)
	cancel()
	wg.Wait()
	if moved == 0 {
		t.Error("the leader never stepped down")
	}
	t.Logf("the leader stepped down %d times", moved)
}

// TestCheckerTellsViolations: a checker that finds nothing proves nothing.
func TestCheckerTellsViolations(t *testing.T) {
	put := func(call int64, expected, rev uint64, attempt string) op {
		return op{key: "k", call: call, ret: call + 1, expected: expected, rev: rev, attempt: attempt}
	}
	read := func(call int64, rev uint64, attempt string) op {
		return op{key: "k", call: call, ret: call + 1, rev: rev, attempt: attempt, get: true}
	}
	lost := op{key: "k", call: 3, expected: 1, attempt: "lost", unknown: true}
	for name, tc := range map[string]struct {
		ops []op
		ok  bool
	}{
		"good":                     {[]op{put(0, 0, 1, "a"), put(2, 1, 2, "b"), read(4, 2, "b")}, true},
		"two over one revision":    {[]op{put(0, 0, 1, "a"), put(2, 1, 2, "b"), put(4, 1, 3, "c")}, false},
		"stale read":               {[]op{put(0, 0, 1, "a"), put(2, 1, 2, "b"), read(4, 1, "a")}, false},
		"revision went back":       {[]op{put(0, 0, 5, "a"), put(2, 5, 4, "b")}, false},
		"refused without reason":   {[]op{put(0, 0, 1, "a"), {key: "k", call: 2, ret: 3, expected: 1, refused: true}}, false},
		"lost and applied":         {[]op{put(0, 0, 1, "a"), lost, read(9, 2, "lost")}, true},
		"lost and not applied":     {[]op{put(0, 0, 1, "a"), lost, put(9, 1, 2, "b"), read(12, 2, "b")}, true},
		"lost, applied, undone":    {[]op{put(0, 0, 1, "a"), lost, read(9, 2, "lost"), read(12, 1, "a")}, false},
		"read before it was asked": {[]op{put(0, 0, 1, "a"), read(1, 2, "b"), put(5, 1, 2, "b")}, false},
	} {
		if _, bad := (&history{ops: tc.ops}).check(); (len(bad) == 0) != tc.ok {
			t.Errorf("%s: the checker says %v", name, bad)
		}
	}
}
