package consumer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"go.uber.org/goleak"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/consumer/consumertest"
	"github.com/leasesvc/leasesvc/handover/wire"
	"github.com/leasesvc/leasesvc/secret"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*Server).startGoRoutine.func1"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.init.0.func1"),
	)
}

// stage is a NATS server, a holder of the scope "prod" with the name "db", and
// whoever consumes it.
type stage struct {
	t      *testing.T
	url    string
	nc     *nats.Conn // the holder's
	holder *consumertest.Holder
	seed   secret.String
	key    string
	log    *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newStage(t *testing.T) *stage {
	t.Helper()
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(10 * time.Second) {
		t.Fatal("the NATS server is not ready after 10 s")
	}
	s := &stage{t: t, url: srv.ClientURL(), log: &lockedBuffer{}}
	s.nc = s.connect()
	s.holder = consumertest.Start(t, s.nc, "prod")
	s.holder.Define("db")
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, _ := user.Seed()
	s.seed = secret.New(string(seed))
	s.key, _ = user.PublicKey()
	s.holder.Allow("api", s.key)
	t.Cleanup(func() {
		if log := s.log.String(); strings.Contains(log, "pw-") || strings.Contains(log, s.seed.Reveal()) {
			t.Errorf("a secret is in the log:\n%s", log)
		}
		if t.Failed() {
			t.Log(s.log.String())
		}
	})
	return s
}

func (s *stage) connect() *nats.Conn {
	s.t.Helper()
	nc, err := nats.Connect(s.url, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(nc.Close)
	return nc
}

func (s *stage) client(change ...func(*consumer.Options)) *consumer.Client {
	s.t.Helper()
	opts := consumer.Options{Conn: s.connect(), Scope: "prod", Consumer: "api", Instance: "api-0", Seed: s.seed,
		ServiceKey: s.holder.ServiceKey(), LeaveTimeout: time.Second, VerdictGrace: 50 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	for _, f := range change {
		f(&opts)
	}
	c, err := consumer.Connect(context.Background(), opts)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

// credential is the values of the i-th candidate.
func (s *stage) candidate(i int) consumertest.State {
	return s.holder.Candidate(fmt.Sprintf("v-%d", i), fmt.Sprintf(`{"username":"v-%d","password":"pw-%d"}`, i, i))
}

// actor is a handler whose answers a test scripts, and that records its calls.
type actor struct {
	t  *testing.T
	mu sync.Mutex
	// Guarded by mu.
	calls   []string
	changed chan struct{}
	busy    bool
	script  func(ctx context.Context, call string) error
}

func newActor(t *testing.T) *actor { return &actor{t: t, changed: make(chan struct{})} }

func (a *actor) act(ctx context.Context, what string, c consumer.Credential) error {
	call := fmt.Sprintf("%s %d", what, c.Lease)
	a.mu.Lock()
	if a.busy {
		a.t.Error("two calls of a handler overlap")
	}
	a.busy = true
	a.calls = append(a.calls, call)
	script := a.script
	close(a.changed)
	a.changed = make(chan struct{})
	a.mu.Unlock()
	defer func() { a.mu.Lock(); a.busy = false; a.mu.Unlock() }()
	if !c.None() {
		if pw, ok := c.Get("password"); !ok || !strings.HasPrefix(pw.Reveal(), "pw-") {
			a.t.Errorf("%s without its password", call)
		}
	}
	if script == nil {
		return nil
	}
	return script(ctx, call)
}

func (a *actor) Prepare(ctx context.Context, c consumer.Credential) error {
	return a.act(ctx, "prepare", c)
}
func (a *actor) Commit(ctx context.Context, c consumer.Credential) error {
	return a.act(ctx, "commit", c)
}
func (a *actor) Revert(ctx context.Context, c consumer.Credential) error {
	return a.act(ctx, "revert", c)
}

func (a *actor) does(script func(ctx context.Context, call string) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.script = script
}

func (a *actor) all() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Join(a.calls, ", ")
}

// await waits until the calls so far are these, joined with ", ".
func (a *actor) await(want string) {
	a.t.Helper()
	limit := time.After(10 * time.Second)
	for {
		a.mu.Lock()
		changed := a.changed
		a.mu.Unlock()
		got := a.all()
		if got == want {
			return
		}
		if !strings.HasPrefix(want, got) {
			a.t.Fatalf("calls are %q, want %q", got, want)
		}
		select {
		case <-changed:
		case <-limit:
			a.t.Fatalf("calls after 10 s are %q, want %q", got, want)
		}
	}
}

// serve runs Serve until the returned function ends it and gives its error.
func (s *stage) serve(c *consumer.Client, h consumer.Handler) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Serve(ctx, "db", h) }()
	var once sync.Once
	var result error
	stop = func() error {
		once.Do(func() {
			cancel()
			select {
			case result = <-ended:
			case <-time.After(10 * time.Second):
				s.t.Error("Serve has not ended after 10 s")
			}
		})
		return result
	}
	s.t.Cleanup(func() { _ = stop() })
	return stop
}

func within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	context.AfterFunc(ctx, cancel)
	return ctx
}

// refusal makes an error of a code.
func refusal(code wire.Code, registered string) error {
	return wire.Refusal{Code: code, Message: "scripted", Registered: registered}
}

var errScripted = errors.New("scripted")
