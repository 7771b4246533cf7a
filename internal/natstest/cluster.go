package natstest

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// A raft election takes 4 to 9 s, and two may be needed.
	leaderWithin = 60 * time.Second
	leaderPoll   = 20 * time.Millisecond
)

// Servers are clustered embedded NATS servers with JetStream.
type Servers struct {
	all []*Server
}

// Cluster starts n servers (3 or more, odd) that form a cluster and returns
// when JetStream has a leader that all of them follow.
func Cluster(t testing.TB, n int, opts ...Option) *Servers {
	t.Helper()
	ports := routePorts(t, n)
	var routes []*url.URL
	for _, port := range ports {
		routes = append(routes, &url.URL{Scheme: "nats-route", Host: fmt.Sprintf("127.0.0.1:%d", port)})
	}
	c := &Servers{}
	for i, port := range ports {
		clustered := func(o *server.Options) {
			o.Cluster = server.ClusterOpts{Name: "natstest", Host: "127.0.0.1", Port: port}
			o.Routes = routes
		}
		c.all = append(c.all, newServer(t, fmt.Sprintf("n%d", i), append([]Option{clustered}, opts...)))
	}
	// Waiting for one server before starting the next would wait for ever:
	// JetStream serves only when a majority is up. Start waits for the
	// listener only, so in a row is fine.
	for i, s := range c.all {
		if err := s.Start(); err != nil {
			t.Fatalf("natstest: server %d: %v", i, err)
		}
	}
	c.AwaitReady(t)
	return c
}

// routePorts finds n free ports that the servers can name to each other before
// any of them runs.
func routePorts(t testing.TB, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("natstest: find a free port: %v", err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// AwaitReady waits until JetStream has a leader, each running server follows it,
// and the leader has heard enough of each to place a stream there.
func (c *Servers) AwaitReady(t testing.TB) {
	t.Helper()
	for deadline := time.Now().Add(leaderWithin); !c.ready(); time.Sleep(leaderPoll) {
		if time.Now().After(deadline) {
			t.Fatalf("natstest: the cluster has no JetStream leader that follows all running servers, and they it, after %v", leaderWithin)
		}
	}
}

func (c *Servers) ready() bool {
	running, usable := 0, 0
	for _, s := range c.all {
		ns := s.Embedded()
		if ns == nil {
			continue
		}
		if !ns.JetStreamIsCurrent() {
			return false
		}
		running++
		// Only the leader tells: who is not offline and has said how much room
		// there is. Before that, a stream finds "no suitable peers" (10005).
		usable = max(usable, len(ns.JetStreamClusterPeers()))
	}
	return usable >= running
}

// Server is the i-th server, from 0.
func (c *Servers) Server(i int) *Server { return c.all[i] }

// Len is how many servers there are, running or not.
func (c *Servers) Len() int { return len(c.all) }

// Stop shuts the i-th server down and waits for it.
func (c *Servers) Stop(i int) { c.all[i].Stop() }

// Start starts the i-th server again; it returns when the server accepts
// connections, which is before it has caught up ([Servers.AwaitReady]).
func (c *Servers) Start(i int) error { return c.all[i].Start() }

// URL lists all servers, for a client that may go to any of them.
func (c *Servers) URL() string {
	var urls []string
	for _, s := range c.all {
		urls = append(urls, s.URL())
	}
	return strings.Join(urls, ",")
}

// Conn connects to any of the servers; the connection is closed at t's end.
func (c *Servers) Conn(t testing.TB, opts ...nats.Option) *nats.Conn {
	t.Helper()
	return connect(t, c.URL(), opts)
}

// JS connects to any of the servers and gives their JetStream.
func (c *Servers) JS(t testing.TB, opts ...nats.Option) jetstream.JetStream {
	t.Helper()
	return jetStream(t, c.Conn(t, opts...))
}

// StreamLeader tells which server leads the stream, -1 when none does at the
// moment.
func (c *Servers) StreamLeader(stream string) int {
	for i, s := range c.all {
		if ns := s.Embedded(); ns != nil && ns.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream) {
			return i
		}
	}
	return -1
}

// AwaitStreamLeader waits until a server leads the stream and tells which.
func (c *Servers) AwaitStreamLeader(t testing.TB, stream string) int {
	t.Helper()
	for deadline := time.Now().Add(leaderWithin); ; time.Sleep(leaderPoll) {
		if i := c.StreamLeader(stream); i >= 0 {
			return i
		}
		if time.Now().After(deadline) {
			t.Fatalf("natstest: stream %s has no leader after %v", stream, leaderWithin)
		}
	}
}
