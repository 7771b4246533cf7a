package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/projector"
)

// lifeEvents is how many events a name has before its first renewal.
const lifeEvents = 6

// history gives the i-th event of a scope with that many names: each is defined,
// gets a lease and has it installed; then they are renewed, one after the other,
// for ever.
func history(scope string, names, i int, at func(renewal int) time.Time) events.Event {
	which, step := i/lifeEvents, i%lifeEvents
	if i >= names*lifeEvents {
		which, step = (i-names*lifeEvents)%names, lifeEvents
	}
	name := fmt.Sprintf("app-%06d", which)
	sent := at(max(0, i-names*lifeEvents))
	e := events.Event{ID: newID(), Scope: scope, Name: name, Lease: uint64(which + 1), Epoch: 1, Time: sent, Cause: newID(), Actor: oneActor}
	path := "database/creds/" + name
	hour := events.WholeSeconds(3600)
	switch step {
	case 0:
		d := events.DefaultDefinition()
		d.Vault, d.Path, d.Kind = "main", path, events.KindPostgreSQL
		e.Lease, e.Data = 0, &events.Applied{Revision: 1, Definition: &d}
	case 1:
		e.Data = &events.Requested{Vault: "main", Path: path, Reason: events.ReasonFirst}
	case 2:
		e.Data = &events.Acquired{
			LeaseID: fmt.Sprintf("%s/%024d", path, which), TTL: hour, Renewable: true, SentAt: sent,
			Guard: fmt.Sprintf("accessor%016d", which), GuardTTL: events.WholeSeconds(60), Keys: []string{"password", "username"},
			Public: map[string]string{"username": fmt.Sprintf("v-token-app-%020d", which)}, Fingerprint: fmt.Sprintf("%022d", which),
		}
	case 3:
		e.Data = &events.GuardExtended{Granted: hour, SentAt: sent}
	case 4:
		e.Data = &events.HandoverStarted{Budget: events.WholeSeconds(30)}
	case 5:
		e.Data = &events.Installed{Proof: events.ProofStaging, GoodFor: events.WholeSeconds(30), RetireAfter: hour}
	default:
		e.Data = &events.Renewed{TTL: hour, SentAt: sent, Renewable: true, GuardTTL: hour}
	}
	return e
}

// fillLog appends a history up to an event.
func fillLog(t *testing.T, w *journal.Writer, scope string, names, from, to int, at func(int) time.Time) {
	t.Helper()
	evs := make([]events.Event, 0, journal.MaxBatch)
	for i := from; i < to; i++ {
		evs = append(evs, history(scope, names, i, at))
		if len(evs) == cap(evs) || i == to-1 {
			must(t, w, evs)
			evs = evs[:0]
		}
	}
}

// fold replays a scope's log into a projection, up to a sequence.
func (p *place) fold(t *testing.T, from *projector.Projection, scope string, to uint64) *projector.Projection {
	t.Helper()
	if from == nil {
		from = projector.New(scope, key)
	}
	err := p.log.Replay(context.Background(), scope, from.LastSeq()+1, to, func(m journal.Message) error {
		_, err := from.Apply(m.Seq, m.Payload)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return from
}
