package handover

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"golang.org/x/sync/errgroup"
)

// byHand sends what a hand-over sends, and nothing but that: the engine's part of it.
// Nothing is sealed, signed, encoded or decided.
type byHand struct {
	b        *testing.B
	replicas int
	nc       *nats.Conn
	heard    *nats.Subscription // of what is said
	values   jetstream.KeyValue
	vault    *httptest.Server
	event    []byte
}

// newByHand makes a stream and a bucket beside those of the service, of the same kind.
func newByHand(t *bed, replicas int) *byHand {
	b := t.b
	h := &byHand{b: b, replicas: replicas, nc: t.nats.Conn(b), event: make([]byte, 400)}
	js, err := jetstream.New(h.nc)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "HAND", Subjects: []string{"hand.>"}, Replicas: replicas, AllowAtomicPublish: true, AllowDirect: true, DenyDelete: true}); err != nil {
		b.Fatal(err)
	}
	if h.values, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "hand", Replicas: replicas}); err != nil {
		b.Fatal(err)
	}
	if _, err := t.nats.Conn(b).Subscribe("echo", func(m *nats.Msg) { _ = m.Respond(m.Data) }); err != nil {
		b.Fatal(err)
	}
	if h.heard, err = t.nats.Conn(b).SubscribeSync("said"); err != nil {
		b.Fatal(err)
	}
	h.vault = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(h.event) }))
	b.Cleanup(h.vault.Close)
	return h
}

// once takes as long as one hand-over.
func (h *byHand) once() time.Duration {
	began := time.Now()
	h.say() // rotate: what is asked for is in the log when it is answered
	h.append("requested")
	h.ask() // a guard
	h.ask() // the credential
	var storing errgroup.Group
	for _, what := range []string{"values", "owner"} {
		storing.Go(func() error {
			_, err := h.values.Put(context.Background(), what, h.event)
			return err
		})
	}
	if err := storing.Wait(); err != nil {
		h.b.Fatal(err)
	}
	h.append("acquired")
	h.ask() // the guard's extension
	h.append("guard-extended", "handover-started")
	h.echo() // prepare
	h.append("prepared", "installed")
	h.say() // committed
	return time.Since(began)
}

// say is a message there; echo one there and back.
func (h *byHand) say() {
	if err := h.nc.Publish("said", h.event); err != nil {
		h.b.Fatal(err)
	}
	if _, err := h.heard.NextMsg(within); err != nil {
		h.b.Fatal(err)
	}
}

func (h *byHand) echo() {
	if _, err := h.nc.Request("echo", h.event, within); err != nil {
		h.b.Fatal(err)
	}
}

func (h *byHand) ask() {
	r, err := h.vault.Client().Get(h.vault.URL)
	if err != nil {
		h.b.Fatal(err)
	}
	defer r.Body.Close()
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		h.b.Fatal(err)
	}
}

// append stores events one after the other, or as one batch where that is faster: with
// more replicas than one (docs/adr/0009).
func (h *byHand) append(types ...string) {
	batch := ""
	if h.replicas > 1 && len(types) > 1 {
		batch = nuid.Next()
	}
	for i, typ := range types {
		m := nats.NewMsg("hand.prod.n0." + typ)
		m.Data = h.event
		if batch != "" {
			m.Header.Set("Nats-Batch-Id", batch)
			m.Header.Set("Nats-Batch-Sequence", strconv.Itoa(i+1))
			if i < len(types)-1 {
				if err := h.nc.PublishMsg(m); err != nil {
					h.b.Fatal(err)
				}
				continue
			}
			m.Header.Set("Nats-Batch-Commit", "1")
		}
		r, err := h.nc.RequestMsg(m, within)
		if err != nil {
			h.b.Fatal(err)
		}
		var ack jetstream.PubAck
		if err := json.Unmarshal(r.Data, &ack); err != nil || ack.Sequence == 0 {
			h.b.Fatalf("storing %s: %s, %v", typ, r.Data, err)
		}
	}
}
