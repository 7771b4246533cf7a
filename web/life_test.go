package web

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
)

var testKey = []byte("a key of the tests, 32 bytes long")

// written is a log in memory, and a Source.
type written struct {
	mu     sync.Mutex
	log    []journal.Message
	byName map[string][]int
	more   chan struct{}
	chains map[string]*events.Chain
	epochs map[string]uint64
	leases map[string]uint64
	ids    int
	clock  time.Time
	// With a sink messages go there, and only those of the name keep are kept.
	sink func(journal.Message)
	keep string
}

func newWritten(start time.Time) *written {
	return &written{
		more: make(chan struct{}), byName: map[string][]int{}, chains: map[string]*events.Chain{}, epochs: map[string]uint64{},
		leases: map[string]uint64{}, clock: start,
	}
}

// pass moves the log's clock on.
func (w *written) pass(d time.Duration) { w.clock = w.clock.Add(d) }

// write appends an event.
func (w *written) write(scope, name string, lease uint64, data events.Data) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.chains[scope]
	if c == nil {
		fresh := events.NewChain(testKey)
		c = &fresh
		w.chains[scope] = c
	}
	if _, ok := data.(*events.Opened); ok {
		w.epochs[scope]++
	}
	w.ids++
	e := &events.Event{ID: fmt.Sprint("c", w.ids), Scope: scope, Name: name, Lease: lease, Epoch: w.epochs[scope], Time: w.clock.UTC(), Actor: events.Service("h"), Data: data}
	payload, err := c.Seal(e)
	if err != nil {
		panic(err)
	}
	seq := uint64(w.ids)
	m := journal.Message{Seq: seq, Stored: w.clock, Subject: e.Subject(), Payload: payload}
	if w.sink != nil {
		w.sink(m)
		if name != w.keep {
			return seq
		}
	}
	w.byName[scope+"/"+name] = append(w.byName[scope+"/"+name], len(w.log))
	w.log = append(w.log, m)
	close(w.more)
	w.more = make(chan struct{})
	return seq
}

func (w *written) open(scope, holder, how string) {
	w.write(scope, events.EpochName, 0, &events.Opened{Holder: holder, How: how, Attempt: "a", SealKey: "k", StreamCreated: w.clock.UTC()})
}

func (w *written) define(scope, name, path string, consumers ...string) {
	d := events.DefaultDefinition()
	d.Vault, d.Path, d.Kind = "main", path, events.KindPostgreSQL
	for _, c := range consumers {
		d.Consumers = append(d.Consumers, events.Consumer{Name: c})
	}
	w.write(scope, name, 0, &events.Applied{Revision: 1, Definition: &d})
}

func (w *written) register(scope, name, consumer, incarnation string) {
	w.write(scope, name, 0, &events.Registered{Consumer: consumer, Instance: "i", Incarnation: incarnation, Key: "U", XKey: "X", Subject: "s"})
}

// request begins a lease.
func (w *written) request(scope, name, path, reason string) uint64 {
	w.leases[scope]++
	no := w.leases[scope]
	w.write(scope, name, no, &events.Requested{Vault: "main", Path: path, Reason: reason})
	return no
}

func (w *written) acquire(scope, name, path, reason string) uint64 {
	no := w.request(scope, name, path, reason)
	w.write(scope, name, no, &events.Acquired{
		LeaseID: fmt.Sprintf("%s/%08d%08d", path, no*7919%100000000, no), TTL: events.WholeSeconds(3600), Renewable: true, SentAt: w.clock.UTC(),
		Keys: []string{"username", "password"}, Public: map[string]string{"username": fmt.Sprintf("v-%s-%d", name, no)}, Fingerprint: "f",
	})
	return no
}

// rotate hands a new lease over from an earlier one (0: none), and gives it.
func (w *written) rotate(scope, name, path string, before uint64, asked ...string) uint64 {
	no := w.acquire(scope, name, path, events.ReasonRotate)
	w.write(scope, name, no, &events.HandoverStarted{Previous: before, Asked: asked, Budget: events.WholeSeconds(30)})
	for _, id := range asked {
		w.write(scope, name, no, &events.Prepared{Incarnation: id, N: 1, Yes: true})
	}
	w.write(scope, name, no, &events.Installed{Previous: before, Proof: events.ProofConsumers, GoodFor: events.WholeSeconds(30), RetireAfter: events.WholeSeconds(300)})
	return no
}

func (w *written) retire(scope, name string, lease uint64, reason string) {
	w.write(scope, name, lease, &events.Retired{Reason: reason})
	w.revoke(scope, name, lease)
}

func (w *written) revoke(scope, name string, lease uint64) {
	w.write(scope, name, lease, &events.Revoking{})
	w.write(scope, name, lease, &events.Revoked{})
}

