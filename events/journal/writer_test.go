package journal

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasesvc/leasesvc/events"

	"github.com/leasesvc/leasesvc/internal/natstest"
)

func TestP1_OpeningIsCompareAndSet(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		l := p.open(t, "", patient)
		ctx := background(t)
		if last, err := l.LastOpened(ctx, "s"); err != nil || last != nil {
			t.Fatalf("a scope that nobody opened: %v, %v", last, err)
		}
		ev, payload := opened(t, "s", "a", 3)
		seq, err := l.AppendOpened(ctx, payload, ev, 0)
		if err != nil {
			t.Fatal(err)
		}
		again, err := l.AppendOpened(ctx, payload, ev, 0)
		if err != nil || again != seq {
			t.Fatalf("the same attempt again: %d, %v; it stands at %d", again, err, seq)
		}
		ev2, payload2 := opened(t, "s", "b", 4)
		_, err = l.AppendOpened(ctx, payload2, ev2, 0)
		var fenced *Fenced
		if !errors.As(err, &fenced) || !errors.Is(err, ErrFenced) {
			t.Fatalf("opening on an old expectation: %v", err)
		}
		if *fenced != (Fenced{Scope: "s", Epoch: 3, Holder: "a", How: events.HowFresh, Seq: seq}) {
			t.Fatalf("fenced by %+v", fenced)
		}
		last, err := l.LastOpened(ctx, "s")
		if err != nil || last.Seq != seq || last.Event.ID != ev.ID {
			t.Fatalf("last opened: %+v, %v", last, err)
		}
	})
}

func TestP3_EveryAppendCarriesTheFence(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		l := p.open(t, "", patient)
		term := claim(t, l, "s", "a", 1)
		w := l.NewWriter(term)
		one := mustLand(t, w, batch("s", 1, 1))
		many := mustLand(t, w, batch("s", 1, 5))
		for _, seq := range []uint64{one.Events[0].Seq, many.Events[0].Seq} {
			m, err := l.read.GetMsg(background(t), seq)
			if err != nil {
				t.Fatal(err)
			}
			if m.Header.Get(headerFence) != strconv.FormatUint(term.Fence, 10) || m.Header.Get(headerFenceSubject) != "lease.s._epoch.opened" {
				t.Fatalf("sequence %d has the headers %v", seq, m.Header)
			}
		}
	})
}

var staleAppends = flag.Int("journal.stale", 10_000, "how many stale appends TestI1 tries")

func TestI1_StaleWriterCannotAppend(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		l := p.open(t, "", patient)
		old := claim(t, l, "s", "a", 1)
		mustLand(t, l.NewWriter(old), batch("s", 1, 3))
		now := l.NewWriter(claim(t, l, "s", "b", 2))
		const workers = 4
		var stale, appended atomic.Int64
		stop := make(chan struct{})
		var wg, working sync.WaitGroup
		working.Go(func() { // the new one works on
			for {
				select {
				case <-stop:
					return
				default:
				}
				if r, err := now.Append(background(t), batch("s", 2, 2)); err != nil || !r.Landed {
					t.Errorf("the new holder: %+v, %v", r, err)
					return
				}
				appended.Add(2)
			}
		})
		for i := range workers {
			wg.Go(func() {
				for n := range *staleAppends / workers {
					evs := batch("s", 1, 1)
					if (n+i)%4 == 0 {
						evs = batch("s", 1, 3)
					}
					if err := appendStale(t, l.NewWriter(old), evs, n%50 == 0); err != nil {
						t.Error(err)
						return
					}
					stale.Add(1)
				}
			})
		}
		wg.Wait()
		close(stop)
		working.Wait()
		seqs, openings := contents(t, l, "s")
		if stale.Load() != int64(*staleAppends/workers*workers) || openings != 2 || int64(len(seqs)) != 3+2+appended.Load() {
			t.Fatalf("%d stale appends; %d events, %d openings, %d appended by the new holder", stale.Load(), len(seqs), openings, appended.Load())
		}
		t.Logf("%d events of the new holder meanwhile", appended.Load())
	})
}

// appendStale makes an append that must be refused by the fence: the whole of
// Append, which then reads who it was, or the request alone.
func appendStale(t *testing.T, w *Writer, evs []events.Event, whole bool) error {
	var fenced *Fenced
	if whole {
		if _, err := w.Append(background(t), evs); !errors.As(err, &fenced) || fenced.Epoch != 2 || fenced.Holder != "b" {
			return fmt.Errorf("a stale append: %w", err)
		}
		return nil
	}
	s, err := w.sealer(evs)
	if err != nil {
		return err
	}
	o, err := w.publish(context.Background(), s)
	var api *jetstream.APIError
	if errors.As(o.err, &api) && api.ErrorCode == codeInFlight {
		return nil // refused because one of the new holder's is in flight
	}
	if err != nil || o.kind != moved {
		return fmt.Errorf("a stale append came to %+v, %w", o, err)
	}
	return nil
}

