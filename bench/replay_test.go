package bench

import (
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasesvc/leasesvc/bench/table"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/snapshot"
)

// tail is how many events stand behind a snapshot when a start reads it: what a
// holder lets come together before it saves again.
const tail = 10_000

// replays measures reading a log: with every event decoded, checked and folded,
// beside an ordered consumer that only receives; and a start, from the beginning
// and from a snapshot.
func replays(t *testing.T, tb *table.Table) {
	lengths := sized([]int{2_000}, []int{10_000, 100_000}, []int{10_000, 100_000, 1_000_000})
	names := sized(100, 1_000, 100_000)
	longest := lengths[len(lengths)-1]
	p := newPlace(t, 1, false)
	// A log for each length: a prefix of the longest has other events.
	for _, n := range lengths {
		scope := fmt.Sprintf("replay-%d", n)
		of := min(names, n/10)
		fillLog(t, p.writer(t, scope, 1), scope, of, 0, n, func(int) time.Time { return began })
		p.replay(t, tb, scope, n, of)
	}
	t.Logf("the longest log has %d events", longest)
	p.restarts(t, tb)
}

func (p *place) replay(t *testing.T, tb *table.Table, scope string, n, names int) {
	rounds := sized(1, 5, 5)
	if n <= 10_000 {
		rounds *= 3
	}
	var bare, admitted, folded, raw []time.Duration
	until := time.Now().Add(sized(time.Second, 10*time.Second, 30*time.Second))
	for i := 0; i < rounds && (i == 0 || time.Now().Before(until)); i++ {
		raw = append(raw, p.receive(t, scope, n+1))
		begin := time.Now()
		if err := p.log.Replay(background(t), scope, 1, ^uint64(0), func(journal.Message) error { return nil }); err != nil {
			t.Fatal(err)
		}
		bare = append(bare, time.Since(begin))
		begin = time.Now()
		chain := events.NewChain(key)
		if err := p.log.Replay(background(t), scope, 1, ^uint64(0), func(m journal.Message) error {
			_, err := chain.Admit(m.Payload, m.Seq)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		admitted = append(admitted, time.Since(begin))
		begin = time.Now()
		state := p.fold(t, nil, scope, ^uint64(0)).State()
		folded = append(folded, time.Since(begin))
		if state.Len() != names {
			t.Fatalf("%d names of %d", state.Len(), names)
		}
	}
	how := fmt.Sprintf("every event decoded and its MAC and place in the chain checked, in turns with an ordered consumer that only receives; median of %d", len(raw))
	tb.Beside(t, fmt.Sprintf("replay, %d events", n), "events/s", table.Rate(n, table.Median(admitted)), table.Rate(n, table.Median(raw)), false, 0.7, how)
	tb.Beside(t, fmt.Sprintf("replay, %d events, not decoded", n), "events/s", table.Rate(n, table.Median(bare)), table.Rate(n, table.Median(raw)), false, 0, "our pull alone")
	tb.Beside(t, fmt.Sprintf("restart without snapshot, %d events, %d leases", n, names), "ms", table.MS(table.Median(folded)), table.MS(table.Median(raw)), true, 0, "replayed and folded into the state, beside receiving alone")
}

// receive is the engine's replay, with the pull size that was found best.
func (p *place) receive(t *testing.T, scope string, n int) time.Duration {
	t.Helper()
	begin := time.Now()
	c, err := p.js.OrderedConsumer(background(t), journal.DefaultStream, jetstream.OrderedConsumerConfig{FilterSubjects: []string{events.ScopeFilter(scope)}})
	if err != nil {
		t.Fatal(err)
	}
	it, err := c.Messages(jetstream.PullMaxMessages(10_000))
	if err != nil {
		t.Fatal(err)
	}
	defer it.Stop()
	for range n {
		if _, err := it.Next(); err != nil {
			t.Fatal(err)
		}
	}
	return time.Since(begin)
}

// save takes a snapshot of a scope at its log's end.
func (p *place) save(t *testing.T, store *snapshot.Store, k snapshot.Key, scope string) (still, took time.Duration, bytes int) {
	t.Helper()
	state := p.fold(t, nil, scope, ^uint64(0))
	begin := time.Now()
	taken := snapshot.Take(state, p.log.Created(), nil)
	still = time.Since(begin)
	encoded := k.Encode(taken)
	if err := store.Save(background(t), scope, state.LastSeq(), encoded); err != nil {
		t.Fatal(err)
	}
	return still, time.Since(begin), len(encoded)
}

// restarts measures a start from a snapshot with so many leases, after a short
// history and after a long one.
func (p *place) restarts(t *testing.T, tb *table.Table) {
	names := sized(200, 10_000, 100_000)
	histories := sized([]int{2_000}, []int{100_000}, []int{700_000, 1_000_000})
	k, err := snapshot.NewKey(key, "bench")
	if err != nil {
		t.Fatal(err)
	}
	store, err := snapshot.Open(background(t), p.js, snapshot.Bucket, 1, k, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	const scope = "restart"
	w := p.writer(t, scope, 1)
	done := 0
	var times []time.Duration
	for _, n := range histories {
		behind := min(tail, n/10)
		at := func(int) time.Time { return began }
		fillLog(t, w, scope, names, done, n-behind, at)
		still, took, bytes := p.save(t, store, k, scope)
		fillLog(t, w, scope, names, n-behind, n, at)
		done = n
		var starts []time.Duration
		for range sized(1, 3, 5) {
			runtime.GC() // of the last one
			begin := time.Now()
			all, err := store.List(background(t))
			if err != nil {
				t.Fatal(err)
			}
			from, _, err := store.Restore(background(t), p.log, scope, all[scope])
			if err != nil || from == nil {
				t.Fatal("the snapshot does not hold", err)
			}
			after := p.fold(t, from, scope, ^uint64(0))
			starts = append(starts, time.Since(begin))
			if after.State().Len() != names || after.LastSeq() != w.Tail() {
				t.Fatalf("%d names at %d", after.State().Len(), after.LastSeq())
			}
		}
		times = append(times, table.Median(starts))
		how := fmt.Sprintf("list, read, check and decode the snapshot, then replay the %d events behind it; median of %d", behind, len(starts))
		tb.AtMost(t, fmt.Sprintf("restart with snapshot, %d events, %d leases", n, names), "ms", table.MS(table.Median(starts)), 1000, how)
		tb.Figure(t, fmt.Sprintf("taking a snapshot, %d leases: the scope stands still", names), "ms", table.MS(still), "what the scope's goroutine does; the rest is done beside it")
		tb.Figure(t, fmt.Sprintf("taking a snapshot, %d leases: until it is stored", names), "ms", table.MS(took), "encoding and storing it, R1, sync default")
		tb.AtMost(t, fmt.Sprintf("snapshot, %d leases", names), "B/lease", float64(bytes)/float64(names), 400, "its bytes over the number of leases")
	}
	if len(times) > 1 {
		a, b := times[0], times[len(times)-1]
		tb.Figure(t, "restart with snapshot: growth with history", "ms/10^5", table.MS(b-a)/(float64(histories[len(histories)-1]-histories[0])/1e5),
			"what 100,000 more events of history add to a start; flat is 0")
	}
}
