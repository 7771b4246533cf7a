package projector_test

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/snapshot"
)

// TestI6_FromAnySnapshot: a snapshot at any event of a life, and the rest of the
// log after it, give the state of the whole log.
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
		before := replay(rt, l.log[:cut])
		resumed, at, _, err := key.Decode(key.Encode(before, created, nil))
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
