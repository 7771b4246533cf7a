//go:build nextrelease

package audit_test

import (
	"slices"
	"testing"

	"github.com/leasesvc/leasesvc/audit"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/sim"
)

// TestAVersionThatNoFormatAllowsIsNamed: a writer that does not wait for the
// format is found.
func TestAVersionThatNoFormatAllowsIsNamed(t *testing.T) {
	log := lifeOf(t, 10, 60)
	at := slices.IndexFunc(log, func(payload []byte) bool { return typeOf(payload) == events.TypeInstalled })
	if at < 0 {
		t.Fatal("nothing is installed in this life")
	}
	rewritten := func(raise bool) audit.Report {
		chain := events.NewChain(sim.MACKey())
		var out [][]byte
		seal := func(e events.Event) {
			b, err := chain.Seal(&e)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, b)
		}
		for i, payload := range log[:at+1] {
			e, err := events.Decode(payload, uint64(i+1))
			if err != nil {
				t.Fatal(err)
			}
			if i == at {
				if raise {
					seal(events.Event{ID: "f", Scope: e.Scope, Name: events.EpochName, Epoch: e.Epoch, Time: e.Time, Data: &events.Format{Versions: events.Release()}})
				}
				e.Version = 2
			}
			seal(e)
		}
		return look(out, audit.Options{Keys: keys()})
	}
	got := first(t, rewritten(false))
	if got.Kind != audit.Format || got.Seq != uint64(at+1) {
		t.Errorf("%s", got.String())
	}
	for _, f := range rewritten(true).Findings {
		if f.Kind == audit.Format {
			t.Errorf("%s", f.String())
		}
	}
}
