package service_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/secret"
)

// somebody opens an epoch of prod in the log, as a holder that the cells chose
// would, and gives its sequence.
func (r *rig) somebodyOpens(l *journal.Log) uint64 {
	r.t.Helper()
	seed, err := os.ReadFile(filepath.Join(r.dir, "seal.key"))
	if err != nil {
		r.t.Fatal(err)
	}
	keys, err := handover.NewKeys(secret.New(strings.TrimSpace(string(seed))))
	if err != nil {
		r.t.Fatal(err)
	}
	last, err := l.LastOpened(aBit(r.t), "prod")
	if err != nil {
		r.t.Fatal(err)
	}
	ev := events.Event{
		ID: "somebody", Scope: "prod", Name: events.EpochName, Epoch: last.Event.Epoch + 1, Time: time.Now().UTC(), Actor: events.Service("somebody"),
		Data: &events.Opened{Holder: "somebody", How: "quiet", Attempt: "somebody", SealKey: keys.ID(), StreamCreated: l.Created().UTC()},
	}
	chain := events.NewChain(keys.MACKey())
	payload, err := chain.Seal(&ev)
	if err != nil {
		r.t.Fatal(err)
	}
	// A holder may move its own fence meanwhile; ours must land all the same.
	for {
		seq, err := l.AppendOpened(aBit(r.t), payload, ev, last.Seq)
		if err == nil {
			return seq
		}
		if last, err = l.LastOpened(aBit(r.t), "prod"); err != nil {
			r.t.Fatal(err)
		}
	}
}

// TestE8_ADeposedHolderStopsAtTheFirstRefusal: what queues behind the append that
// the fence refused is dropped, so that a thousand scopes which are deposed at
// once don't keep a stream busy with what it must refuse.
func TestE8_ADeposedHolderStopsAtTheFirstRefusal(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	var lines strings.Builder
	const names = 20
	r.do("kv2/data/token", map[string]any{"data": map[string]any{"key": "1"}})
	for i := range names {
		fmt.Fprintf(&lines, "  n%d: {path: kv2/data/token, kind: kv, good_for: 0s}\n", i)
	}
	r.definitions(1, lines.String())
	r.run("state-a")
	r.await("the secrets", func() bool { return r.count(events.TypeInstalled) >= names })

	nc := r.nats.Conn(t)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	l, err := journal.Open(aBit(t), js, journal.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	type sent struct {
		fence, append, payload string
		batch                  bool
	}
	var mu sync.Mutex
	var all []sent
	sub, err := nc.Subscribe("lease.prod.>", func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		id := m.Header.Get("Nats-Batch-Id")
		if fence := m.Header.Get(jetstream.ExpectedLastSubjSeqHeader); fence != "" { // one, or the first of a batch
			all = append(all, sent{fence, id, string(m.Data), id != ""})
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()

	ctx, cancel := context.WithCancel(context.Background())
	var asking sync.WaitGroup
	for i := range 4 {
		client := r.api()
		asking.Go(func() {
			for n := i; ctx.Err() == nil; n++ {
				call, done := context.WithTimeout(ctx, time.Second)
				_, _ = client.Rotate(call, "prod", fmt.Sprintf("n%d", n%names)) // refused or not: it is load
				done()
			}
		})
	}
	from := r.count(events.TypeRequested)
	r.await("load", func() bool { return r.count(events.TypeRequested) > from+5 })
	fence := r.somebodyOpens(l)
	r.await("the deposed holder to say so", func() bool { return strings.Contains(r.out.String(), "fenced by epoch") })
	r.await("a new epoch", func() bool { return r.count(events.TypeOpened) >= 2 })
	cancel()
	asking.Wait()
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	info, err := js.Stream(aBit(t), journal.DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	stored := map[string]bool{}
	for seq := uint64(1); seq <= info.CachedInfo().State.LastSeq; seq++ {
		m, err := info.GetMsg(aBit(t), seq)
		if err != nil {
			t.Fatal(err)
		}
		stored[m.Header.Get("Nats-Batch-Id")], stored["single "+string(m.Data)] = true, true
	}
	under, refused := 0, 0
	for _, e := range all {
		var f uint64
		if _, err := fmt.Sscan(e.fence, &f); err != nil {
			t.Fatal(err)
		}
		if f >= fence {
			continue
		}
		if under++; e.batch && !stored[e.append] || !e.batch && !stored["single "+e.payload] {
			refused++
		}
	}
	if under == 0 || refused > 1 {
		t.Errorf("of %d appends under the old fence %d were refused; the first should have been the last", under, refused)
	}
	t.Logf("of %d appends under the old fence %d were refused", under, refused)
}
