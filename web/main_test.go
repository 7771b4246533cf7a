package web

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	code := m.Run()
	stopBrowser()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// server serves a log's page on an address that outlives it.
type server struct {
	t       testing.TB
	log     Source
	scopes  []string
	opts    Options
	live    Live
	addr    string
	history *History
	handler *Handler
	reuse   *History // instead of reading the log
	stop    func()
}

func serve(t testing.TB, log Source, opts Options, live Live, scopes ...string) *server {
	t.Helper()
	s := &server{t: t, log: log, scopes: scopes, opts: opts, live: live, addr: "127.0.0.1:0"}
	s.start()
	t.Cleanup(func() { s.stop() })
	return s
}

// start starts the server, anew after a stop and on the same address then.
func (s *server) start() {
	s.t.Helper()
	var l net.Listener
	var err error
	for until := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if l, err = net.Listen("tcp", s.addr); err == nil {
			break
		}
		if time.Now().After(until) {
			s.t.Fatal(err)
		}
	}
	s.addr = l.Addr().String()
	if s.history = s.reuse; s.history == nil {
		s.history = NewHistory(s.scopes, testKey)
	}
	handler := NewHandler(s.history, s.log, s.opts)
	s.handler = handler
	hs := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = NewFollower(s.log, s.history, s.live, slog.New(slog.DiscardHandler)).Run(ctx) })
	wg.Go(func() { _ = hs.Serve(l) })
	var once sync.Once
	s.stop = func() {
		once.Do(func() {
			handler.Close()
			_ = hs.Close()
			cancel()
			wg.Wait()
		})
	}
}

func (s *server) url() string { return "http://" + s.addr + "/" }
