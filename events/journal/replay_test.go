package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasesvc/leasesvc/events"
)

func TestReplayGivesWhatWasAppended(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		l := p.open(t, "", patient)
		run := 0
		rapid.Check(t, func(rt *rapid.T) {
			run++
			scopes := []string{fmt.Sprintf("a%d", run), fmt.Sprintf("b%d", run)}
			writers := map[string]*Writer{}
			stored := map[string][]uint64{}
			for _, s := range scopes {
				term := claim(t, l, s, "h", 1)
				writers[s], stored[s] = l.NewWriter(term), []uint64{term.Fence}
			}
			for range rapid.IntRange(0, 12).Draw(rt, "appends") {
				s := rapid.SampledFrom(scopes).Draw(rt, "scope")
				r := mustLand(t, writers[s], batch(s, 1, rapid.IntRange(1, 20).Draw(rt, "size")))
				for _, e := range r.Events {
					stored[s] = append(stored[s], e.Seq)
				}
			}
			s := rapid.SampledFrom(scopes).Draw(rt, "replayed")
			all := stored[s]
			from := rapid.Uint64Range(all[0]-1, all[len(all)-1]+2).Draw(rt, "from")
			to := rapid.Uint64Range(all[0]-1, all[len(all)-1]+2).Draw(rt, "to")
			var want, got []uint64
			for _, seq := range all {
				if seq >= from && seq <= to {
					want = append(want, seq)
				}
			}
			err := l.Replay(background(t), s, from, to, func(m Message) error {
				seq, payload := m.Seq, m.Payload
				e, err := events.Decode(payload, seq)
				if err == nil && e.Scope != s {
					err = fmt.Errorf("an event of scope %s", e.Scope)
				}
				got = append(got, seq)
				return err
			})
			if err != nil || !slices.Equal(got, want) {
				rt.Fatalf("%d to %d: got %v, want %v; %v", from, to, got, want, err)
			}
		})
	})
}

func TestReplayOfManyAndLarge(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		l := p.open(t, "", patient)
		w := l.NewWriter(claim(t, l, "s", "a", 1))
		stored := 1 // the opening; a busy cluster may ask for another one
		for range 7 {
			stored += len(mustLand(t, w, batch("s", 1, MaxBatch)).Events)
		}
		for range 6 { // more than a pull takes in bytes
			evs := batch("s", 1, 15)
			for i := range evs {
				evs[i].Data = &events.Rejected{Failure: events.Failure{Message: string(bytes.Repeat([]byte("x"), 200<<10))}}
			}
			stored += len(mustLand(t, w, evs).Events)
		}
		n := 0
		if err := l.Replay(background(t), "", 1, ^uint64(0), func(Message) error { n++; return nil }); err != nil {
			t.Fatal(err)
		}
		if n != stored || n < 7*MaxBatch+6*15+1 {
			t.Fatalf("%d messages, %d were stored", n, stored)
		}
	})
}

func TestReplayEndsWithTheCallersError(t *testing.T) {
	p := onOne(t)
	l := p.open(t, "", patient)
	w := l.NewWriter(claim(t, l, "s", "a", 1))
	mustLand(t, w, batch("s", 1, 9))
	mine := errors.New("mine")
	n := 0
	err := l.Replay(background(t), "s", 1, w.Tail(), func(Message) error {
		if n++; n == 4 {
			return mine
		}
		return nil
	})
	if !errors.Is(err, mine) || n != 4 {
		t.Fatalf("%d messages, %v", n, err)
	}
	if err := l.Replay(background(t), "nobody", 1, 99, nil); err != nil {
		t.Fatalf("a scope without events: %v", err)
	}
}

func TestReplayStalls(t *testing.T) {
	p := onOne(t)
	px := newProxy(t, p.url)
	l := p.open(t, px.url(), func(c *Config) { c.Stall = 1200 * time.Millisecond })
	w := l.NewWriter(claim(t, l, "s", "a", 1))
	mustLand(t, w, batch("s", 1, 9))
	px.set(func(subject string) verdict {
		if len(subject) > 6 && subject[:6] == "lease." {
			return drop
		}
		return pass
	}, nil)
	if err := l.Replay(background(t), "s", 1, w.Tail(), func(Message) error { return nil }); !errors.Is(err, ErrStalled) {
		t.Fatalf("got %v", err)
	}
	if px.count(drop) == 0 {
		t.Error("nothing was lost")
	}
}

// Follow over cut connections and lost messages: nothing skipped or repeated.
func TestFollowSkipsAndRepeatsNothing(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		px := newProxy(t, p.url)
		l, writing := p.open(t, px.url(), nil), p.open(t, "", patient)
		w := writing.NewWriter(claim(t, writing, "s", "a", 1))
		other := writing.NewWriter(claim(t, writing, "o", "a", 1))
		want := []uint64{w.Fence()}
		ctx, cancel := context.WithCancel(background(t))
		defer cancel()
		var last atomic.Uint64
		var got []uint64
		ended := make(chan error, 1)
		go func() {
			ended <- l.Follow(ctx, "s", 1, func(m Message) error {
				seq := m.Seq
				got = append(got, seq)
				last.Store(seq)
				return nil
			})
		}()
		for i := range 60 {
			switch i % 20 {
			case 7:
				px.cutAll()
			case 15: // one message is lost and the connection stays
				once := false
				px.set(func(subject string) verdict {
					if !once && len(subject) > 8 && subject[:8] == "lease.s." {
						once = true
						return drop
					}
					return pass
				}, nil)
			}
			mustLand(t, other, batch("o", 1, 3))
			for _, e := range mustLand(t, w, batch("s", 1, 1+i%30)).Events {
				want = append(want, e.Seq)
			}
			if i%10 == 9 {
				for deadline := time.Now().Add(30 * time.Second); last.Load() < want[len(want)-1]; time.Sleep(time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("followed up to %d of %d", last.Load(), want[len(want)-1])
					}
					if i%20 == 19 && time.Until(deadline) < 29*time.Second { // a lost last message shows by the next
						for _, e := range mustLand(t, w, batch("s", 1, 1)).Events {
							want = append(want, e.Seq)
						}
					}
				}
			}
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("followed %d messages, appended %d", len(got), len(want))
		}
		if px.count(drop) == 0 {
			t.Error("no message was lost")
		}
	})
}

func TestPosition(t *testing.T) {
	for reply, want := range map[string][2]uint64{
		"$JS.ACK.S.c.1.42.7.1700000000.3":             {42, 7},
		"$JS.ACK.dom.acc.S.c.1.42.7.1700000000.3.xyz": {42, 7},
	} {
		if seq, n, stored, ok := position(reply); !ok || seq != want[0] || n != want[1] || stored.UnixNano() != 1700000000 {
			t.Errorf("%s: %d, %d, %s, %v", reply, seq, n, stored, ok)
		}
	}
	for _, reply := range []string{"", "x", "$JS.ACK.S.c.1.x.7.1.3", "$JS.ACK.S.c.1.4.7.x.3", "$JS.ACK.S.c.1"} {
		if _, _, _, ok := position(reply); ok {
			t.Errorf("%q was taken", reply)
		}
	}
}