func TestWriterStaysFenced(t *testing.T) {
	p := onOne(t)
	l := p.open(t, "", patient)
	w := l.NewWriter(claim(t, l, "s", "a", 1))
	claim(t, l, "s", "b", 2)
	for range 2 {
		if _, err := w.Append(background(t), batch("s", 1, 1)); !errors.Is(err, ErrFenced) {
			t.Fatalf("got %v", err)
		}
	}
}

// The acknowledgement of a batch names its last sequence only: the others must
// be those before it, whoever else writes to the stream at the same time.
func TestBatchIsContiguous(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		l := p.open(t, "", patient)
		var wg sync.WaitGroup
		var mu sync.Mutex
		told := map[string]map[string]uint64{}
		scopes := []string{"a", "b", "c", "d"}
		for _, scope := range scopes {
			told[scope] = map[string]uint64{}
		}
		for _, scope := range scopes {
			w := l.NewWriter(claim(t, l, scope, "h", 1))
			wg.Go(func() {
				for i := range 30 {
					r, err := w.Append(background(t), batch(scope, 1, 1+i*7%40))
					if err != nil || !r.Landed {
						t.Errorf("%+v, %v", r, err)
						return
					}
					mu.Lock()
					for _, e := range r.Events {
						told[scope][e.ID] = e.Seq
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		for scope, want := range told {
			seqs, openings := contents(t, l, scope)
			if len(seqs) != len(want)+openings {
				t.Errorf("scope %s: %d events, %d were told", scope, len(seqs), len(want))
			}
			for id, seq := range want {
				if seqs[id] != seq {
					t.Errorf("%s stands at %d, told was %d", id, seqs[id], seq)
				}
			}
		}
	})
}

func TestLargestBatch(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		l := p.open(t, "", patient)
		w := l.NewWriter(claim(t, l, "s", "a", 1))
		if _, err := w.Append(background(t), batch("s", 1, MaxBatch+1)); !errors.Is(err, ErrTooLarge) {
			t.Fatalf("one more than a batch takes: %v", err)
		}
		r := mustLand(t, w, batch("s", 1, MaxBatch))
		if len(r.Events) != MaxBatch || r.Events[MaxBatch-1].Seq != w.Tail() || r.Events[0].Seq != w.Tail()-MaxBatch+1 {
			t.Fatalf("%d events, tail %d", len(r.Events), w.Tail())
		}
		mustLand(t, w, batch("s", 1, 1))
		if seqs, _ := contents(t, l, "s"); len(seqs) != MaxBatch+2 {
			t.Fatalf("%d events", len(seqs))
		}
	})
}

func TestAppendRefusesForeignEvents(t *testing.T) {
	p := onOne(t)
	l := p.open(t, "", nil)
	w := l.NewWriter(claim(t, l, "s", "a", 2))
	open, _ := opened(t, "s", "a", 2)
	for _, ev := range []events.Event{event("other", 2), event("s", 1), open} {
		if _, err := w.Append(background(t), []events.Event{ev}); !errors.Is(err, ErrRefused) {
			t.Errorf("%s of %s in %d: %v", ev.Type(), ev.Scope, ev.Epoch, err)
		}
	}
	mustLand(t, w, batch("s", 2, 1))
}

func TestC60_FullIsSaidAndNothingIsLost(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		l := p.open(t, "", func(c *Config) { c.MaxBytes = 64 << 10 })
		w := l.NewWriter(claim(t, l, "s", "a", 1))
		ctx, landed := background(t), 0
		for size := 1; ; size = 1 + size%3 {
			_, err := w.Append(ctx, batch("s", 1, size))
			if errors.Is(err, ErrFull) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			landed += size
		}
		// The administrator makes room: the same writer goes on.
		cfg := Settings(Config{Replicas: p.replicas, MaxBytes: 1 << 20})
		if _, err := p.admin.UpdateStream(ctx, cfg); err != nil {
			t.Fatal(err)
		}
		mustLand(t, w, batch("s", 1, 2))
		if seqs, openings := contents(t, l, "s"); len(seqs) != landed+2+openings || openings != 1 {
			t.Fatalf("%d events, %d landed", len(seqs), landed+2)
		}
	})
}

func TestStreamDeletedUnderIt(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		l := p.open(t, "", func(c *Config) { c.GiveUp, c.AckWait = 300*time.Millisecond, time.Second })
		term := claim(t, l, "s", "a", 1)
		if err := p.admin.DeleteStream(background(t), DefaultStream); err != nil {
			t.Fatal(err)
		}
		w := l.NewWriter(term)
		for range 2 {
			if _, err := w.Append(background(t), batch("s", 1, 2)); !errors.Is(err, ErrNoStream) {
				t.Fatalf("appending to a deleted stream: %v", err)
			}
		}
		if err := l.Follow(background(t), "s", 1, nil); !errors.Is(err, ErrNoStream) {
			t.Fatalf("following a deleted stream: %v", err)
		}
		if _, err := l.Info(background(t)); !errors.Is(err, ErrNoStream) {
			t.Fatalf("its state: %v", err)
		}
		p.open(t, "", nil) // makes it anew
		if _, err := l.NewWriter(term).Append(background(t), batch("s", 1, 1)); !errors.Is(err, ErrReplaced) {
			t.Fatalf("appending to another stream: %v", err)
		}
		if err := l.Check(background(t)); !errors.Is(err, ErrReplaced) {
			t.Fatalf("checking another stream: %v", err)
		}
	})
}

