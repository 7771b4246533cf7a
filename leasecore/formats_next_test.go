//go:build nextrelease

package leasecore

import (
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
)

// TestWhatMayNotBeWrittenIsNotDecided: until the format allows it an event has
// nothing of its later version, in the log or in the state that is led from.
func TestWhatMayNotBeWrittenIsNotDecided(t *testing.T) {
	s := openedState(t)
	def := events.DefaultDefinition()
	def.Vault, def.Path = "main", "kv/x"
	for i, d := range []events.Data{&events.Applied{Revision: 1, Definition: &def}, &events.Requested{Vault: "main", Path: "kv/x"}, &events.Acquired{Keys: []string{"k"}}} {
		e := events.Event{Seq: uint64(2 + i), Scope: "prod", Name: "x", Epoch: 3, Time: time.Unix(1, 0), Data: d}
		if i > 0 {
			e.Lease = 1
		}
		if err := s.Apply(&e); err != nil {
			t.Fatal(err)
		}
	}
	decided := func() events.Event {
		w := &decision{Draft: NewDraft(s), at: At{Now: time.Unix(2, 0), ID: "c"}}
		w.emit("x", 1, &events.HandoverStarted{})
		w.emit("x", 1, &events.Installed{Proof: events.ProofStaging})
		if w.broken != nil {
			t.Fatal(w.broken)
		}
		return w.out[1]
	}
	if e := decided(); e.Version != 1 || e.Data.(*events.Installed).Rehearsed != "" {
		t.Errorf("%+v", e)
	}
	s.Formats = events.Release()
	if e := decided(); e.Version != 2 || e.Data.(*events.Installed).Rehearsed == "" {
		t.Errorf("%+v", e)
	}
}
