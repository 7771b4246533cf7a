package failover

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/handover/wire"
	"github.com/leasesvc/leasesvc/itest/clustertest"
)

const (
	askEvery = 5 * time.Millisecond
	// unanswered is when a raw get without an answer has failed.
	unanswered = 500 * time.Millisecond
	// patience bounds a Get of the library.
	patience = 2 * time.Second
)

// ask is one raw get.
type ask struct {
	sent, answered time.Time // answered: zero, never
	epoch          uint64    // of the answer; 0: none, or a refusal
}

func (a *ask) failed() bool { return a.epoch == 0 || a.answered.Sub(a.sent) > unanswered }

// libraryGet is one Get of the library, with its retries.
type libraryGet struct {
	sent time.Time
	took time.Duration
	err  error
}

// asker asks for a name all the time: raw gets, one every 5 ms and none
// repeated, and beside them Get of the library, one after the other.
type asker struct {
	t    *testing.T
	nc   *nats.Conn
	pair nkeys.KeyPair
	xkey string
	key  string // the service's

	mu      sync.Mutex
	asks    []ask
	library []libraryGet
	stop    context.CancelFunc
	working sync.WaitGroup
}

func newAsker(t *testing.T, d *clustertest.Deployment, scope, name string) *asker {
	t.Helper()
	pair, err := nkeys.CreateCurveKeys()
	if err != nil {
		t.Fatal(err)
	}
	xkey, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	a := &asker{t: t, nc: d.Conn(t), pair: pair, xkey: xkey, key: d.Keys.Public()}
	client, err := consumer.Connect(t.Context(), consumer.Options{
		Conn: d.Conn(t), Scope: scope, Consumer: "bench", ServiceKey: d.Keys.Public(), Insecure: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, a.stop = context.WithCancel(context.Background())
	inbox := a.nc.NewInbox()
	sub, err := a.nc.Subscribe(inbox+".*", a.answer)
	if err != nil {
		t.Fatal(err)
	}
	a.working.Go(func() { a.askRaw(ctx, inbox, scope, name) })
	a.working.Go(func() { a.askLibrary(ctx, client, name) })
	t.Cleanup(func() {
		a.stop()
		a.working.Wait()
		client.Close()
		_ = sub.Unsubscribe()
	})
	return a
}

func (a *asker) askRaw(ctx context.Context, inbox, scope, name string) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		data, err := wire.Encode(wire.Get{XKey: a.xkey, Nonce: wire.NewNonce()})
		if err != nil {
			a.t.Error(err)
			return
		}
		a.mu.Lock()
		n := len(a.asks)
		a.asks = append(a.asks, ask{sent: time.Now()})
		a.mu.Unlock()
		// An ask that can't even be sent stays unanswered.
		_ = a.nc.PublishRequest(wire.Subject(wire.OpGet, scope, name), inbox+"."+itoa(n), data)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (a *asker) answer(m *nats.Msg) {
	at := time.Now()
	n := atoi(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:])
	var epoch uint64
	if wire.IsSealed(m.Data) {
		plain, err := wire.Open(a.pair, a.key, m.Data)
		if err == nil {
			got, err := wire.Decode[wire.Got](plain)
			if err == nil {
				epoch = got.Epoch
			}
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asks[n].answered.IsZero() {
		a.asks[n].answered, a.asks[n].epoch = at, epoch
	}
}

func (a *asker) askLibrary(ctx context.Context, client *consumer.Client, name string) {
	for ctx.Err() == nil {
		sent := time.Now()
		gctx, cancel := context.WithTimeout(ctx, patience)
		_, err := client.Get(gctx, name)
		cancel()
		if ctx.Err() != nil {
			return
		}
		a.mu.Lock()
		a.library = append(a.library, libraryGet{sent, time.Since(sent), err})
		a.mu.Unlock()
		<-time.After(askEvery)
	}
}

// first waits for the first answer from an epoch above one, and gives when it
// came.
func (a *asker) first(above uint64, within time.Duration) (at time.Time) {
	a.t.Helper()
	from := 0
	clustertest.Await(a.t, within, "a get to be answered by the successor", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		for i := from; i < len(a.asks); i++ {
			if a.asks[i].epoch > above && (at.IsZero() || a.asks[i].answered.Before(at)) {
				at = a.asks[i].answered
			}
		}
		return !at.IsZero()
	})
	return at
}

// around tells of the gets sent from one moment to another: how many raw ones,
// how many of them failed, and how many of the library's failed.
func (a *asker) around(from, to time.Time) (asked, failed, libraryFailed int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.asks {
		if k := &a.asks[i]; !k.sent.Before(from) && k.sent.Before(to) {
			asked++
			if k.failed() {
				failed++
			}
		}
	}
	for _, g := range a.library {
		if end := g.sent.Add(g.took); g.err != nil && end.After(from) && g.sent.Before(to) {
			libraryFailed++
			a.t.Logf("Get of the library failed after %v: %v", g.took.Round(time.Millisecond), g.err)
		}
	}
	return asked, failed, libraryFailed
}

// gap gives the longest time between two answers from one moment to another. The
// answers are not in the order of the gets: a server that wakes hands on what was
// asked before it was stopped.
func (a *asker) gap(from, to time.Time) (longest time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	answered := []time.Time{from}
	for i := range a.asks {
		if k := &a.asks[i]; k.epoch != 0 && !k.sent.Before(from.Add(-time.Second)) && !k.sent.After(to) && k.answered.After(from) {
			answered = append(answered, k.answered)
		}
	}
	slices.SortFunc(answered, time.Time.Compare)
	for i := 1; i < len(answered); i++ {
		longest = max(longest, answered[i].Sub(answered[i-1]))
	}
	return longest
}
