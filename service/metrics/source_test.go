package metrics

import (
	"fmt"
	"iter"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasesvc/leasesvc/events"
)

// fake is a source that says what it is told to.
type fake struct{ figures Figures }

func (f *fake) Figures() Figures { return f.figures }

var noon = time.Unix(1_770_000_000, 0).UTC()

var states = []string{"none", "requested", "acquired", "handing-over", "rolling-back", "active", "grace", "kept", "retired", "revoking"}

func walk(names map[string]*Standing) iter.Seq2[string, *Standing] { return maps.All(names) }

// full is a source in which every metric has something to say.
func full() *fake {
	at := func(d time.Duration) int64 { return noon.Add(d).UnixNano() }
	return &fake{Figures{
		Now: noon, Insecure: true,
		NATS:   NATS{Connected: true, Reconnects: 2, Followed: 90, Unknown: 1},
		Log:    &Log{Bytes: 800, Limit: 1000, Messages: 80, Last: 91},
		Holder: &Holder{Renewed: noon, Renewals: 5, Adopted: 1, Claims: 1, LostRaces: 1, Deposals: 3, Fast: 2, Deposed: 1},
		Vaults: []Vault{{
			Name: "main", Requests: 9, Held: 1, Outages: 1, Probes: 2, Suspect: 1, Warnings: 1, Out: true, LoggedIn: true, Guarded: true,
			Waiting: 3, InFlight: 4, TokenExpires: noon.Add(time.Hour),
			Calls: []VaultCalls{{"read", "none", 7}, {"renew lease", "permission", 2}},
		}},
		Scopes: []Scope{
			{Name: "batch", Epoch: 3, Blocked: true, Foreign: 2, Given: 5, Unable: 1},
			{Name: "prod", Epoch: 7, Ready: true, SnapshotAt: noon, Led: &Led{
				Since: noon, Queue: 1, Due: 2, Handovers: 1, Unsaved: 12, Stalled: true, Work: map[string]int{"acquire": 1}, States: states,
				Names: walk(map[string]*Standing{
					"orders": {Committed: true, Expires: at(time.Hour), Granted: at(-time.Hour), Due: at(-time.Minute), Next: at(time.Minute), Registered: 2, Behind: 1, Leases: [MaxStates]uint16{5: 1, 6: 1}},
					"late":   {Committed: true, Expires: at(time.Minute), Granted: at(-time.Hour), Due: at(-time.Hour / 2), Failed: 3, Absent: 1, Leases: [MaxStates]uint16{5: 1, 9: 2}},
					"gone":   {Committed: true, Expires: at(-time.Minute), Granted: at(-time.Hour), Due: at(-time.Hour / 2)},
					"none":   {Next: at(time.Second)},
					"static": {Committed: true, Granted: at(-time.Hour)},
					"new":    nil,
				}),
			}},
		},
	}}
}

// feed counts one of each.
func feed(m *Metrics) {
	m.Known("prod")
	m.Opened("prod", events.HowQuiet, time.Second)
	m.Opened("prod", events.HowFresh, -1)
	m.Handover("prod", Committed, 2*time.Second)
	m.Snapshot("prod", nil)
	m.Ended("prod", EndFenced)
	m.Applied(failed("prod", "late", "permission"))
}

func failed(scope, name, kind string) *events.Event {
	return &events.Event{Scope: scope, Name: name, Data: &events.AcquireFailed{Failure: events.Failure{Kind: kind, Message: "hvs.SECRET at database/creds/x"}}}
}

// pedantic is a registry that refuses what is not as it was described.
func pedantic(m *Metrics) *prometheus.Registry {
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(m.collectors()...)
	return r
}

func many(n int) *fake {
	names := make(map[string]*Standing, n)
	for i := range n {
		at := noon.Add(time.Duration(i) * time.Second).UnixNano()
		names[fmt.Sprintf("name-%06d", i)] = &Standing{Committed: true, Expires: at, Granted: at - 1000, Due: at - 500, Next: at - 500, Registered: 1, Leases: [MaxStates]uint16{5: 1}}
	}
	f := full()
	f.figures.Scopes[1].Led.Names = walk(names)
	return f
}
