package natstest

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const readyWithin = 30 * time.Second

// Option changes how a server is set up, before it starts the first time.
type Option func(*server.Options)

// SyncAlways makes the server write each message to disk before it
// acknowledges it, which is how leasesvc is to be run.
func SyncAlways() Option {
	return func(o *server.Options) { o.SyncAlways = true }
}

// Server is one embedded NATS server with JetStream.
type Server struct {
	make func() *server.Options // fresh each time: a server keeps and changes what it is given

	mu   sync.Mutex
	port int            // 0 until the first start, then fixed
	ns   *server.Server // nil while stopped
}

// Start starts a server for t, with its streams in a directory of t's, and
// shuts it down at t's end.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s := newServer(t, "single", opts)
	if err := s.Start(); err != nil {
		t.Fatalf("natstest: %v", err)
	}
	return s
}

// newServer prepares a server named name and sees to its end.
func newServer(t testing.TB, name string, opts []Option) *Server {
	t.Helper()
	store := filepath.Join(t.TempDir(), name)
	s := &Server{make: func() *server.Options {
		o := &server.Options{
			ServerName: name, Host: "127.0.0.1", Port: server.RANDOM_PORT,
			JetStream: true, StoreDir: store,
			JetStreamMaxMemory: 256 << 20, JetStreamMaxStore: 4 << 30,
			NoLog: true, NoSigs: true,
		}
		for _, opt := range opts {
			opt(o)
		}
		return o
	}}
	t.Cleanup(s.Stop)
	return s
}

// Start starts the server again after [Server.Stop], on the same port and
// store, and returns when it accepts connections.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.start()
}

// Stop shuts the server down in order and waits for it. To stop a stopped
// server does nothing.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
}

// Restart stops the server and starts it on the same port and store.
func (s *Server) Restart() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
	return s.start()
}

func (s *Server) start() error {
	if s.ns != nil {
		return errors.New("start the NATS server: it runs already")
	}
	o := s.make()
	if s.port != 0 {
		o.Port = s.port
	}
	ns, err := server.NewServer(o)
	if err != nil {
		return fmt.Errorf("set up the NATS server %s: %w", o.ServerName, err)
	}
	ns.Start()
	if !ns.ReadyForConnections(readyWithin) {
		ns.Shutdown()
		ns.WaitForShutdown()
		return fmt.Errorf("the NATS server %s accepts no connections after %v", o.ServerName, readyWithin)
	}
	s.ns, s.port = ns, ns.Addr().(*net.TCPAddr).Port
	return nil
}

func (s *Server) stop() {
	if s.ns == nil {
		return
	}
	s.ns.Shutdown()
	s.ns.WaitForShutdown()
	s.ns = nil
}

// URL is what a client connects to; it stays the same over a restart.
func (s *Server) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("nats://127.0.0.1:%d", s.port)
}

// Embedded is the running server itself, nil while it is stopped: for what a
// test asks only a server (who leads a stream, a step-down).
func (s *Server) Embedded() *server.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ns
}

// Conn connects to the server; the connection is closed at t's end.
func (s *Server) Conn(t testing.TB, opts ...nats.Option) *nats.Conn {
	t.Helper()
	return connect(t, s.URL(), opts)
}

// JS connects to the server and gives its JetStream.
func (s *Server) JS(t testing.TB, opts ...nats.Option) jetstream.JetStream {
	t.Helper()
	return jetStream(t, s.Conn(t, opts...))
}

func connect(t testing.TB, url string, opts []nats.Option) *nats.Conn {
	t.Helper()
	// A test stops servers for longer than a client's patience of 60 attempts.
	usual := []nats.Option{nats.Name(t.Name()), nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond)}
	nc, err := nats.Connect(url, append(usual, opts...)...)
	if err != nil {
		t.Fatalf("natstest: connect to %s: %v", url, err)
	}
	t.Cleanup(func() { closeAndWait(nc) })
	return nc
}

// closeAndWait returns when the connection's last callback has run, so that it
// leaves no goroutine behind for goleak to find.
func closeAndWait(nc *nats.Conn) {
	closed := nc.StatusChanged(nats.CLOSED)
	nc.Close()
	select {
	case <-closed:
	case <-time.After(5 * time.Second):
	}
}

func jetStream(t testing.TB, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatalf("natstest: JetStream: %v", err)
	}
	return js
}