func TestC59_ServerGoneIsUnavailable(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	p := &place{replicas: 1, url: s.URL()}
	l := p.open(t, "", func(c *Config) { c.GiveUp = 200 * time.Millisecond })
	w := l.NewWriter(claim(t, l, "s", "a", 1))
	mustLand(t, w, batch("s", 1, 2))
	lost := l.lostSignal()
	s.Stop()
	<-lost
	for _, n := range []int{1, 4} {
		if _, err := w.Append(background(t), batch("s", 1, n)); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("without a server: %v", err)
		}
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	landed := false
	for deadline := time.Now().Add(20 * time.Second); !landed && time.Now().Before(deadline); {
		r, err := w.Append(background(t), batch("s", 1, 3))
		if err != nil && !errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
		landed = err == nil && r.Landed
	}
	if seqs, openings := contents(t, l, "s"); !landed || len(seqs)-openings != 5 {
		t.Fatalf("%d events, %d openings", len(seqs), openings)
	}
}

func TestC59_StreamLeaderStopped(t *testing.T) {
	t.Parallel()
	c := natstest.Cluster(t, 3)
	p := &place{replicas: 3, url: c.URL()}
	l := p.open(t, "", func(c *Config) { c.AckWait = 500 * time.Millisecond }, nats.DontRandomize())
	w := l.NewWriter(claim(t, l, "s", "a", 1))
	ctx, cancel := context.WithCancel(background(t))
	defer cancel()
	var told []string
	var running sync.WaitGroup
	progress := make(chan struct{}, 1)
	running.Go(func() {
		for n := 1; ctx.Err() == nil; n = n%5 + 1 {
			r, err := w.Append(background(t), batch("s", 1, n))
			if errors.Is(err, ErrUnavailable) {
				continue
			}
			if err != nil {
				t.Errorf("appending: %v", err)
				return
			}
			for _, e := range r.Events {
				told = append(told, e.ID)
			}
			if r.Landed {
				select {
				case progress <- struct{}{}:
				default:
				}
			}
		}
	})
	await := func() {
		t.Helper()
		<-progress
		select {
		case <-progress:
		case <-time.After(45 * time.Second):
			t.Error("no append within 45 s")
		}
	}
	for range 2 {
		await()
		leader := c.AwaitStreamLeader(t, DefaultStream)
		c.Stop(leader)
		await()
		if err := c.Start(leader); err != nil {
			t.Fatal(err)
		}
		c.AwaitReady(t)
	}
	cancel()
	running.Wait()
	seqs, openings := contents(t, l, "s")
	if len(seqs) != len(told)+1 {
		t.Errorf("%d events in the log, %d told and one claim", len(seqs), len(told))
	}
	for _, id := range told {
		if seqs[id] == 0 {
			t.Errorf("%s was told and is not in the log", id)
		}
	}
	t.Logf("%d events, %d openings over two stopped leaders", len(seqs), openings)
}

func TestForbiddenIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "u", Password: "p", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Deny: []string{"lease.s.db.>"}},
		}}}
	})
	for _, hook := range []bool{true, false} {
		p := &place{replicas: 1, url: s.URL()}
		opts := []nats.Option{nats.UserInfo("u", "p")}
		if !hook { // nobody tells the log: it finds out itself
			opts = append(opts, nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		}
		l := p.open(t, "", nil, opts...)
		for _, n := range []int{1, 3} {
			w := l.NewWriter(claim(t, l, "s", "a", 1))
			for range 2 {
				if _, err := w.Append(background(t), batch("s", 1, n)); !errors.Is(err, ErrForbidden) {
					t.Errorf("hook %v, %d events: %v", hook, n, err)
				}
			}
		}
		if seqs, openings := contents(t, l, "s"); len(seqs) != openings {
			t.Errorf("%d events", len(seqs)-openings)
		}
	}
}

// Others' open batches fill the stream's places: wait for one, lose nothing.
func TestTooManyOpenBatchesMeansWait(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t, func(o *server.Options) { o.JetStreamLimits.MaxBatchTimeout = time.Second })
	p := &place{replicas: 1, url: s.URL()}
	l := p.open(t, "", nil)
	w := l.NewWriter(claim(t, l, "s", "a", 1))
	nc := s.Conn(t)
	for i := range 50 {
		m := &nats.Msg{Subject: "lease.other.x.y", Header: nats.Header{headerBatchID: {"b" + strconv.Itoa(i)}, headerBatchSeq: {"1"}}}
		if _, err := nc.RequestMsg(m, 5*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	mustLand(t, w, batch("s", 1, 3))
	if took := time.Since(begin); took < 100*time.Millisecond {
		t.Errorf("it took %v: were there 50 open batches?", took)
	}
	if seqs, openings := contents(t, l, "s"); len(seqs) != 4 || openings != 1 {
		t.Fatalf("%d events, %d openings", len(seqs), openings)
	}
}