// rollBack has a consumer say no.
func (w *written) rollBack(scope, name, path string, back uint64, who, why string) uint64 {
	no := w.acquire(scope, name, path, events.ReasonRotate)
	w.write(scope, name, no, &events.HandoverStarted{Previous: back, Asked: []string{who}, Budget: events.WholeSeconds(30)})
	w.write(scope, name, no, &events.Prepared{Incarnation: who, N: 1, Reason: why})
	w.write(scope, name, no, &events.RollbackStarted{Failure: events.Failure{Kind: "no", Message: who + ": " + why}, Back: back, Budget: events.WholeSeconds(5)})
	w.write(scope, name, no, &events.RolledBack{Safe: true, Retry: events.Retry{Attempt: 1, At: w.clock.Add(time.Second).UTC()}})
	return no
}

func (w *written) renew(scope, name string, lease uint64) {
	w.write(scope, name, lease, &events.Renewed{TTL: events.WholeSeconds(3600), SentAt: w.clock.UTC(), Renewable: true})
}

func (w *written) from(i int) ([]journal.Message, chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log[min(i, len(w.log)):], w.more
}

// Replay implements Source.
func (w *written) Replay(ctx context.Context, _ string, from, to uint64, fn func(journal.Message) error) error {
	all, _ := w.from(int(from) - 1)
	for _, m := range all {
		if m.Seq > to || ctx.Err() != nil {
			break
		}
		if err := fn(m); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Follow implements Source.
func (w *written) Follow(ctx context.Context, _ string, from uint64, fn func(journal.Message) error) error {
	for {
		all, more := w.from(int(from) - 1)
		for _, m := range all {
			if err := fn(m); err != nil {
				return err
			}
			from = m.Seq + 1
		}
		if len(all) > 0 {
			continue
		}
		select {
		case <-more:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ReplayName implements Source.
func (w *written) ReplayName(ctx context.Context, scope, name string, from, to uint64, fn func(journal.Message) error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, i := range w.byName[scope+"/"+name] {
		if m := w.log[i]; m.Seq >= from && m.Seq <= to {
			if err := fn(m); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// read gives the history of what is written.
func (w *written) read(t testing.TB, scopes ...string) *History {
	t.Helper()
	h := NewHistory(scopes, testKey)
	all, _ := w.from(0)
	for _, m := range all {
		h.Add(m)
	}
	h.caughtUp()
	for _, s := range h.scopes {
		if s.stopped != "" {
			t.Fatal(s.stopped)
		}
	}
	return h
}

// aDay writes a day of a scope with some of everything, beginning at start.
func aDay(start time.Time) *written {
	w := newWritten(start)
	w.open("prod", "holder-one", events.HowFresh)
	w.define("prod", "orders-db", "database/creds/orders", "orders-app")
	w.define("prod", "billing-db", "database/creds/billing", "billing-app")
	w.define("prod", "search", "database/creds/search")
	w.register("prod", "orders-db", "orders-app", "inc-1")
	orders := w.rotate("prod", "orders-db", "database/creds/orders", 0, "inc-1")
	billing := w.rotate("prod", "billing-db", "database/creds/billing", 0)
	for range 20 {
		w.pass(20 * time.Second)
		w.renew("prod", "orders-db", orders)
	}
	w.pass(time.Minute)
	next := w.rotate("prod", "orders-db", "database/creds/orders", orders, "inc-1")
	w.pass(10 * time.Second)
	w.retire("prod", "orders-db", orders, events.RetiredReplaced)
	w.pass(time.Minute)
	bad := w.rollBack("prod", "orders-db", "database/creds/orders", next, "inc-1", "the pool can't connect")
	w.revoke("prod", "orders-db", bad)
	w.pass(time.Minute)
	lost := w.request("prod", "search", "database/creds/search", events.ReasonFirst)
	w.write("prod", "search", lost, &events.AcquireFailed{Failure: events.Failure{Kind: "unreachable", Message: "dial tcp: connection refused"}, Retry: events.Retry{Attempt: 1, At: w.clock.Add(time.Second).UTC()}})
	w.write("prod", events.EpochName, 0, &events.Paused{Vault: "main", Kind: "permission"})
	w.pass(30 * time.Second)
	w.write("prod", events.EpochName, 0, &events.Resumed{Vault: "main"})
	w.pass(time.Minute)
	w.open("prod", "holder-two", events.HowQuiet)
	w.renew("prod", "billing-db", billing)
	w.pass(30 * time.Second)
	orphan := w.request("prod", "search", "database/creds/search", events.ReasonFirst)
	w.write("prod", "search", orphan, &events.Orphaned{Vault: "main", Path: "database/creds/search"})
	w.pass(time.Second)
	return w
}
