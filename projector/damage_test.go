package projector_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/internal/arrows"
	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/projector"
)

// sealed gives a short log and the chain at its end.
func sealed(t *testing.T) ([][]byte, events.Chain) {
	t.Helper()
	def := events.DefaultDefinition()
	def.Vault, def.Path = "main", "kv/x"
	chain := events.NewChain(macKey)
	var log [][]byte
	for _, e := range []events.Event{
		{ID: "1", Scope: "prod", Name: events.EpochName, Epoch: 5, Data: &events.Opened{Holder: "a"}},
		{ID: "2", Scope: "prod", Name: "x", Epoch: 5, Data: &events.Applied{Revision: 1, Definition: &def}},
		{ID: "3", Scope: "prod", Name: "x", Epoch: 5, Lease: 1, Data: &events.Requested{Vault: "main", Path: "kv/x"}},
		{ID: "4", Scope: "prod", Name: "x", Epoch: 5, Lease: 1, Data: &events.Acquired{Keys: []string{"k"}}},
	} {
		e.Time = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		b, err := chain.Seal(&e)
		if err != nil {
			t.Fatal(err)
		}
		log = append(log, b)
	}
	return log, chain
}

func fold(log [][]byte) (*projector.Projection, error) {
	p := projector.New("prod", macKey)
	for i, b := range log {
		if _, err := p.Apply(uint64(i+1), b); err != nil {
			return p, err
		}
	}
	return p, nil
}

func TestI1_EventsOfAnotherEpochDoNotCount(t *testing.T) {
	log, chain := sealed(t)
	for _, e := range []events.Event{
		{ID: "s1", Scope: "prod", Name: "x", Epoch: 4, Lease: 1, Data: &events.Revoking{}},
		{ID: "s2", Scope: "prod", Name: events.EpochName, Epoch: 4, Data: &events.Opened{Holder: "b"}},
		{ID: "s3", Scope: "prod", Name: events.EpochName, Epoch: 5, Data: &events.Opened{Holder: "b", How: events.HowReopened}},
		{ID: "s4", Scope: "other", Name: events.EpochName, Epoch: 6, Data: &events.Opened{Holder: "b"}},
	} {
		stale := chain
		b, err := stale.Seal(&e)
		if err != nil {
			t.Fatal(err)
		}
		p, err := fold(append(log[:4:4], b))
		if err != nil {
			t.Errorf("%s: %v", e.ID, err)
		}
		want, _ := fold(log)
		if n, _ := p.Skipped(); n != 1 || p.State().Print() != want.State().Print() {
			t.Errorf("%s: %d skipped\n%s", e.ID, n, p.State().Print())
		}
	}
}

func TestAStrangersEventIsSkippedAndTold(t *testing.T) {
	log, chain := sealed(t)
	next := events.Event{ID: "5", Scope: "prod", Name: "x", Epoch: 5, Lease: 1, Data: &events.Verified{}}
	genuine, err := chain.Seal(&next)
	if err != nil {
		t.Fatal(err)
	}
	byHand, _ := events.Encode(&events.Event{ID: "x", Scope: "prod", Name: "x", Epoch: 5, Lease: 1, Data: &events.Revoking{}})
	for name, foreign := range map[string][]byte{"by hand": byHand, "garbage": []byte("hello"), "empty": {}} {
		p, err := fold(append(log[:4:4], foreign, genuine))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		n, recent := p.Skipped()
		if n != 1 || len(recent) != 1 || recent[0].Seq != 5 || p.LastSeq() != 6 {
			t.Errorf("%s: %d skipped, %v, last %d", name, n, recent, p.LastSeq())
		}
		if l := p.State().Name("x").Lease(1); l == nil || !l.Verified {
			t.Errorf("%s: the genuine event after it does not count", name)
		}
	}
}

func TestABrokenLogStopsWithItsSequence(t *testing.T) {
	removed := func(l [][]byte) [][]byte { return append(l[:2:2], l[3:]...) }
	swapped := func(l [][]byte) [][]byte { l[2], l[3] = l[3], l[2]; return l }
	for name, damage := range map[string]func([][]byte) [][]byte{"removed": removed, "swapped": swapped} {
		log, _ := sealed(t)
		p, err := fold(damage(log))
		if !errors.Is(err, projector.ErrStopped) || !errors.Is(err, events.ErrBroken) || !strings.Contains(err.Error(), "sequence 3") {
			t.Errorf("%s: %v", name, err)
		}
		if again := p.Stopped(); !errors.Is(again, events.ErrBroken) {
			t.Errorf("%s: it goes on", name)
		}
		if _, err := p.Apply(99, log[0]); err == nil {
			t.Errorf("%s: it goes on", name)
		}
	}
}

