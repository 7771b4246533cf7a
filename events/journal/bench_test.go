package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/internal/natstest"
)

// BenchmarkAppend measures the fenced append of batches beside the same batches
// of ready-made payloads published by hand, in turns, and gives the ratio of the
// rates; "one by one" is that of ours to single publishes.
func BenchmarkAppend(b *testing.B) {
	for _, sync := range []string{"default", "always"} {
		for _, size := range []int{1, 100, 1000} {
			b.Run(fmt.Sprintf("sync=%s/batch=%d", sync, size), func(b *testing.B) {
				var opts []natstest.Option
				if sync == "always" {
					opts = append(opts, natstest.SyncAlways())
				}
				p := &place{replicas: 1, url: natstest.Start(b, opts...).URL()}
				benchmarkAppend(b, p.open(b, "", nil), size)
			})
		}
	}
}

func benchmarkAppend(b *testing.B, l *Log, size int) {
	w := l.NewWriter(claim(b, l, "s", "a", 1))
	evs := batch("s", 1, size)
	var sealed [][]byte
	for chain, i := w.term.Chain, 0; i < size; i++ {
		payload, err := chain.Seal(&evs[i])
		if err != nil {
			b.Fatal(err)
		}
		sealed = append(sealed, payload)
	}
	var ours, raw, single time.Duration
	singles := 0
	ctx := context.Background()
	b.ResetTimer()
	for n := range b.N {
		begin := time.Now()
		if r, err := w.Append(ctx, evs); err != nil || !r.Landed {
			b.Fatal(r, err)
		}
		ours += time.Since(begin)
		begin = time.Now()
		publishRaw(b, l.nc, "raw"+strconv.Itoa(n), sealed)
		raw += time.Since(begin)
		if n < 200 {
			begin = time.Now()
			publishRaw(b, l.nc, "", sealed[:1])
			single += time.Since(begin)
			singles++
		}
	}
	b.ReportMetric(float64(raw)/float64(ours), "ours/raw")
	b.ReportMetric(float64(b.N*size)/ours.Seconds(), "events/s")
	b.ReportMetric(float64(single)/float64(singles)/(float64(ours)/float64(b.N*size)), "ours/one-by-one")
	b.ReportMetric(0, "ns/op")
}

func publishRaw(b *testing.B, nc *nats.Conn, id string, payloads [][]byte) {
	for i, payload := range payloads {
		m := &nats.Msg{Subject: "lease.raw.db.retired", Data: payload}
		if len(payloads) > 1 {
			m.Header = nats.Header{headerBatchID: {id}, headerBatchSeq: {strconv.Itoa(i + 1)}}
		}
		if i < len(payloads)-1 {
			if err := nc.PublishMsg(m); err != nil {
				b.Fatal(err)
			}
			continue
		}
		if len(payloads) > 1 {
			m.Header[headerBatchCommit] = []string{"1"}
		}
		r, err := nc.RequestMsg(m, 10*time.Second)
		if err != nil {
			b.Fatal(err)
		}
		var ack jetstream.PubAck
		if err := json.Unmarshal(r.Data, &ack); err != nil || ack.Sequence == 0 {
			b.Fatal(string(r.Data), err)
		}
	}
}

// BenchmarkReplay measures a replay with and without decoding and checking each
// event beside an ordered consumer that only receives, in turns.
func BenchmarkReplay(b *testing.B) {
	const n = 50_000
	p := &place{replicas: 1, url: natstest.Start(b).URL()}
	l := p.open(b, "", nil)
	w := l.NewWriter(claim(b, l, "s", "a", 1))
	ctx := context.Background()
	for range n / MaxBatch {
		if r, err := w.Append(ctx, batch("s", 1, MaxBatch)); err != nil || !r.Landed {
			b.Fatal(r, err)
		}
	}
	var bare, admitted, raw time.Duration
	b.ResetTimer()
	for range b.N {
		begin := time.Now()
		receiveRaw(b, l.js, n+1)
		raw += time.Since(begin)
		begin = time.Now()
		got := 0
		if err := l.Replay(ctx, "s", 1, w.Tail(), func(Message) error { got++; return nil }); err != nil || got != n+1 {
			b.Fatal(got, err)
		}
		bare += time.Since(begin)
		begin = time.Now()
		chain := events.NewChain(key)
		if err := l.Replay(ctx, "s", 1, w.Tail(), func(m Message) error {
			seq, payload := m.Seq, m.Payload
			_, err := chain.Admit(payload, seq)
			return err
		}); err != nil {
			b.Fatal(err)
		}
		admitted += time.Since(begin)
	}
	b.ReportMetric(float64(raw)/float64(admitted), "ours/raw")
	b.ReportMetric(float64(raw)/float64(bare), "bare/raw")
	b.ReportMetric(float64(b.N*n)/admitted.Seconds(), "events/s")
	b.ReportMetric(float64(b.N*n)/raw.Seconds(), "raw-events/s")
	b.ReportMetric(0, "ns/op")
}

func receiveRaw(b *testing.B, js jetstream.JetStream, n int) {
	c, err := js.OrderedConsumer(background(b), DefaultStream, jetstream.OrderedConsumerConfig{FilterSubjects: []string{"lease.s.>"}})
	if err != nil {
		b.Fatal(err)
	}
	it, err := c.Messages(jetstream.PullMaxMessages(10_000))
	if err != nil {
		b.Fatal(err)
	}
	defer it.Stop()
	for range n {
		if _, err := it.Next(); err != nil {
			b.Fatal(err)
		}
	}
}
