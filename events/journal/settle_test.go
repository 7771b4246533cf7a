package journal

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leasesvc/leasesvc/events"
)

// impatient waits a short time for an answer, since these tests lose many.
func impatient(c *Config) { c.AckWait = 150 * time.Millisecond }

// every gives a verdict for every n-th message that match says yes to.
func every(n int, v verdict, match func(string) bool) func(string) verdict {
	i := 0
	return func(subject string) verdict {
		if !match(subject) {
			return pass
		}
		if i++; i%n == 0 {
			return v
		}
		return pass
	}
}

// ledger is what the appends of a test said, kept outside of the log.
type ledger struct {
	landed, gone []string
	reopened     int
}

func (g *ledger) note(r Result, evs []events.Event) {
	for _, e := range r.Events {
		if e.Type() == events.TypeOpened {
			g.reopened++
		}
	}
	for _, e := range evs {
		if r.Landed {
			g.landed = append(g.landed, e.ID)
		} else {
			g.gone = append(g.gone, e.ID)
		}
	}
}

// check compares it with the log: none lost, none twice (contents), none back.
func (g *ledger) check(t *testing.T, l *Log, scope string) {
	t.Helper()
	seqs, openings := contents(t, l, scope)
	for _, id := range g.landed {
		if seqs[id] == 0 {
			t.Errorf("%s landed and is lost", id)
		}
	}
	for _, id := range g.gone {
		if seqs[id] != 0 {
			t.Errorf("%s was said to be gone and stands at %d", id, seqs[id])
		}
	}
	if len(seqs) != len(g.landed)+openings || openings != g.reopened+1 {
		t.Errorf("%d events and %d openings in the log, %d landed and %d reopened were told", len(seqs)-openings, openings, len(g.landed), g.reopened)
	}
}

func TestP4_LostAnswers(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		px := newProxy(t, p.url)
		l := p.open(t, px.url(), impatient)
		w := l.NewWriter(claim(t, l, "s", "a", 1))
		px.set(every(5, drop, acks), nil)
		var g ledger
		for i := range 300 {
			evs := batch("s", 1, 1+i%4)
			r, err := w.Append(background(t), evs)
			if err != nil {
				t.Fatal(err)
			}
			if !r.Landed {
				t.Errorf("append %d did not land: it was sent", i)
			}
			g.note(r, evs)
		}
		px.set(nil, nil)
		g.check(t, l, "s")
		if px.count(drop) < 50 {
			t.Errorf("only %d answers were lost", px.count(drop))
		}
		if g.reopened > 0 {
			t.Logf("reopened %d times", g.reopened)
		}
	})
}

// The answer is lost with the connection, and the looking with it.
func TestP4_ConnectionCutAtTheAnswer(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		px := newProxy(t, p.url)
		l := p.open(t, px.url(), impatient)
		w := l.NewWriter(claim(t, l, "s", "a", 1))
		px.set(every(4, cut, acks), nil)
		var g ledger
		for i := range 100 {
			evs := batch("s", 1, 1+i%4)
			r, err := w.Append(background(t), evs)
			if errors.Is(err, ErrUnavailable) {
				g.note(Result{}, evs)
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			g.note(r, evs)
		}
		px.set(nil, nil)
		g.check(t, l, "s")
		if px.count(cut) < 20 {
			t.Errorf("only %d connections were cut", px.count(cut))
		}
		t.Logf("%d landed, %d did not, reopened %d times", len(g.landed), len(g.gone), g.reopened)
	})
}

// A third of the requests and of the answers is lost, those of openings too:
// whatever Append says must be so.
func TestP4_LostRequestsAndAnswers(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		px := newProxy(t, p.url)
		l := p.open(t, px.url(), impatient)
		w := l.NewWriter(claim(t, l, "s", "a", 1))
		// Which ones are lost is drawn, always the same.
		draw := rand.New(rand.NewPCG(1, 2))
		lose := func(subject string) verdict {
			if acks(subject) && draw.IntN(3) == 0 {
				return drop
			}
			return pass
		}
		px.set(lose, func(_, reply string) verdict { return lose(reply) })
		var g ledger
		for i := range 60 {
			evs := batch("s", 1, 1+i%4)
			r, err := w.Append(background(t), evs)
			if err != nil {
				t.Fatal(err)
			}
			g.note(r, evs)
		}
		px.set(nil, nil)
		g.check(t, l, "s")
		if len(g.gone) == 0 || len(g.landed) == 0 || g.reopened == 0 {
			t.Errorf("%d gone, %d reopened: the fault did not happen", len(g.gone), g.reopened)
		}
		t.Logf("%d landed, %d did not, reopened %d times", len(g.landed), len(g.gone), g.reopened)
	})
}

// A request that is held up somewhere and arrives after the reopening is
// refused, and the writer that went on is not disturbed.
func TestP4_LateRequestCannotLand(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		px := newProxy(t, p.url)
		l := p.open(t, px.url(), impatient)
		w := l.NewWriter(claim(t, l, "s", "a", 1))
		var g ledger
		for i := range 40 {
			armed := true
			px.set(nil, func(subject, reply string) verdict {
				if armed && acks(reply) && !strings.HasSuffix(subject, ".opened") {
					armed = false
					return hold
				}
				return pass
			})
			evs := batch("s", 1, 1+i%3)
			r, err := w.Append(background(t), evs)
			if err != nil {
				t.Fatal(err)
			}
			if r.Landed || len(r.Events) != 1 || r.Events[0].Type() != events.TypeOpened {
				t.Fatalf("append %d: %+v", i, r)
			}
			g.note(r, evs)
			px.set(nil, nil)
			px.release()
			next := batch("s", 1, 1+i%2)
			g.note(mustLand(t, w, next), next)
		}
		g.check(t, l, "s")
		if px.count(hold) != 40 {
			t.Errorf("%d requests were held", px.count(hold))
		}
	})
}

