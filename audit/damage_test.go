package audit_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/leasesvc/leasesvc/audit"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/sim"
)

// lifeOf gives the log of a simulated life that has n events at least.
func lifeOf(t *testing.T, seed uint64, n int) [][]byte {
	t.Helper()
	for ; ; seed++ {
		if r := sim.Run(sim.Options{Seed: seed, Log: true}); r.Err == nil && len(r.Log) >= n {
			return r.Log
		}
	}
}

// damaged are a few lives, each event of which is damaged in turn.
func damaged(t *testing.T, damage func(t *testing.T, log [][]byte, k int)) {
	for seed := uint64(10); seed < 14; seed++ {
		log := lifeOf(t, seed, 70)
		n := 60
		for isOpened(log[n-1]) { // what it follows is carried by the event behind it
			n++
		}
		log = log[:n]
		for k := range log {
			t.Run(fmt.Sprintf("%d/%d", seed, k+1), func(t *testing.T) { damage(t, slices.Clone(log), k) })
		}
	}
}

func first(t *testing.T, r audit.Report) audit.Finding {
	t.Helper()
	if r.Intact || len(r.Findings) == 0 {
		t.Fatal("it is said to be intact")
	}
	return r.Findings[0]
}

func isOpened(payload []byte) bool { return typeOf(payload) == events.TypeOpened }

func typeOf(payload []byte) events.Type {
	e, err := events.Decode(payload, 0)
	if err != nil {
		return ""
	}
	return e.Type()
}

func TestARemovedEventIsNamed(t *testing.T) {
	damaged(t, func(t *testing.T, log [][]byte, k int) {
		cut := slices.Delete(log, k, k+1)
		if k == len(cut) {
			return // cut off at the end: see TestACutOffEndShowsAgainstAnEarlierAudit
		}
		for _, opts := range []audit.Options{{Keys: keys()}, {}} {
			got := first(t, look(cut, opts))
			// What an opened follows is carried by the event behind it.
			at := uint64(k + 1)
			for isOpened(cut[at-1]) && at < uint64(len(cut)) {
				at++
			}
			// The last event of an epoch, or an opened that nothing was written under.
			if got.Seq < uint64(k+1) || got.Seq > at {
				t.Errorf("%s, want sequence %d", got.String(), at)
			}
			if got.Kind != audit.Missing && got.Kind != audit.Epoch {
				t.Errorf("%s", got.String())
			}
		}
	})
}

func TestAHoleInTheStreamIsNamed(t *testing.T) {
	log := lifeOf(t, 10, 60)
	a := audit.New(audit.Options{Keys: keys()})
	for i, payload := range log {
		if i != 30 {
			a.Look(audit.Message{Seq: uint64(i + 1), Subject: subjectOf(payload), Payload: payload})
		}
	}
	if got := first(t, a.Report()); got.Seq != 31 || got.Kind != audit.Gap {
		t.Errorf("%s", got.String())
	}
}

func TestAnEditedEventIsNamed(t *testing.T) {
	damaged(t, func(t *testing.T, log [][]byte, k int) {
		log[k] = edited(t, log[k])
		got := first(t, look(log, audit.Options{Keys: keys()}))
		want := audit.Edited
		if k == len(log)-1 || isOpened(log[k+1]) {
			want = audit.Forged // nothing behind it says that it stood there
		}
		if got.Seq != uint64(k+1) || got.Kind != want {
			t.Errorf("%s, want %s at sequence %d", got.String(), want, k+1)
		}
	})
}

// edited makes an event a day older, and leaves its MAC.
func edited(t *testing.T, payload []byte) []byte {
	t.Helper()
	out := bytes.Replace(payload, []byte(`"time":"2026-01-`), []byte(`"time":"2025-01-`), 1)
	if bytes.Equal(out, payload) {
		t.Fatalf("not edited: %s", payload)
	}
	return out
}

