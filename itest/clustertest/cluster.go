package clustertest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasesvc/leasesvc/itest/proctest"
)

const (
	// A raft election takes 4 to 9 s, and two may be needed.
	readyWithin = 60 * time.Second
	poll        = 20 * time.Millisecond
)

// Servers is how many NATS servers there are.
const Servers = 3

// Cluster is three nats-server processes that form a cluster.
type Cluster struct {
	t     testing.TB
	dir   string
	nodes [Servers]*node
	admin *nats.Conn
}

// node is one nats-server, running or not.
type node struct {
	name                   string
	config, log            string
	client, route, monitor int
	process                *proctest.Process
	stopped                bool
}

// Start starts the cluster and returns when JetStream has a leader that all
// servers follow. It is ended at t's end.
func Start(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{t: t, dir: t.TempDir()}
	ports := freePorts(t, 3*Servers)
	for i := range c.nodes {
		c.nodes[i] = &node{name: fmt.Sprintf("n%d", i), client: ports[3*i], route: ports[3*i+1], monitor: ports[3*i+2]}
	}
	for _, n := range c.nodes {
		n.config, n.log = filepath.Join(c.dir, n.name+".conf"), filepath.Join(c.dir, n.name+".log")
		if err := os.WriteFile(n.config, []byte(c.configuration(n)), 0o600); err != nil {
			t.Fatalf("clustertest: %v", err)
		}
	}
	t.Cleanup(c.end)
	for i := range c.nodes {
		c.Restart(i)
	}
	c.admin = c.Conn(t)
	c.AwaitReady()
	return c
}

func (c *Cluster) configuration(n *node) string {
	var routes []string
	for _, other := range c.nodes {
		if other != n {
			routes = append(routes, fmt.Sprintf("nats-route://127.0.0.1:%d", other.route))
		}
	}
	return fmt.Sprintf(`
server_name: %s
host: 127.0.0.1
port: %d
http: "127.0.0.1:%d"
jetstream { store_dir: %q, sync_interval: always, max_memory_store: 256MB, max_file_store: 8GB }
cluster { name: clustertest, host: 127.0.0.1, port: %d, no_advertise: true, routes: [%s] }
`, n.name, n.client, n.monitor, filepath.Join(c.dir, n.name), n.route, strings.Join(routes, ", "))
}

// freePorts finds ports that the processes can be told of before they run.
func freePorts(t testing.TB, n int) (ports []int) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("clustertest: find a free port: %v", err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

func (c *Cluster) end() {
	if c.admin != nil {
		c.admin.Close()
	}
	for i, n := range c.nodes {
		if n.process != nil {
			c.Kill(i)
		}
	}
	if c.t.Failed() {
		for _, n := range c.nodes {
			b, err := os.ReadFile(n.log)
			if err == nil {
				c.t.Logf("%s said:\n%s", n.name, b[max(0, len(b)-2000):])
			}
		}
	}
}

// Kill kills the i-th server as kill -9 does and returns when it is gone.
func (c *Cluster) Kill(i int) {
	n := c.nodes[i]
	n.process.Kill()
	n.process, n.stopped = nil, false
}

// Stop stops the i-th server as SIGSTOP does: its connections stay open, and
// nobody answers on them.
func (c *Cluster) Stop(i int) {
	c.nodes[i].process.Signal(syscall.SIGSTOP)
	c.nodes[i].stopped = true
}

// Wake has a stopped server go on.
func (c *Cluster) Wake(i int) {
	c.nodes[i].process.Signal(syscall.SIGCONT)
	c.nodes[i].stopped = false
}

// Running tells whether the i-th server runs and is not stopped.
func (c *Cluster) Running(i int) bool { return c.nodes[i].process != nil && !c.nodes[i].stopped }

// Restart starts a killed server on its old ports and files and returns when it
// accepts connections, which is before it has caught up ([Cluster.AwaitReady]).
func (c *Cluster) Restart(i int) {
	c.t.Helper()
	n := c.nodes[i]
	p, err := proctest.Start(exec.Command(program(c.t, natsServer), "-c", n.config), n.log, syscall.SIGKILL)
	if err != nil {
		c.t.Fatalf("clustertest: %v", err)
	}
	n.process = p
	Await(c.t, readyWithin, n.name+" to accept connections", func() bool {
		conn, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", n.client))
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
}

// URLOf is where clients reach the i-th server.
func (c *Cluster) URLOf(i int) string { return fmt.Sprintf("nats://127.0.0.1:%d", c.nodes[i].client) }

// URL lists all servers.
func (c *Cluster) URL() string {
	var urls []string
	for i := range c.nodes {
		urls = append(urls, c.URLOf(i))
	}
	return strings.Join(urls, ",")
}

// Conn connects to any of the servers, with a connection that stays for good
// and is closed at t's end.
func (c *Cluster) Conn(t testing.TB, opts ...nats.Option) *nats.Conn {
	t.Helper()
	return Connect(t, c.URL(), opts...)
}

// Connect connects to url with a connection that notices a dead server within
// 3 s, reconnects for ever, and is closed at t's end.
func Connect(t testing.TB, url string, opts ...nats.Option) *nats.Conn {
	t.Helper()
	usual := []nats.Option{
		nats.Name(t.Name()), nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond), nats.RetryOnFailedConnect(true),
		nats.PingInterval(time.Second), nats.MaxPingsOutstanding(2), nats.ReconnectBufSize(-1),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}
	nc, err := nats.Connect(url, append(usual, opts...)...)
	if err != nil {
		t.Fatalf("clustertest: connect to %s: %v", url, err)
	}
	t.Cleanup(func() {
		closed := nc.StatusChanged(nats.CLOSED)
		nc.Close()
		select {
		case <-closed:
		case <-time.After(5 * time.Second):
		}
	})
	Await(t, readyWithin, "a connection to "+url, nc.IsConnected)
	return nc
}

// JS gives the JetStream of a connection of its own.
func (c *Cluster) JS(t testing.TB, opts ...nats.Option) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(c.Conn(t, opts...))
	if err != nil {
		t.Fatalf("clustertest: JetStream: %v", err)
	}
	return js
}

// Await waits until ok holds, and ends t when that takes longer.
func Await(t testing.TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("clustertest: waited %v for %s", within, what)
		}
		<-time.After(poll)
	}
}

// port gives the port of a URL of one server.
func port(t testing.TB, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatalf("clustertest: %v", err)
	}
	return u.Port()
}

// bounded is a context for one request.
func bounded(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}
