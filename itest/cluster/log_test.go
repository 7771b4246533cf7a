package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/itest/clustertest"
)

var macKey = []byte("0123456789abcdef0123456789abcdef")

// openLog opens a log through url, with the connection that the service uses.
func openLog(t *testing.T, url string, cfg journal.Config) *journal.Log {
	t.Helper()
	js, err := jetstream.New(clustertest.Connect(t, url, append(journal.ConnOptions(), nats.ReconnectWait(100*time.Millisecond))...))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Create, cfg.MaxBytes = true, 2<<30
	return clustertest.OpenLog(t, js, cfg)
}

// retired is an event of no consequence.
func retired(scope string, epoch uint64, n int) []events.Event {
	out := make([]events.Event, n)
	for i := range out {
		out[i] = events.Event{
			ID: rand.Text(), Scope: scope, Name: "db", Lease: 7, Epoch: epoch, Time: time.Now().UTC().Truncate(time.Millisecond),
			Actor: events.Service("h"), Data: &events.Retired{Reason: events.RetiredReplaced},
		}
	}
	return out
}

// openEpoch appends an opened event over the one at last (0: none).
func openEpoch(ctx context.Context, l *journal.Log, scope, holder string, epoch, last uint64) (fence uint64, err error) {
	now := time.Now().UTC().Truncate(time.Millisecond)
	ev := events.Event{
		ID: rand.Text(), Scope: scope, Name: events.EpochName, Epoch: epoch, Time: now,
		Data: &events.Opened{Holder: holder, How: events.HowFresh, Attempt: rand.Text(), StreamCreated: l.Created().UTC()},
	}
	chain := events.NewChain(macKey)
	payload, err := chain.Seal(&ev)
	if err != nil {
		return 0, err
	}
	return l.AppendOpened(ctx, payload, ev, last)
}

// claim opens an epoch and gives its term.
func claim(t *testing.T, l *journal.Log, scope, holder string, epoch uint64) journal.Term {
	t.Helper()
	ctx := within(t, time.Minute)
	last, err := l.LastOpened(ctx, scope)
	if err != nil {
		t.Fatal(err)
	}
	expect := uint64(0)
	if last != nil {
		expect = last.Seq
	}
	fence, err := openEpoch(ctx, l, scope, holder, epoch, expect)
	if err != nil {
		t.Fatal(err)
	}
	term := journal.Term{
		Scope: scope, Epoch: epoch, Fence: fence, Tail: fence, Chain: events.NewChain(macKey), Holder: holder, NewID: rand.Text, Now: time.Now,
	}
	err = l.Replay(ctx, scope, 1, fence, func(m journal.Message) error {
		seq, payload := m.Seq, m.Payload
		_, err := term.Chain.Admit(payload, seq)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return term
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// contents reads a scope's log and checks it: the chain holds, nothing stands in
// it twice, epochs grow and no event of an epoch follows a later one's opened
// (I1). It gives where each event stands, and the opened events.
func contents(t *testing.T, l *journal.Log, scope string) (at map[string]uint64, openings []events.Event) {
	t.Helper()
	at = map[string]uint64{}
	chain := events.NewChain(macKey)
	var epoch uint64
	err := l.Replay(within(t, 5*time.Minute), scope, 1, ^uint64(0), func(m journal.Message) error {
		seq, payload := m.Seq, m.Payload
		e, err := chain.Admit(payload, seq)
		if err != nil {
			return err
		}
		if first, twice := at[e.ID]; twice {
			t.Errorf("event %s stands at %d and at %d", e.ID, first, m.Seq)
		}
		at[e.ID] = m.Seq
		if d, ok := e.Data.(*events.Opened); ok {
			if e.Epoch < epoch || e.Epoch == epoch && d.How != events.HowReopened {
				t.Errorf("I1: scope %s: epoch %d of %s opened after %d", scope, e.Epoch, d.Holder, epoch)
			}
			epoch = e.Epoch
			openings = append(openings, e)
		}
		if e.Epoch != epoch {
			t.Errorf("I1: scope %s: %s of epoch %d in epoch %d at %d", scope, e.Type(), e.Epoch, epoch, m.Seq)
		}
		return nil
	})
	if err != nil {
		t.Errorf("scope %s: %v", scope, err)
	}
	return at, openings
}

// isFenced tells a refusal by the fence, and that it says by whom.
func isFenced(err error, epoch uint64, holder string) bool {
	var fenced *journal.Fenced
	return errors.As(err, &fenced) && fenced.Epoch == epoch && fenced.Holder == holder
}
