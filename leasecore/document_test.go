package leasecore

import (
	"errors"
	"testing"

	"github.com/leasesvc/leasesvc/events"
)

// change decides a command about a document and applies it to the state.
func change(t *testing.T, s *State, c Command) error {
	t.Helper()
	evs, err := Decide(NewDraft(s), At{ID: "c"}, c)
	if err != nil {
		return err
	}
	for i := range evs {
		evs[i].Seq = s.LastSeq + 1
		if err := s.Apply(&evs[i]); err != nil {
			t.Fatal(err)
		}
	}
	return nil
}

// TestL42_ARevisionFollowsTheOneItWasMadeFrom: of two updates from one revision
// one is recorded; what stays the same revision names the same blob.
func TestL42_ARevisionFollowsTheOneItWasMadeFrom(t *testing.T) {
	s := NewState("prod")
	first := UpdateDocument{Name: "app", Updated: events.Updated{Paths: []string{"$"}, Blob: "1", Definitions: 4, Fingerprint: "f"}}
	if err := change(t, s, first); err != nil {
		t.Fatal(err)
	}
	if err := change(t, s, first); !errors.Is(err, ErrDocumentRevision) {
		t.Errorf("the same revision twice: %v", err)
	}
	if err := change(t, s, UpdateDocument{Name: "app", Expected: 1, Updated: events.Updated{Paths: []string{"a"}, Blob: "2"}}); err != nil {
		t.Fatal(err)
	}
	if got, want := s.Documents["app"], (Document{Revision: 2, Blob: "2", Definitions: 4, Fingerprint: "f"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if err := change(t, s, UpdateDocument{Name: "app", Expected: 2, Keep: true, Updated: events.Updated{Paths: []string{"b"}}}); err != nil {
		t.Fatal(err)
	}
	if got := s.Documents["app"]; got.Revision != 2 || got.Blob != "2" {
		t.Errorf("%+v", got)
	}
	if err := change(t, s, UpdateDocument{Name: "none", Keep: true}); !errors.Is(err, ErrDocumentRevision) {
		t.Errorf("nothing to keep: %v", err)
	}
	if err := change(t, s, RejectDocument{Name: "app", Expected: 2, Failure: events.Failure{Kind: "refused"}}); err != nil {
		t.Fatal(err)
	}
	if got := s.Documents["app"]; got.Revision != 2 {
		t.Errorf("a refusal changed it: %+v", got)
	}
}

// TestADraftLeavesTheDocumentsAlone, since it is thrown away.
func TestADraftLeavesTheDocumentsAlone(t *testing.T) {
	s := NewState("prod")
	d := NewDraft(s)
	if _, err := Decide(d, At{ID: "c"}, UpdateDocument{Name: "app", Updated: events.Updated{Blob: "1"}}); err != nil {
		t.Fatal(err)
	}
	if len(s.Documents) != 0 || len(d.h.Documents) != 1 {
		t.Errorf("state %v, draft %v", s.Documents, d.h.Documents)
	}
	s.Documents = map[string]Document{}
	for i := range MaxDocuments {
		s.Documents[string(rune('a'+i%26))+string(rune('0'+i/26))] = Document{Revision: 1}
	}
	if err := change(t, s, UpdateDocument{Name: "one-more"}); !errors.Is(err, ErrDocuments) {
		t.Errorf("no bound: %v", err)
	}
}

// TestADocumentsEventMustFit: a revision is never skipped.
func TestADocumentsEventMustFit(t *testing.T) {
	s := NewState("prod")
	e := events.Event{Seq: 1, Scope: "prod", Name: "app", Data: &events.Updated{Revision: 2, Blob: "1"}}
	var bad *InconsistentError
	if err := s.Apply(&e); !errors.As(err, &bad) {
		t.Errorf("got %v", err)
	}
}