func TestAFutureEventStopsTheFoldButNotTheProcess(t *testing.T) {
	log, chain := sealed(t)
	before, _ := fold(log)
	p, err := fold(append(log, future(t, chain)))
	var f *events.FutureError
	if !errors.As(err, &f) || f.Seq != 5 {
		t.Fatal(err)
	}
	if p.State().Print() != before.State().Print() {
		t.Fatal("the state moved")
	}
}

// TestAFormatOfALaterReleaseStopsTheFold: what it lets be written this release
// can't read, so it goes no further already.
func TestAFormatOfALaterReleaseStopsTheFold(t *testing.T) {
	log, chain := sealed(t)
	e := events.Event{ID: "5", Scope: "prod", Name: events.EpochName, Epoch: 5, Data: &events.Format{Versions: map[events.Type]int{events.TypeRenewed: 9}}}
	b, err := chain.Seal(&e)
	if err != nil {
		t.Fatal(err)
	}
	p, err := fold(append(log, b))
	var f *events.FutureError
	if !errors.Is(err, projector.ErrStopped) || !errors.As(err, &f) || f.Seq != 5 || !f.Format || p.LastSeq() != 4 {
		t.Fatal(err)
	}
}

// future gives a genuine event of a later release: it has the key.
func future(t *testing.T, chain events.Chain) []byte {
	t.Helper()
	e := events.Event{ID: "5", Scope: "prod", Name: "x", Epoch: 5, Version: 7, Data: laterData{}}
	b, err := chain.Seal(&e)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(b, []byte(`"version":7`)) {
		t.Fatal("not of the future")
	}
	return b
}

type laterData struct{ Tenant string }

func (laterData) EventType() events.Type { return events.TypeInstalled }
func (laterData) EventVersion() int      { return 7 }

func TestAnEventThatDoesNotFitStops(t *testing.T) {
	log, chain := sealed(t)
	e := events.Event{ID: "5", Scope: "prod", Name: "x", Epoch: 5, Lease: 1, Data: &events.Revoking{}}
	b, err := chain.Seal(&e)
	if err != nil {
		t.Fatal(err)
	}
	_, err = fold(append(log, b))
	var wrong *leasecore.InconsistentError
	if !errors.As(err, &wrong) || wrong.Seq != 5 {
		t.Fatal(err)
	}
}

// TestI6_AnyPrefixFoldsTheSameTwice: a projection that is fed what it has seen
// already does not move.
func TestI6_RepeatedEventsDoNotMoveIt(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := newLife(rt)
		l.random(20)
		p := replay(rt, l.log)
		before := p.State().Print()
		for i, b := range l.log {
			if e, err := p.Apply(uint64(i+1), b); e != nil || err != nil {
				rt.Fatalf("sequence %d counted twice: %v", i+1, err)
			}
		}
		if p.State().Print() != before {
			rt.Fatal("the state moved")
		}
	})
}

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{"events", "leasecore"},
		Why:      "The projector is a function of the log; where the log is stored is events/journal's business, and service brings them together.",
	})
}

// TestATrustedPartCountsWithoutItsKey: links are held to, MACs are not, and from
// there on the key in force counts.
func TestATrustedPartCountsWithoutItsKey(t *testing.T) {
	log, _ := sealed(t)
	newKey := []byte("another key of thirty-two bytes..")
	chain := events.NewChain(newKey)
	next, err := chain.Seal(&events.Event{ID: "5", Scope: "prod", Name: events.EpochName, Epoch: 9, Data: &events.Opened{Holder: "b", How: events.HowRecovered}})
	if err != nil {
		t.Fatal(err)
	}
	byHand, err := events.Encode(&events.Event{ID: "x", Scope: "prod", Name: "x", Epoch: 5, Lease: 1, Data: &events.Revoking{}})
	if err != nil {
		t.Fatal(err)
	}
	p := projector.New("prod", newKey)
	p.Trust(5)
	for i, b := range append(log[:4:4], byHand, next) {
		if _, err := p.Apply(uint64(i+1), b); err != nil {
			t.Fatal(err)
		}
	}
	if n, recent := p.Skipped(); n != 1 || recent[0].Seq != 5 {
		t.Errorf("%d skipped: %v", n, recent)
	}
	if h := p.State().Head; h.Epoch != 9 || p.State().Name("x").Lease(1) == nil {
		t.Errorf("epoch %d\n%s", h.Epoch, p.State().Print())
	}
	// Behind it, what does not hold under the key in force does not count.
	if e, err := p.Apply(7, log[3]); e != nil || err != nil {
		t.Errorf("%v, %v", e, err)
	}
	untrusting := projector.New("prod", newKey)
	for i, b := range log {
		if e, err := untrusting.Apply(uint64(i+1), b); e != nil || err != nil {
			t.Errorf("sequence %d counts without trust", i+1)
		}
	}
}