func TestTwoSwappedEventsAreNamed(t *testing.T) {
	damaged(t, func(t *testing.T, log [][]byte, k int) {
		if k == len(log)-1 {
			return
		}
		log[k], log[k+1] = log[k+1], log[k]
		atOpened := isOpened(log[k]) || isOpened(log[k+1])
		if isOpened(log[k]) && isOpened(log[k+1]) {
			return // two reopenings in a row carry no link to each other; their order is I1's
		}
		for _, opts := range []audit.Options{{Keys: keys()}, {}} {
			got := first(t, look(log, opts))
			if got.Seq != uint64(k+1) && (!atOpened || got.Seq != uint64(k+2)) {
				t.Errorf("%s, want sequence %d", got.String(), k+1)
			}
			if !atOpened && (got.Kind != audit.Moved || !strings.Contains(got.Says, fmt.Sprintf("sequence %d", k+2))) {
				t.Errorf("%s, want that the one at %d was swapped with it", got.String(), k+2)
			}
		}
	})
}

// TestAMovedEventIsSaidOnce: one that stands further away disturbs nothing
// behind it but its own story.
func TestAMovedEventIsSaidOnce(t *testing.T) {
	log := lifeOf(t, 10, 60)
	from := 0
	for i := 20; from == 0; i++ {
		if !slices.ContainsFunc(log[i:i+5], isOpened) {
			from = i
		}
	}
	later := slices.Clone(log)
	copy(later[from:], log[from+1:from+5])
	later[from+4] = log[from]
	earlier := slices.Clone(log)
	copy(earlier[from+1:], log[from:from+4])
	earlier[from] = log[from+4]
	for name, moved := range map[string][][]byte{"later": later, "earlier": earlier} {
		links := 0
		r := look(moved, audit.Options{Keys: keys()})
		for _, f := range r.Findings {
			if f.Kind == audit.Moved {
				links++
			}
			if f.Kind == audit.Missing || f.Kind == audit.Inserted {
				t.Errorf("%s: %s", name, f.String())
			}
		}
		if links != 1 || r.Findings[0].Seq != uint64(from+1) {
			t.Errorf("%s: %d moved, first %s", name, links, r.Findings[0].String())
		}
	}
}

func TestARepeatedEventIsNamed(t *testing.T) {
	log := lifeOf(t, 10, 60)
	at := 30
	for isOpened(log[at]) || isOpened(log[at-1]) || isOpened(log[at+1]) || isOpened(log[10]) {
		at++
	}
	got := look(slices.Insert(slices.Clone(log), at, log[10]), audit.Options{Keys: keys()})
	f := first(t, got)
	if f.Seq != uint64(at+1) || f.Kind != audit.Inserted && f.Kind != audit.Epoch {
		t.Errorf("%s", f.String())
	}
}

