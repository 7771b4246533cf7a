package projector_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/projector"
)

// TestAWritersOwnEventsAreAdopted: what a writer appended is folded without
// looking at it again, the chain comes with it, and what follows is admitted.
func TestAWritersOwnEventsAreAdopted(t *testing.T) {
	log, _ := sealed(t)
	p, err := fold(log)
	if err != nil {
		t.Fatal(err)
	}
	chain := p.Chain()
	own := events.Event{ID: "5", Scope: "prod", Name: "x", Epoch: 5, Lease: 1, Seq: 5, Time: time.Unix(0, 0), Data: &events.Verified{}}
	payload, err := chain.Seal(&own)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Adopt(&own); err != nil {
		t.Fatal(err)
	}
	p.SetChain(chain)
	if p.LastSeq() != 5 || !p.State().Name("x").Lease(1).Verified {
		t.Fatalf("it is at %d:\n%s", p.LastSeq(), p.State().Print())
	}
	if e, err := p.Apply(5, payload); e != nil || err != nil {
		t.Fatalf("its own event counted twice: %v", err)
	}
	next := events.Event{ID: "6", Scope: "prod", Name: "x", Epoch: 5, Lease: 1, Time: time.Unix(0, 0), Data: &events.HandoverStarted{}}
	if payload, err = chain.Seal(&next); err != nil {
		t.Fatal(err)
	}
	if e, err := p.Apply(6, payload); e == nil || err != nil {
		t.Fatalf("the event after it does not count: %v", err)
	}
}

func TestAdoptingWhatDoesNotFitStops(t *testing.T) {
	log, _ := sealed(t)
	p, _ := fold(log)
	wrong := events.Event{Seq: 5, Scope: "prod", Name: "x", Epoch: 5, Lease: 1, Data: &events.Revoking{}}
	var inconsistent *leasecore.InconsistentError
	if err := p.Adopt(&wrong); !errors.Is(err, projector.ErrStopped) || !errors.As(err, &inconsistent) {
		t.Fatal(err)
	}
	fits := events.Event{Seq: 5, Scope: "prod", Name: "x", Epoch: 5, Lease: 1, Data: &events.Verified{}}
	if err := p.Adopt(&fits); !errors.Is(err, projector.ErrStopped) || p.LastSeq() != 4 {
		t.Fatalf("it goes on: %v", err)
	}
}

// TestI1_OnlyItsHolderReopensAnEpoch: the same epoch again counts when its own
// holder says that it reopens it, and not otherwise.
func TestI1_OnlyItsHolderReopensAnEpoch(t *testing.T) {
	for name, c := range map[string]struct {
		epoch  uint64
		opened events.Opened
		counts bool
	}{
		"its holder":             {5, events.Opened{Holder: "a", How: events.HowReopened}, true},
		"its holder, as fresh":   {5, events.Opened{Holder: "a", How: events.HowFresh}, false},
		"another holder":         {5, events.Opened{Holder: "b", How: events.HowReopened}, false},
		"its holder, long ago":   {4, events.Opened{Holder: "a", How: events.HowReopened}, false},
		"a later one, as reopen": {6, events.Opened{Holder: "b", How: events.HowReopened}, true},
	} {
		log, chain := sealed(t)
		e := events.Event{ID: "o", Scope: "prod", Name: events.EpochName, Epoch: c.epoch, Time: time.Unix(0, 0), Data: &c.opened}
		b, err := chain.Seal(&e)
		if err != nil {
			t.Fatal(err)
		}
		p, err := fold(append(log, b))
		if err != nil {
			t.Fatal(err)
		}
		if skipped, _ := p.Skipped(); (skipped == 0) != c.counts || (p.State().Fence == 5) != c.counts {
			t.Errorf("%s: %d skipped, fence %d", name, skipped, p.State().Fence)
		}
	}
}

// TestTheLatestSkippedAreRemembered: a bounded number with the reason, all are
// counted, and none is looked at twice.
func TestTheLatestSkippedAreRemembered(t *testing.T) {
	log, _ := sealed(t)
	p, _ := fold(log)
	for i := range 151 {
		for range 2 {
			if _, err := p.Apply(uint64(5+i), fmt.Append(nil, "garbage ", i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	n, recent := p.Skipped()
	if n != 151 || len(recent) != 100 || p.LastSeq() != 155 {
		t.Fatalf("%d counted, %d remembered, at %d", n, len(recent), p.LastSeq())
	}
	for i, s := range recent {
		if s.Seq != uint64(56+i) || s.Why == "" {
			t.Fatalf("the %d-th is %+v", i, s)
		}
	}
}
