package audit_test

import (
	"testing"

	"github.com/leasesvc/leasesvc/audit"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/sim"
)

// keys are those of simulated logs, which name no seal key.
func keys() map[string][]byte { return map[string][]byte{"": sim.MACKey()} }

// look audits a log whose sequences are 1, 2, ...
func look(log [][]byte, opts audit.Options) audit.Report {
	a := audit.New(opts)
	for i, payload := range log {
		a.Look(audit.Message{Seq: uint64(i + 1), Subject: subjectOf(payload), Payload: payload})
	}
	return a.Report()
}

func subjectOf(payload []byte) string {
	e, err := events.Decode(payload, 0)
	if err != nil {
		return "lease.prod.x.installed"
	}
	return e.Subject()
}

// TestTheLogsOfSimulatedLivesAreIntact: whatever faults a life meets, what it
// wrote breaks no rule.
func TestTheLogsOfSimulatedLivesAreIntact(t *testing.T) {
	const lives = 400
	types := map[events.Type]uint64{}
	var total, epochs uint64
	for seed := uint64(1); seed <= lives; seed++ {
		r := sim.Run(sim.Options{Seed: seed, Log: true})
		if r.Err != nil {
			t.Fatalf("seed %d: %v", seed, r.Err)
		}
		got := look(r.Log, audit.Options{Keys: keys()})
		if !got.Intact {
			t.Fatalf("seed %d: %d findings, the first: %s", seed, got.Found, got.Findings[0].String())
		}
		total += got.Scopes[0].Events
		epochs += got.Scopes[0].Epochs
		for k, n := range got.Scopes[0].Types {
			types[k] += n
		}
		if got.Scopes[0].Events != uint64(len(r.Log)) || got.LastSeq != uint64(len(r.Log)) {
			t.Fatalf("seed %d: %d of %d events were looked at", seed, got.Scopes[0].Events, len(r.Log))
		}
	}
	t.Logf("%d lives, %d events, %d epochs: %v", lives, total, epochs, types)
	for _, k := range []events.Type{
		events.TypeOpened, events.TypeReleased, events.TypeInstalled, events.TypeRolledBack, events.TypeRevoked, events.TypeExpired, events.TypeOrphaned,
		events.TypeRegistered, events.TypeLeft, events.TypeRemoved, events.TypeVerifyFailed, events.TypeRenewFailed, events.TypeRevokeFailed,
	} {
		if types[k] == 0 {
			t.Errorf("no life had a %s: the test says nothing about it", k)
		}
	}
	if epochs < 3*lives {
		t.Errorf("%d lives had %d epochs: too few takeovers", lives, epochs)
	}
}

// TestTheLogsOfMutantsShow: what a fault of the surroundings writes into the
// log, where it writes something that must not be there, is found.
func TestTheLogsOfMutantsShow(t *testing.T) {
	for _, m := range []sim.Mutant{sim.NoFence, sim.RetireBeforeCommit, sim.NobodyIsAYes} {
		t.Run(m.String(), func(t *testing.T) {
			seen, found := 0, 0
			for seed := uint64(1); seed <= 300 && found == 0; seed++ {
				r := sim.Run(sim.Options{Seed: seed, Log: true, Mutant: m})
				if r.Err == nil {
					continue
				}
				seen++
				if got := look(r.Log, audit.Options{Keys: keys()}); !got.Intact {
					found++
					t.Logf("seed %d: %v\n%s", seed, r.Err, got.Findings[0].String())
				}
			}
			if seen == 0 {
				t.Fatal("no life showed the fault")
			}
			if found == 0 {
				t.Errorf("%d lives showed the fault, no audit found it", seen)
			}
		})
	}
}
