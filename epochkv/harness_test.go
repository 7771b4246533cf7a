package epochkv

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// The embedded server leaves these behind after Shutdown.
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*Server).startGoRoutine.func1"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*ipQueue[...]).push"),
	)
}

const heartbeat = 500 * time.Millisecond // on the test's clock

// clock is a clock of the test's.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Now()} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func runServer(t testing.TB, edit ...func(*server.Options)) *server.Server {
	t.Helper()
	o := &server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true}
	for _, e := range edit {
		e(o)
	}
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("the embedded server did not start")
	}
	return s
}

func connect(t testing.TB, url string, opts ...nats.Option) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(url, append([]nats.Option{
		nats.ReconnectBufSize(-1), nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// faults is a store with faults between, which also counts.
type faults struct {
	real       store
	mu         sync.Mutex
	gets, puts []string               // keys, in order
	beforeGet  func(key string) error // an error is returned in place of the read
	beforePut  func(key string) error // an error is returned in place of the write
	afterPut   func(key string) error // an error is returned in place of the answer
	answerGet  func(entry) entry      // a lying read
	lieLast    uint64
	ignoreCAS  func(key string) (lie bool)
}

func (f *faults) lastRevision(ctx context.Context) (uint64, error) {
	if f.lieLast != 0 {
		return f.lieLast, nil
	}
	return f.real.lastRevision(ctx)
}

func (f *faults) created(ctx context.Context) (time.Time, error) { return f.real.created(ctx) }

func (f *faults) get(ctx context.Context, key string) (entry, error) {
	f.mu.Lock()
	f.gets = append(f.gets, key)
	hook, lie := f.beforeGet, f.answerGet
	f.mu.Unlock()
	if hook != nil {
		if err := hook(key); err != nil {
			return entry{}, err
		}
	}
	e, err := f.real.get(ctx, key)
	if lie != nil && err == nil {
		e = lie(e)
	}
	return e, err
}

func (f *faults) put(ctx context.Context, key string, expected uint64, data []byte) (uint64, error) {
	f.mu.Lock()
	f.puts = append(f.puts, key)
	before, after, ignore := f.beforePut, f.afterPut, f.ignoreCAS
	f.mu.Unlock()
	if before != nil {
		if err := before(key); err != nil {
			return 0, err
		}
	}
	if ignore != nil && ignore(key) {
		e, _ := f.real.get(ctx, key)
		expected = e.revision
	}
	rev, err := f.real.put(ctx, key, expected, data)
	if after != nil && err == nil {
		if aerr := after(key); aerr != nil {
			return 0, aerr
		}
	}
	return rev, err
}

// reset forgets counts and hooks.
func (f *faults) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gets, f.puts = nil, nil
	f.beforeGet, f.beforePut, f.afterPut, f.answerGet, f.ignoreCAS = nil, nil, nil, nil, nil
}

// once makes a hook that returns err the first time key is touched.
func once(key string, err error) func(string) error {
	var mu sync.Mutex
	done := false
	return func(k string) error {
		mu.Lock()
		defer mu.Unlock()
		if k != key || done {
			return nil
		}
		done = true
		return err
	}
}

// instance is a started holder of a test.
type instance struct {
	*Cells
	*faults
	state *StateDir
	clk   *clock
	t     testing.TB
}

// open opens cells on a state directory; dir "" is a new one.
func open(t testing.TB, js jetstream.JetStream, clk *clock, dir string, edit ...func(*Config)) *instance {
	t.Helper()
	if dir == "" {
		dir = filepath.Join(t.TempDir(), "state")
	}
	state, err := OpenStateDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = state.lock.Close() })
	in := &instance{state: state, clk: clk, t: t, faults: &faults{}}
	cfg := Config{
		State: state, Create: true, Heartbeat: heartbeat, RequestTimeout: 5 * time.Second, now: clk.now,
		store: func(s store) store { in.faults.real = s; return in.faults },
	}
	for _, e := range edit {
		e(&cfg)
	}
	in.Cells, err = Open(t.Context(), js, cfg)
	if err != nil {
		t.Fatal(err)
	}
	in.reset()
	return in
}

// start opens and starts a holder.
func start(t testing.TB, js jetstream.JetStream, clk *clock, dir string, edit ...func(*Config)) *instance {
	t.Helper()
	in := open(t, js, clk, dir, edit...)
	if err := in.StartHolder(t.Context()); err != nil {
		t.Fatal(err)
	}
	in.reset()
	return in
}

// crash ends the process: nothing is written, the kernel drops the lock.
func (in *instance) crash() { _ = in.state.lock.Close() }

func (in *instance) step(scope string) Claim {
	in.t.Helper()
	return in.stepAbove(scope, 0)
}

func (in *instance) stepAbove(scope string, logEpoch uint64) Claim {
	in.t.Helper()
	c, err := in.ClaimStep(in.t.Context(), scope, logEpoch)
	if err != nil {
		in.t.Fatalf("claim step: %v", err)
	}
	return c
}

func (in *instance) renew() {
	in.t.Helper()
	if err := in.Renew(in.t.Context(), nil); err != nil {
		in.t.Fatalf("renewal: %v", err)
	}
}

// beat is a heartbeat of a challenger: time passes, it renews, it steps.
func (in *instance) beat(scope string) Claim {
	in.t.Helper()
	in.clk.advance(heartbeat)
	in.renew()
	return in.step(scope)
}

// lead claims and opens scope.
func (in *instance) lead(scope string) uint64 {
	in.t.Helper()
	for range 20 {
		if c := in.step(scope); c.Claimed() {
			if err := in.Opened(scope, c.Epoch); err != nil {
				in.t.Fatal(err)
			}
			return c.Epoch
		}
		in.clk.advance(heartbeat)
		in.renew()
	}
	in.t.Fatalf("scope %s not claimed after 20 steps", scope)
	return 0
}

// until beats until the scope is claimed and tells after how many steps.
func (in *instance) until(scope string) (Claim, int) {
	in.t.Helper()
	for n := 1; n <= 30; n++ {
		if c := in.beat(scope); c.Claimed() {
			return c, n
		}
	}
	in.t.Fatalf("scope %s not claimed after 30 steps", scope)
	return Claim{}, 0
}

func (in *instance) holderCell() (HolderCell, uint64) {
	in.t.Helper()
	var cell HolderCell
	e, err := in.real.get(in.t.Context(), holderPrefix+in.id) // not counted
	if err == nil {
		err = decodeCell(holderPrefix+in.id, e.data, &cell)
	}
	if err != nil {
		in.t.Fatal(err)
	}
	return cell, e.revision
}

var errCut = fmt.Errorf("the test cut the connection: %w", ErrUnknownOutcome)

var errDown = errors.New("the test's store is down")