func TestAnEventOfAFutureVersionIsNamed(t *testing.T) {
	log := lifeOf(t, 10, 60)[:40]
	chain := events.NewChain(sim.MACKey())
	for i, payload := range log {
		if _, err := chain.Admit(payload, uint64(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	last, err := events.Decode(log[39], 40)
	if err != nil {
		t.Fatal(err)
	}
	future, err := chain.Seal(&events.Event{ID: "f", Scope: "prod", Name: "a", Epoch: last.Epoch, Lease: 1, Time: last.Time, Version: 7, Data: laterData{}})
	if err != nil {
		t.Fatal(err)
	}
	behind, err := chain.Seal(&events.Event{ID: "g", Scope: "prod", Name: events.EpochName, Epoch: last.Epoch, Time: last.Time, Data: &events.Paused{Vault: "main", Kind: "permission"}})
	if err != nil {
		t.Fatal(err)
	}
	r := look(append(slices.Clone(log), future, behind), audit.Options{Keys: keys()})
	if got := first(t, r); got.Seq != 41 || got.Kind != audit.Future || r.Found != 1 {
		t.Errorf("%d findings, the first %s", r.Found, got.String())
	}
	// Without the key it is nobody's of a later release.
	byHand, err := events.Encode(&events.Event{ID: "f", Scope: "prod", Name: "a", Epoch: last.Epoch, Lease: 1, Time: last.Time, Version: 7, Data: laterData{}})
	if err != nil {
		t.Fatal(err)
	}
	if got := first(t, look(append(slices.Clone(log), byHand), audit.Options{Keys: keys()})); got.Seq != 41 || got.Kind != audit.Forged {
		t.Errorf("%s", got.String())
	}
}

// TestAFormatOfALaterReleaseIsNamed: with its sequence, as what it lets be
// written is.
func TestAFormatOfALaterReleaseIsNamed(t *testing.T) {
	log := lifeOf(t, 10, 60)[:40]
	chain := events.NewChain(sim.MACKey())
	for i, payload := range log {
		if _, err := chain.Admit(payload, uint64(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	last, err := events.Decode(log[39], 40)
	if err != nil {
		t.Fatal(err)
	}
	raised, err := chain.Seal(&events.Event{ID: "f", Scope: "prod", Name: events.EpochName, Epoch: last.Epoch, Time: last.Time, Data: &events.Format{Versions: map[events.Type]int{events.TypeInstalled: 7}}})
	if err != nil {
		t.Fatal(err)
	}
	behind, err := chain.Seal(&events.Event{ID: "g", Scope: "prod", Name: events.EpochName, Epoch: last.Epoch, Time: last.Time, Data: &events.Paused{Vault: "main", Kind: "permission"}})
	if err != nil {
		t.Fatal(err)
	}
	r := look(append(slices.Clone(log), raised, behind), audit.Options{Keys: keys()})
	if got := first(t, r); got.Seq != 41 || got.Kind != audit.Future || r.Found != 1 {
		t.Errorf("%d findings, the first %s", r.Found, got.String())
	}
}

type laterData struct{ Tenant string }

func (laterData) EventType() events.Type { return events.TypeInstalled }
func (laterData) EventVersion() int      { return 7 }

func TestWhatWasPublishedByHandIsNamed(t *testing.T) {
	damaged(t, func(t *testing.T, log [][]byte, k int) {
		e, err := events.Decode(log[k], uint64(k+1))
		if err != nil {
			t.Fatal(err)
		}
		e.ID, e.Name, e.Lease, e.Data = "by-hand", "a", 1, &events.Revoking{}
		byHand, err := events.Encode(&e)
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			payload []byte
			kind    audit.Kind
		}{
			"an event":    {byHand, audit.Unsigned},
			"with a MAC":  {append(byHand[:len(byHand)-1:len(byHand)-1], `,"mac":"AAAAAAAAAAAAAAAAAAAAAA"}`...), audit.Forged},
			"of garbage":  {[]byte("hello"), audit.Foreign},
			"of no bytes": {nil, audit.Foreign},
		} {
			r := look(slices.Insert(slices.Clone(log), k+1, c.payload), audit.Options{Keys: keys()})
			if got := first(t, r); got.Seq != uint64(k+2) || got.Kind != c.kind {
				t.Errorf("%s: %d findings, the first %s", name, r.Found, got.String())
			}
			for _, f := range r.Findings[1:] { // what stands behind it has other sequences now
				if f.Rule != "P8" {
					t.Errorf("%s: %s", name, f.String())
				}
			}
		}
	})
}

func TestWithoutTheKeyAnEditDoesNotShowAndThatIsSaid(t *testing.T) {
	log := lifeOf(t, 10, 60)
	log[20] = edited(t, log[20])
	if r := look(log, audit.Options{}); r.MACs {
		t.Error("the MACs are said to have been checked")
	}
}

func TestAnEpochUnderAnotherSealKey(t *testing.T) {
	log := lifeOf(t, 10, 60)
	r := look(log, audit.Options{Keys: map[string][]byte{"other": []byte("another key of thirty-two bytes.")}})
	if got := first(t, r); got.Kind != audit.Key || got.Seq != 1 {
		t.Errorf("%s", got.String())
	}
}

func TestACutOffEndShowsAgainstAnEarlierAudit(t *testing.T) {
	log := lifeOf(t, 10, 60)
	before := look(log[:50], audit.Options{Keys: keys()})
	anchor := []audit.Head{before.Scopes[0].Head}
	if r := look(log, audit.Options{Keys: keys(), Anchors: anchor}); !r.Intact {
		t.Errorf("%s", r.Findings[0].String())
	}
	if got := first(t, look(log[:45], audit.Options{Keys: keys(), Anchors: anchor})); got.Kind != audit.Truncated || got.Seq != 50 {
		t.Errorf("%s", got.String())
	}
	if got := first(t, look(nil, audit.Options{Keys: keys(), Anchors: anchor})); got.Kind != audit.Truncated {
		t.Errorf("%s", got.String())
	}
}

// TestAFloodIsBounded: what somebody writes there without end is counted.
func TestAFloodIsBounded(t *testing.T) {
	log := make([][]byte, 3*audit.MaxFindings)
	r := look(log, audit.Options{})
	if r.Found != uint64(len(log)) || len(r.Findings) != audit.MaxFindings {
		t.Errorf("%d found, %d kept", r.Found, len(r.Findings))
	}
}
