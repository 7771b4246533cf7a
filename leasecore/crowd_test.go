package leasecore_test

import (
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
)

// TestL36_ACrowdOfLeasesComesDueAtOnce: a name that was rotated often while
// nothing could be revoked owes many steps at once, and takes them all.
func TestL36_ACrowdOfLeasesComesDueAtOnce(t *testing.T) {
	w := newWorld(t)
	w.open(10, "a")
	def := events.DefaultDefinition()
	def.Vault, def.Path, def.GoodFor, def.AcquisitionsPerHour = "main", "kv/x", events.WholeSeconds(5), 100_000
	if _, err := w.decide(leasecore.ApplyDefinitions{Revision: 1, Digest: "1", Definitions: map[string]events.Definition{"x": def}}); err != nil {
		t.Fatal(err)
	}
	const crowd = 200
	for no := uint64(1); no <= crowd; no++ {
		grant := &events.Acquired{LeaseID: "L" + string(rune('0'+no%10)) + time.Duration(no).String(), TTL: events.WholeSeconds(3600), SentAt: w.now, Keys: []string{"k"}}
		if _, err := w.decide(leasecore.AcquireDone{Name: "x", Lease: no, Grant: grant}); err != nil {
			t.Fatal(err)
		}
		if no < crowd {
			if _, err := w.decide(leasecore.Rotate{Name: "x"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.now = w.now.Add(time.Minute)
	evs, err := w.decide(leasecore.Tick{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if want := 2 * (crowd - 1); len(evs) != want { // retired and revoking, each
		t.Errorf("%d events, %d are owed", len(evs), want)
	}
	if n := len(w.state.Owed("x", w.now)); n != crowd-1 {
		t.Errorf("%d effects are owed, %d revocations were to be", n, crowd-1)
	}
}
