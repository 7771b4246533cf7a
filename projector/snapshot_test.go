package projector_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/projector"
	"github.com/leasesvc/leasesvc/snapshot"
)

// TestI6_FromAnySnapshot: a snapshot taken at any event of a life, and encoded
// after any later one, gives with the rest of the log the state of the whole log.
func TestI6_FromAnySnapshot(t *testing.T) {
	key, err := snapshot.NewKey(macKey, "v1")
	if err != nil {
		t.Fatal(err)
	}
	created := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	rapid.Check(t, func(rt *rapid.T) {
		l := newLife(rt)
		l.random(rapid.IntRange(1, 100).Draw(rt, "steps"))
		cut := rapid.IntRange(0, len(l.log)).Draw(rt, "cut")
		before, live := replay(rt, l.log[:cut]), replay(rt, l.log[:cut])
		taken := snapshot.Take(live, created, nil)
		thawed := rapid.IntRange(cut, len(l.log)).Draw(rt, "thawed")
		var encoded []byte
		for i, payload := range l.log[cut:] {
			if cut+i == thawed {
				encoded = key.Encode(taken)
				live.State().Thaw()
			}
			if _, err := live.Apply(uint64(cut+i+1), payload); err != nil {
				rt.Fatal(err)
			}
		}
		if encoded == nil {
			encoded = key.Encode(taken)
		}
		resumed, at, _, err := key.Decode(encoded)
		if err != nil {
			rt.Fatal(err)
		}
		if at.LastSeq != uint64(cut) || !at.StreamCreated.Equal(created) || at.Scope != "prod" {
			rt.Fatalf("it stands at %+v", at)
		}
		if a, b := before.State().Print(), resumed.State().Print(); a != b {
			rt.Fatalf("saved:\n%s\nrestored:\n%s", a, b)
		}
		for i, payload := range l.log[cut:] {
			if e, err := resumed.Apply(uint64(cut+i+1), payload); e == nil || err != nil {
				rt.Fatalf("sequence %d does not count after the snapshot: %v", cut+i+1, err)
			}
		}
		whole := replay(rt, l.log)
		if a, b := whole.State().Print(), resumed.State().Print(); a != b {
			rt.Fatalf("replayed:\n%s\nfrom the snapshot at %d:\n%s", a, cut, b)
		}
		if a, b := everyField(rt, whole.State()), everyField(rt, resumed.State()); a != b { // Print does not show all
			rt.Fatalf("a field differs:\n%s\n%s", a, b)
		}
		if a, b := everyField(rt, whole.State()), everyField(rt, live.State()); a != b {
			rt.Fatalf("being frozen has changed the state:\n%s\n%s", a, b)
		}
	})
}

func everyField(t *rapid.T, s *leasecore.State) string {
	all := []any{s.Head, s.Shared()}
	for _, n := range s.SortedNames() {
		all = append(all, s.Name(n))
	}
	b, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestUnsavedCountsWhatASnapshotLacks: what was looked at since, folded or not,
// read from the log or written by ourselves.
func TestUnsavedCountsWhatASnapshotLacks(t *testing.T) {
	opened := func(seq uint64) *events.Event {
		return &events.Event{
			ID: "01", Seq: seq, Scope: "prod", Name: events.EpochName, Epoch: seq, Time: time.Unix(0, 0).UTC(),
			Data: &events.Opened{Holder: "a", How: events.HowFresh},
		}
	}
	p := projector.Resume(leasecore.NewState("prod"), events.NewChain(nil), 6, 3)
	if n, _ := p.Skipped(); n != 3 || p.LastSeq() != 6 || p.Unsaved() != 0 {
		t.Fatalf("%d skipped, at %d, %d unsaved", n, p.LastSeq(), p.Unsaved())
	}
	if err := p.Adopt(opened(7)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Apply(8, []byte("what somebody else wrote")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Apply(8, []byte("once more")); err != nil || p.Unsaved() != 2 {
		t.Fatalf("%d unsaved, %v", p.Unsaved(), err)
	}
	if p.Saved(); p.Unsaved() != 0 {
		t.Fatalf("%d unsaved after a snapshot", p.Unsaved())
	}
}

// TestRefuseStandsStill: a projection of a log that is known to be wrong.
func TestRefuseStandsStill(t *testing.T) {
	why := errors.New("the log is lost")
	p := projector.Refuse("prod", macKey, why)
	if !errors.Is(p.Stopped(), why) || p.State().Scope != "prod" {
		t.Fatalf("%v", p.Stopped())
	}
	if e, err := p.Apply(1, []byte("{}")); e != nil || !errors.Is(err, why) {
		t.Fatalf("%v, %v", e, err)
	}
}