// A request that lands while the outcome is being settled, before the new fence,
// is found and its events keep their place.
func TestP4_LateRequestLandsBeforeTheFence(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		px := newProxy(t, p.url)
		l := p.open(t, px.url(), impatient)
		w := l.NewWriter(claim(t, l, "s", "a", 1))
		var g ledger
		for i := range 10 {
			held := false
			px.set(nil, func(subject, reply string) verdict {
				switch {
				case acks(reply) && !held:
					held = true
					return hold
				case strings.HasSuffix(subject, ".opened") && acks(reply):
					// Let the first one go before it.
					for _, f := range px.held {
						f()
					}
					px.held = nil
				}
				return pass
			})
			evs := batch("s", 1, 1+i%3)
			r := mustLand(t, w, evs)
			if last := r.Events[len(r.Events)-1]; last.Type() != events.TypeOpened || len(r.Events) != len(evs)+1 || last.Seq != w.Fence() {
				t.Fatalf("append %d: %+v", i, r)
			}
			g.note(r, evs)
		}
		px.set(nil, nil)
		g.check(t, l, "s")
	})
}

func TestP4_OpeningWithLostAnswers(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		px := newProxy(t, p.url)
		l := p.open(t, px.url(), impatient)
		for i := range 20 {
			scope := "s" + strconv.Itoa(i)
			n := 0
			px.set(func(subject string) verdict {
				if acks(subject) {
					if n++; n == 1 {
						return drop
					}
				}
				return pass
			}, nil)
			ev, payload := opened(t, scope, "a", 1)
			seq, err := l.AppendOpened(background(t), payload, ev, 0)
			if err != nil {
				t.Fatal(err)
			}
			if last, err := l.LastOpened(background(t), scope); err != nil || last.Seq != seq || last.Event.ID != ev.ID {
				t.Fatalf("opened at %d; the last one is %+v, %v", seq, last, err)
			}
		}
		if px.count(drop) != 20 {
			t.Errorf("%d answers were lost", px.count(drop))
		}
	})
}

// Deposed while the outcome is not known: Fenced, by whom, and nothing reopened.
func TestP4_DeposedWhileSettling(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		px := newProxy(t, p.url)
		l, other := p.open(t, px.url(), impatient), p.open(t, "", nil)
		for _, landed := range []bool{true, false} {
			scope := "landed-" + strconv.FormatBool(landed)
			w := l.NewWriter(claim(t, l, scope, "a", 1))
			var once sync.Once
			px.set(nil, func(subject, reply string) verdict {
				if !acks(reply) || !strings.HasPrefix(subject, "lease."+scope) {
					return pass
				}
				v := pass
				once.Do(func() { v = drop })
				if v == drop {
					claim(t, other, scope, "b", 2)
				}
				return v
			})
			if landed { // stored, the answer lost, then deposed
				px.set(func(subject string) verdict {
					if acks(subject) {
						once.Do(func() { claim(t, other, scope, "b", 2) })
						return drop
					}
					return pass
				}, nil)
			}
			_, err := w.Append(background(t), batch(scope, 1, 2))
			px.set(nil, nil)
			var fenced *Fenced
			if !errors.As(err, &fenced) || fenced.Epoch != 2 || fenced.Holder != "b" {
				t.Errorf("landed %v: %v", landed, err)
			}
			if _, openings := contents(t, l, scope); openings != 2 {
				t.Errorf("landed %v: %d openings", landed, openings)
			}
		}
	})
}

// Without an end of the settling in time nothing is said, ever again.
func TestP4_UnsettledWriterIsOver(t *testing.T) {
	p := onOne(t)
	px := newProxy(t, p.url)
	l := p.open(t, px.url(), impatient)
	w := l.NewWriter(claim(t, l, "s", "a", 1))
	px.set(nil, func(_, reply string) verdict {
		if acks(reply) {
			return drop
		}
		return pass
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := w.Append(ctx, batch("s", 1, 1)); !errors.Is(err, ErrUnsettled) {
		t.Fatalf("got %v", err)
	}
	px.set(nil, nil)
	if _, err := w.Append(background(t), batch("s", 1, 1)); !errors.Is(err, ErrUnsettled) {
		t.Fatalf("again: %v", err)
	}
}

// On a replicated stream an append under a fence that another message is in
// flight under is refused by 10164: no deposal, and nothing stored twice.
func TestP4_InFlightIsNoDeposal(t *testing.T) {
	p := onThree(t)
	l := p.open(t, "", nil)
	w := l.NewWriter(claim(t, l, "s", "a", 1))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var conflicts int
	var fence atomic.Uint64
	fence.Store(w.Fence())
	nc := cluster().Conn(t)
	wg.Go(func() { // somebody without the key, under our fence
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			m := &nats.Msg{Subject: "lease.other.x.y", Data: []byte("{}"), Header: fenceHeader("lease.s._epoch.opened", fence.Load(), 0)}
			if r, err := nc.RequestMsg(m, 5*time.Second); err == nil && strings.Contains(string(r.Data), "10164") {
				conflicts++
			}
		}
	})
	var g ledger
	for i := range 300 {
		evs := batch("s", 1, 1+i%3)
		r, err := w.Append(background(t), evs)
		if err != nil {
			t.Error(err)
			break
		}
		fence.Store(w.Fence())
		g.note(r, evs)
	}
	close(stop)
	wg.Wait()
	g.check(t, l, "s")
	if conflicts+g.reopened == 0 {
		t.Error("there was no conflict")
	}
	t.Logf("%d conflicts of the other, %d of ours", conflicts, g.reopened)
}
