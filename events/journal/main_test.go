package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/internal/natstest"
)

// process stands in for a test, so that the servers are started once and live
// as long as all tests.
type process struct {
	testing.TB
	dir      string
	mu       sync.Mutex
	n        int
	cleanups []func()
}

func (p *process) Helper()          {}
func (p *process) Name() string     { return "all tests" }
func (p *process) Cleanup(f func()) { p.mu.Lock(); p.cleanups = append(p.cleanups, f); p.mu.Unlock() }
func (p *process) TempDir() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	return filepath.Join(p.dir, fmt.Sprint(p.n))
}

func (p *process) Fatalf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}

func (p *process) end() {
	for i := len(p.cleanups) - 1; i >= 0; i-- {
		p.cleanups[i]()
	}
}

var (
	shared  = &process{}
	single  = sync.OnceValue(func() *natstest.Server { return natstest.Start(shared) })
	cluster = sync.OnceValue(func() *natstest.Servers { return natstest.Cluster(shared, 3) })
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "journal")
	if err != nil {
		panic(err)
	}
	shared.dir = dir
	code := m.Run()
	shared.end()
	_ = os.RemoveAll(dir)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// place is where a test runs: one server, or three that replicate.
type place struct {
	replicas int
	url      string
	admin    jetstream.JetStream
}

// everywhere runs a test on one server and on three, at the same time: the servers
// are not the same ones, and much of a test is waiting.
func everywhere(t *testing.T, f func(t *testing.T, p *place)) {
	t.Run("R1", func(t *testing.T) { t.Parallel(); f(t, onOne(t)) })
	t.Run("R3", func(t *testing.T) { t.Parallel(); f(t, onThree(t)) })
}

// patient has a test that is not about answers that don't come wait for them, on a
// busy machine, too.
func patient(c *Config) { c.AckWait = 20 * time.Second }

func onOne(t testing.TB) *place {
	s := single()
	return newPlace(t, &place{replicas: 1, url: s.URL(), admin: s.JS(t)})
}

func onThree(t testing.TB) *place {
	c := cluster()
	c.AwaitReady(t)
	return newPlace(t, &place{replicas: 3, url: c.Server(0).URL(), admin: c.JS(t)})
}

// newPlace begins without a stream and leaves none.
func newPlace(t testing.TB, p *place) *place {
	remove := func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_ = p.admin.DeleteStream(ctx, DefaultStream)
	}
	remove()
	t.Cleanup(remove)
	return p
}

// open opens the log through url (empty: the place's).
func (p *place) open(t testing.TB, url string, change func(*Config), opts ...nats.Option) *Log {
	t.Helper()
	if url == "" {
		url = p.url
	}
	var mu sync.Mutex
	var l *Log
	opts = append(append(ConnOptions(), nats.IgnoreDiscoveredServers(), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		mu.Lock()
		defer mu.Unlock()
		if l != nil {
			l.AsyncError(err)
		}
	})), opts...)
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		closed := nc.StatusChanged(nats.CLOSED)
		nc.Close()
		<-closed
	})
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Replicas: p.replicas, Create: true, MaxBytes: 512 << 20}
	if change != nil {
		change(&cfg)
	}
	opened, err := Open(background(t), js, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(opened.Close)
	mu.Lock()
	l = opened
	mu.Unlock()
	return opened
}

func background(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

var key = []byte("0123456789abcdef0123456789abcdef")

// ids gives ids that nobody else gives.
var ids = func() func() string {
	var mu sync.Mutex
	n := 0
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		n++
		return fmt.Sprintf("id-%d", n)
	}
}()

func event(scope string, epoch uint64) events.Event {
	return events.Event{
		ID: ids(), Scope: scope, Name: "db", Lease: 7, Epoch: epoch, Time: time.Unix(1_700_000_000, 0).UTC(),
		Actor: events.Service("a"), Data: &events.Retired{Reason: events.RetiredReplaced},
	}
}

func batch(scope string, epoch uint64, n int) []events.Event {
	out := make([]events.Event, n)
	for i := range out {
		out[i] = event(scope, epoch)
	}
	return out
}

// claim opens the epoch in the log and gives its term.
func claim(t testing.TB, l *Log, scope, holder string, epoch uint64) Term {
	t.Helper()
	ctx := background(t)
	last, err := l.LastOpened(ctx, scope)
	for errors.Is(err, ErrUnavailable) && ctx.Err() == nil { // a read that is slow is asked again
		time.Sleep(20 * time.Millisecond)
		last, err = l.LastOpened(ctx, scope)
	}
	if err != nil {
		t.Fatal(err)
	}
	expect := uint64(0)
	if last != nil {
		expect = last.Seq
	}
	ev, payload := opened(t, scope, holder, epoch)
	fence, err := l.AppendOpened(ctx, payload, ev, expect)
	if err != nil {
		t.Fatal(err)
	}
	term := Term{Scope: scope, Epoch: epoch, Fence: fence, Tail: fence, Chain: events.NewChain(key), Holder: holder, NewID: ids, Now: time.Now}
	err = l.Replay(ctx, scope, 1, fence, func(m Message) error {
		seq, payload := m.Seq, m.Payload
		_, err := term.Chain.Admit(payload, seq)
		if err != nil && seq == fence {
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return term
}

func opened(t testing.TB, scope, holder string, epoch uint64) (events.Event, []byte) {
	t.Helper()
	ev := events.Event{ID: ids(), Scope: scope, Name: events.EpochName, Epoch: epoch, Time: time.Unix(1_700_000_000, 0).UTC(),
		Data: &events.Opened{Holder: holder, How: events.HowFresh, Attempt: ids(), StreamCreated: time.Unix(1_700_000_000, 0).UTC()}}
	chain := events.NewChain(key)
	payload, err := chain.Seal(&ev)
	if err != nil {
		t.Fatal(err)
	}
	return ev, payload
}

// contents reads a scope and checks that its chain holds, that nothing stands in
// it twice, and that no event of an epoch follows a later epoch's opened (I1).
// It gives the sequence of each event by id, and how many opened there are.
func contents(t testing.TB, l *Log, scope string) (seqs map[string]uint64, openings int) {
	t.Helper()
	seqs = map[string]uint64{}
	chain := events.NewChain(key)
	var before, epoch uint64
	err := l.Replay(background(t), scope, 1, ^uint64(0), func(m Message) error {
		seq, payload := m.Seq, m.Payload
		if seq <= before {
			t.Errorf("sequence %d after %d", seq, before)
		}
		before = seq
		e, err := chain.Admit(payload, seq)
		if err != nil {
			return err
		}
		if at, twice := seqs[e.ID]; twice {
			t.Errorf("event %s stands at %d and at %d", e.ID, at, seq)
		}
		seqs[e.ID] = seq
		if e.Type() == events.TypeOpened {
			openings++
			if e.Epoch < epoch {
				t.Errorf("I1: epoch %d opened after epoch %d", e.Epoch, epoch)
			}
			epoch = e.Epoch
		}
		if e.Epoch != epoch {
			t.Errorf("I1: %s of epoch %d in epoch %d at %d", e.Type(), e.Epoch, epoch, seq)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return seqs, openings
}

// mustLand appends and checks what Append says against itself.
func mustLand(t testing.TB, w *Writer, evs []events.Event) Result {
	t.Helper()
	r, err := w.Append(background(t), evs)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Landed || !holds(r.Events, evs) {
		t.Fatalf("%d events did not land: %+v", len(evs), r)
	}
	return r
}
