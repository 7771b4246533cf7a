package bench

import (
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasesvc/leasesvc/bench/table"
	"github.com/leasesvc/leasesvc/events"
)

// openBatches is how many batches are on their way at once, ours and by hand.
const openBatches = 16

// appends measures appending under load: batches that are full, of one scope, and
// of 100 scopes at once. The engine's figure is the same payloads, ready-made, as
// atomic batches of the same size with as many on their way.
func appends(t *testing.T, tb *table.Table) {
	for _, sync := range []string{"default", "always"} {
		for _, replicas := range sized([]int{1}, []int{1}, []int{1, 3}) {
			p := newPlace(t, replicas, sync == "always")
			where := fmt.Sprintf("R%d, sync %s", replicas, sync)
			p.appendOne(t, tb, where, sync == "always")
			if *size != "short" {
				p.appendMany(t, tb, where)
			}
		}
	}
}

func renewals(scope string, n int) []events.Event {
	evs := make([]events.Event, n)
	for i := range evs {
		evs[i] = events.Event{
			ID: newID(), Scope: scope, Name: fmt.Sprintf("app-%06d", i), Lease: uint64(i + 1), Epoch: 1, Time: began, Cause: newID(), Actor: oneActor,
			Data: &events.Renewed{TTL: events.WholeSeconds(3600), SentAt: began, Renewable: true, GuardTTL: events.WholeSeconds(3600)},
		}
	}
	return evs
}

// ready gives the same events of another scope as messages that need nothing more
// but to be sent: as many subjects as ours, since the server looks at each subject
// of a batch again for each of its messages.
func ready(t *testing.T, evs []events.Event) []*nats.Msg {
	t.Helper()
	chain := events.NewChain(key)
	out := make([]*nats.Msg, len(evs))
	for i := range evs {
		e := evs[i]
		e.Scope += "-raw"
		payload, err := chain.Seal(&e)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = &nats.Msg{Subject: e.Subject(), Data: payload, Header: nats.Header{"Nats-Batch-Id": {""}, "Nats-Batch-Sequence": {strconv.Itoa(i + 1)}}}
	}
	out[len(out)-1].Header["Nats-Batch-Commit"] = []string{"1"}
	return out
}

func (p *place) appendOne(t *testing.T, tb *table.Table, where string, always bool) {
	const batch = 800 // what the service puts into one
	w := p.writer(t, "one", 1)
	evs := renewals("one", batch)
	byHand := ready(t, evs)
	var ours, raw, single time.Duration
	n, singles := 0, 0
	until := time.Now().Add(sized(200*time.Millisecond, 3*time.Second, 6*time.Second))
	for ; n == 0 || time.Now().Before(until); n++ {
		begin := time.Now()
		must(t, w, evs)
		ours += time.Since(begin)
		begin = time.Now()
		publish(t, p.nc, byHand)
		raw += time.Since(begin)
		begin = time.Now()
		for range 20 {
			publishOne(t, p.nc, byHand[0])
			singles++
		}
		single += time.Since(begin)
	}
	two := ready(t, evs[:2])
	var pairs []time.Duration
	for range sized(2, 50, 200) {
		begin := time.Now()
		publish(t, p.nc, two)
		pairs = append(pairs, time.Since(begin))
	}
	tb.Figure(t, "the engine's smallest batch, two messages, "+where, "ms", table.MS(table.Median(pairs)),
		fmt.Sprintf("an atomic batch by hand, for which the server makes a store of its own; a message alone takes %.3f ms; median of %d", table.MS(single)/float64(singles), len(pairs)))
	how := fmt.Sprintf("batches of %d renewals one after the other, encoding, MAC and fence included, in turns with the same payloads as atomic batches by hand; n=%d batches", batch, n)
	tb.Beside(t, "append, 1 scope, "+where, "events/s", table.Rate(n*batch, ours), table.Rate(n*batch, raw), false, 0.7, how)
	oneByOne := table.Rate(singles, single)
	if always {
		tb.Beside(t, "append, 1 scope, "+where+", to one-by-one publish", "events/s", table.Rate(n*batch, ours), oneByOne, false, 8, "the same, beside publishes that each wait for their answer")
	} else {
		tb.Beside(t, "append, 1 scope, "+where+", to one-by-one publish", "events/s", table.Rate(n*batch, ours), oneByOne, false, 0, "the same, beside publishes that each wait for their answer")
	}
}

func (p *place) appendMany(t *testing.T, tb *table.Table, where string) {
	const batch = 100
	count := sized(20, 100, 100)
	rounds := sized(1, 3, 5)
	all := make([][]*nats.Msg, count)
	var appendAll []func()
	for i := range all {
		name := fmt.Sprintf("many-%03d", i)
		w, evs := p.writer(t, name, 1), renewals(name, batch)
		all[i] = ready(t, evs)
		appendAll = append(appendAll, func() { must(t, w, evs) })
	}
	var ours, raw time.Duration
	slots := make(chan struct{}, openBatches)
	n := 0
	until := time.Now().Add(sized(100*time.Millisecond, 2*time.Second, 5*time.Second))
	for ; n < rounds || time.Now().Before(until); n++ {
		var wg sync.WaitGroup
		begin := time.Now()
		for i := range all {
			wg.Go(appendAll[i])
		}
		wg.Wait()
		ours += time.Since(begin)
		begin = time.Now()
		for i := range all {
			wg.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				publish(t, p.nc, all[i])
			})
		}
		wg.Wait()
		raw += time.Since(begin)
	}
	how := fmt.Sprintf("%d scopes at once, batches of %d renewals, %d batches on their way at most, in turns with the same by hand; n=%d rounds", count, batch, openBatches, n)
	tb.Beside(t, fmt.Sprintf("append, %d scopes, %s", count, where), "events/s", table.Rate(n*batch*count, ours), table.Rate(n*batch*count, raw), false, 0.7, how)
}

// publish stores messages by hand as one atomic batch.
func publish(t *testing.T, nc *nats.Conn, batch []*nats.Msg) {
	id := newID()
	last := len(batch) - 1
	for i, m := range batch {
		m.Header["Nats-Batch-Id"][0] = id
		if i == last {
			break
		}
		if err := nc.PublishMsg(m); err != nil {
			t.Error(err)
			return
		}
	}
	acknowledged(t, nc, batch[last])
}

// publishOne stores one message by hand, not in a batch.
func publishOne(t *testing.T, nc *nats.Conn, m *nats.Msg) {
	acknowledged(t, nc, &nats.Msg{Subject: m.Subject, Data: m.Data})
}

func acknowledged(t *testing.T, nc *nats.Conn, m *nats.Msg) {
	r, err := nc.RequestMsg(m, 30*time.Second)
	if err != nil {
		t.Error(err)
		return
	}
	var ack jetstream.PubAck
	if err := json.Unmarshal(r.Data, &ack); err != nil || ack.Sequence == 0 {
		t.Error(string(r.Data), err)
	}
}
