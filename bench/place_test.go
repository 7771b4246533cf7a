package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/internal/natstest"
)

// place is where something is measured: one NATS server or three, embedded.
type place struct {
	url      string
	replicas int
	nc       *nats.Conn
	js       jetstream.JetStream
	log      *journal.Log
}

func newPlace(t *testing.T, replicas int, always bool) *place {
	t.Helper()
	var opts []natstest.Option
	if always {
		opts = append(opts, natstest.SyncAlways())
	}
	p := &place{replicas: replicas}
	if replicas == 1 {
		p.url = natstest.Start(t, opts...).URL()
	} else {
		c := natstest.Cluster(t, replicas, opts...)
		p.url = c.Server(0).URL()
	}
	p.nc = connect(t, p.url)
	var err error
	if p.js, err = jetstream.New(p.nc); err != nil {
		t.Fatal(err)
	}
	if p.log, err = journal.Open(background(t), p.js, journal.Config{Replicas: replicas, Create: true, MaxBytes: 3 << 30}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.log.Close)
	return p
}

func connect(t *testing.T, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, append(journal.ConnOptions(), nats.IgnoreDiscoveredServers())...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		closed := nc.StatusChanged(nats.CLOSED)
		nc.Close()
		<-closed
	})
	return nc
}

func background(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

var (
	key      = []byte("0123456789abcdef0123456789abcdef")
	keyID    = "" // of the seal key that it is derived from, in logs that a service is to read
	lastID   atomic.Uint64
	began    = time.Now().UTC().Truncate(time.Second)
	newID    = func() string { return fmt.Sprintf("0%025d", lastID.Add(1)) }
	holder   = "bench-holder"
	oneActor = events.Service(holder)
)

// writer opens an epoch of a scope and gives its writer.
func (p *place) writer(t *testing.T, scope string, epoch uint64) *journal.Writer {
	t.Helper()
	ev := events.Event{
		ID: newID(), Scope: scope, Name: events.EpochName, Epoch: epoch, Time: began, Actor: oneActor,
		Data: &events.Opened{Holder: holder, How: events.HowFresh, SealKey: keyID, Attempt: newID(), StreamCreated: p.log.Created()},
	}
	chain := events.NewChain(key)
	payload, err := chain.Seal(&ev)
	if err != nil {
		t.Fatal(err)
	}
	fence, err := p.log.AppendOpened(background(t), payload, ev, 0)
	if err != nil {
		t.Fatal(err)
	}
	return p.log.NewWriter(journal.Term{
		Scope: scope, Epoch: epoch, Fence: fence, Tail: fence, Chain: chain, Holder: holder, NewID: newID, Now: time.Now,
	})
}

// must appends and fails when it does not land.
func must(t *testing.T, w *journal.Writer, evs []events.Event) {
	t.Helper()
	if r, err := w.Append(context.Background(), evs); err != nil || !r.Landed {
		t.Error(r.Landed, err)
	}
}
