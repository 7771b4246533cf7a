package leasecore

import (
	"errors"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
)

// opened gives the state of a scope that was just opened.
func openedState(t *testing.T) *State {
	t.Helper()
	s := NewState("prod")
	e := events.Event{Seq: 1, Scope: "prod", Name: events.EpochName, Epoch: 3, Time: time.Unix(0, 0).UTC(), Data: &events.Opened{Holder: "a"}}
	if err := s.Apply(&e); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestFinalizingAllowsWhatThisReleaseReads: once, and nothing where all of it is
// allowed already.
func TestFinalizingAllowsWhatThisReleaseReads(t *testing.T) {
	s := openedState(t)
	at := At{Now: time.Unix(1, 0), ID: "c"}
	out, err := Decide(NewDraft(s), at, Finalize{})
	if err != nil {
		t.Fatal(err)
	}
	if len(events.Release()) == 0 {
		if len(out) != 0 {
			t.Fatalf("%d events", len(out))
		}
		return
	}
	d, ok := out[0].Data.(*events.Format)
	if len(out) != 1 || !ok || events.Formats(d.Versions).String() != events.Release().String() || out[0].Version != 1 {
		t.Fatalf("%+v", out)
	}
	out[0].Seq = 2
	if err := s.Apply(&out[0]); err != nil {
		t.Fatal(err)
	}
	if s.Formats.String() != events.Release().String() {
		t.Fatal(s.Formats)
	}
	if again, err := Decide(NewDraft(s), at, Finalize{}); err != nil || len(again) != 0 {
		t.Fatal(again, err)
	}
	if _, err := Decide(NewDraft(s), At{Now: at.Now, ID: "c", Draining: true}, Finalize{}); !errors.Is(err, ErrLeaving) {
		t.Fatal(err)
	}
}

// TestAFormatOfALaterReleaseStops: the state stays as it was before it.
func TestAFormatOfALaterReleaseStops(t *testing.T) {
	s := openedState(t)
	before := s.Print()
	e := events.Event{Seq: 2, Scope: "prod", Name: events.EpochName, Epoch: 3, Time: time.Unix(1, 0), Data: &events.Format{Versions: map[events.Type]int{"teleported": 1}}}
	var future *events.FutureError
	if err := s.Apply(&e); !errors.As(err, &future) || future.Seq != 2 {
		t.Fatal(err)
	}
	if s.Print() != before || s.LastSeq != 1 {
		t.Fatal(s.Print())
	}
}
