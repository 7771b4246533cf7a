package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/internal/natstest"
	"github.com/leasesvc/leasesvc/projector"
)

func TestMain(m *testing.M) {
	// Storing an object starts a goroutine of the client's that reads a channel
	// which the end of a quick store has taken away already (nats.go 1.55).
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"))
}

// rig is a log with one scope's events, a bucket, and what was logged.
type rig struct {
	t     *testing.T
	ctx   context.Context
	js    jetstream.JetStream
	log   *journal.Log
	store *Store
	said  *bytes.Buffer
	w     *journal.Writer
	n     int
}

func newRig(t *testing.T) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	r := &rig{t: t, ctx: ctx, said: &bytes.Buffer{}}
	nc, err := nats.Connect(natstest.Start(t).URL(), journal.ConnOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		closed := nc.StatusChanged(nats.CLOSED)
		nc.Close()
		<-closed
	})
	if r.js, err = jetstream.New(nc); err != nil {
		t.Fatal(err)
	}
	r.openLog()
	if r.store, err = Open(ctx, r.js, Bucket, 1, key(t), slog.New(slog.NewTextHandler(r.said, nil))); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) openLog() {
	r.t.Helper()
	l, err := journal.Open(r.ctx, r.js, journal.Config{Replicas: 1, Create: true, MaxBytes: 64 << 20})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(l.Close)
	r.log = l
	opened := events.Event{ID: "o", Scope: "prod", Name: events.EpochName, Epoch: 1, Time: day, Data: &events.Opened{Holder: "h", How: events.HowFresh, Attempt: "a"}}
	chain := events.NewChain(chainKey)
	payload, err := chain.Seal(&opened)
	if err != nil {
		r.t.Fatal(err)
	}
	fence, err := l.AppendOpened(r.ctx, payload, opened, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	r.w = l.NewWriter(journal.Term{Scope: "prod", Epoch: 1, Fence: fence, Tail: fence, Chain: chain, Holder: "h", NewID: func() string { r.n++; return fmt.Sprint(r.n) }, Now: time.Now})
}

// append appends n definitions.
func (r *rig) append(n int) {
	r.t.Helper()
	var evs []events.Event
	for range n {
		r.n++
		d := events.DefaultDefinition()
		evs = append(evs, events.Event{ID: fmt.Sprint("e", r.n), Scope: "prod", Name: fmt.Sprint("app-", r.n), Epoch: 1, Time: day, Data: &events.Applied{Revision: 1, Definition: &d}})
	}
	if res, err := r.w.Append(r.ctx, evs); err != nil || !res.Landed {
		r.t.Fatal(res, err)
	}
}

// follow folds the log from where p stands.
func (r *rig) follow(p *projector.Projection) *projector.Projection {
	r.t.Helper()
	if p == nil {
		p = projector.New("prod", chainKey)
	}
	err := r.log.Replay(r.ctx, "prod", p.LastSeq()+1, ^uint64(0), func(m journal.Message) error {
		_, err := p.Apply(m.Seq, m.Payload)
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

func (r *rig) save(p *projector.Projection) []byte {
	r.t.Helper()
	encoded := r.store.Key().Encode(Take(p, r.log.Created(), []Ahead{{"app-1", 3, time.Minute}}))
	if err := r.store.Save(r.ctx, "prod", p.LastSeq(), encoded); err != nil {
		r.t.Fatal(err)
	}
	return encoded
}

func (r *rig) put(name string, b []byte) {
	r.t.Helper()
	if _, err := r.store.objects.PutBytes(r.ctx, name, b); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) restore() (*projector.Projection, []Ahead, error) {
	r.t.Helper()
	all, err := r.store.List(r.ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.store.Restore(r.ctx, r.log, "prod", all["prod"])
}

// TestRestoredAndFollowedIsReplayed: from a snapshot, the log's rest gives what
// the whole log gives.
func TestRestoredAndFollowedIsReplayed(t *testing.T) {
	r := newRig(t)
	if p, _, err := r.restore(); p != nil || err != nil {
		t.Fatal("a snapshot out of nothing", err)
	}
	r.append(20)
	r.save(r.follow(nil))
	r.append(20)
	r.save(r.follow(nil))
	r.append(20)
	p, ahead, err := r.restore()
	if err != nil || p == nil || p.LastSeq() != 41 || len(ahead) != 1 {
		t.Fatal(p, ahead, err)
	}
	if a, b := everyField(t, r.follow(nil).State()), everyField(t, r.follow(p).State()); a != b {
		t.Fatalf("replayed:\n%s\nfrom the snapshot:\n%s", a, b)
	}
	if p.LastSeq() != 61 || p.Unsaved() != 20 {
		t.Fatalf("it read %d events up to %d", p.Unsaved(), p.LastSeq())
	}
	if r.said.Len() > 0 {
		t.Error(r.said)
	}
}

func TestOnlyTheLastTwoAreKept(t *testing.T) {
	r := newRig(t)
	for range 4 {
		r.append(3)
		r.save(r.follow(nil))
	}
	if all, err := r.store.List(r.ctx); err != nil || fmt.Sprint(all) != "map[prod:[13 10]]" {
		t.Fatal(all, err)
	}
}

// TestTwoReleasesKeepTheirSnapshots: side by side, and back, each finds its own;
// of a third one, which nobody can go back to any more, nothing is kept.
func TestTwoReleasesKeepTheirSnapshots(t *testing.T) {
	r := newRig(t)
	stores := map[string]*Store{}
	for _, release := range []string{"v0", "v1", "v2"} {
		k, err := NewKey(chainKey, release)
		if err != nil {
			t.Fatal(err)
		}
		if stores[release], err = Open(r.ctx, r.js, Bucket, 1, k, slog.New(slog.NewTextHandler(r.said, nil))); err != nil {
			t.Fatal(err)
		}
	}
	for _, release := range []string{"v0", "v0", "v1", "v1", "v1", "v2", "v2", "v2", "v1", "v2"} {
		r.store = stores[release]
		r.append(3)
		r.save(r.follow(nil))
	}
	for release, want := range map[string]string{"v0": "map[]", "v1": "map[prod:[28 16]]", "v2": "map[prod:[31 25]]"} {
		r.store = stores[release]
		if all, err := r.store.List(r.ctx); err != nil || fmt.Sprint(all) != want {
			t.Errorf("%s has %v, want %s (%v)", release, all, want, err)
		}
		p, _, err := r.restore()
		if err != nil || (p == nil) != (release == "v0") {
			t.Errorf("%s restores %v, %v", release, p, err)
		}
		if a, b := everyField(t, r.follow(nil).State()), everyField(t, r.follow(p).State()); a != b {
			t.Errorf("%s goes on from another state", release)
		}
	}
	if r.said.Len() > 0 {
		t.Error(r.said)
	}
	if err := r.store.Drop(r.ctx, "prod"); err != nil {
		t.Fatal(err)
	}
	if left, err := r.store.all(r.ctx); err != nil || len(left) != 0 {
		t.Errorf("%v are left of a log that was given up (%v)", left, err)
	}
}

// TestHighestThatHoldsWins: what is forged, damaged or of another release is
// ignored and said, and the one below it is used.
func TestHighestThatHoldsWins(t *testing.T) {
	r := newRig(t)
	r.append(5)
	good := r.save(r.follow(nil))
	r.append(5)
	for name, b := range map[string][]byte{"forged": []byte("{}"), "damaged": append(bytes.Clone(good[:200]), good[201:]...)} {
		r.said.Reset()
		r.put(r.store.ours("prod", 11).name(), b)
		p, _, err := r.restore()
		if err != nil || p == nil || p.LastSeq() != 6 {
			t.Fatal(name, p, err)
		}
		if !strings.Contains(r.said.String(), "a snapshot is ignored") || !strings.Contains(r.said.String(), "seq=11") {
			t.Errorf("%s: it said %q", name, r.said)
		}
	}
	// Another scope's genuine one, under our name.
	chain := events.NewChain(chainKey)
	other := projector.New("other", chainKey)
	other.SetChain(chain)
	r.said.Reset()
	r.put(r.store.ours("prod", 11).name(), r.store.Key().Encode(Take(other, r.log.Created(), nil)))
	if p, _, err := r.restore(); err != nil || p == nil || p.LastSeq() != 6 || r.said.Len() == 0 {
		t.Fatal(p, err)
	}
}

// TestSnapshotOfALostLog: a genuine snapshot tells a log that was recreated, and
// one that lacks its end; neither is read as if nothing had been.
func TestSnapshotOfALostLog(t *testing.T) {
	r := newRig(t)
	r.append(10)
	ahead := r.follow(nil)
	r.save(ahead)

	// What the log would be after an older copy was put back: without the event.
	missing := atNothing{r.log}
	all, err := r.store.List(r.ctx)
	if err != nil {
		t.Fatal(err)
	}
	var lost *LostError
	if _, _, err := r.store.Restore(r.ctx, missing, "prod", all["prod"]); !errors.As(err, &lost) || lost.Seq != 11 || !lost.Saved.Equal(lost.Found) {
		t.Fatal(err)
	}

	if err := r.js.DeleteStream(r.ctx, r.log.Stream()); err != nil {
		t.Fatal(err)
	}
	r.openLog()
	r.append(20)
	if _, _, err := r.restore(); !errors.As(err, &lost) || lost.Saved.Equal(lost.Found) {
		t.Fatal(err)
	}
	// A snapshot that says it is of this stream, of an event that stands in it as
	// another one.
	r.put(r.store.ours("prod", 11).name(), r.store.Key().Encode(Take(ahead, r.log.Created(), nil)))
	if _, _, err := r.restore(); !errors.As(err, &lost) || !lost.Saved.Equal(lost.Found) {
		t.Fatal(err)
	}
}

type atNothing struct{ *journal.Log }

func (atNothing) At(context.Context, string, uint64) (*journal.Message, error) { return nil, nil }
