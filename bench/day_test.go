package bench

import (
	"container/heap"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/bench/table"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
)

// due is a name's next appointment.
type due struct {
	at   time.Time
	name string
}

type agenda []due

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].at.Before(a[j].at) }
func (a agenda) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)        { *a = append(*a, x.(due)) }
func (a *agenda) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// day measures the decision core alone, on a simulated clock: leases of one hour
// for a day, each renewed when it is due.
func day(t *testing.T, tb *table.Table) {
	if *size == "short" {
		return
	}
	n, length := sized(100, 0, 100_000), 24*time.Hour
	const scope = "prod"
	state := leasecore.NewState(scope)
	seq := uint64(0)
	apply := func(e *events.Event) {
		seq++
		e.Seq = seq
		if err := state.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	apply(&events.Event{ID: "o", Scope: scope, Name: events.EpochName, Epoch: 1, Time: began, Data: &events.Opened{Holder: holder, How: events.HowFresh}})
	for i := range n * lifeEvents {
		e := history(scope, n, i, func(int) time.Time { return began })
		apply(&e)
	}
	var next agenda
	now := began
	for name := range state.Names() {
		if at, ok := state.Wake(name.Name, now); ok {
			next = append(next, due{at, name.Name})
		}
	}
	heap.Init(&next)
	renewed, command := 0, 0
	most, inSecond, second := 0, 0, now
	began := time.Now()
	for end := now.Add(length); len(next) > 0 && next[0].at.Before(end); {
		d := heap.Pop(&next).(due)
		now = d.at
		if now.Sub(second) >= time.Second {
			second, inSecond = now, 0
		}
		for _, e := range state.Owed(d.name, now) {
			if e.Kind != leasecore.Renew {
				t.Fatalf("%s owes %v at %s", d.name, e, now)
			}
			command++
			evs, err := leasecore.Decide(leasecore.NewDraft(state), leasecore.At{Now: now, ID: strconv.Itoa(command), Actor: oneActor}, leasecore.RenewDone{
				Name: d.name, Lease: e.Lease,
				Renewed: &events.Renewed{TTL: events.WholeSeconds(3600), SentAt: now, Renewable: true, GuardTTL: events.WholeSeconds(3600)},
			})
			if err != nil {
				t.Fatal(err)
			}
			for i := range evs {
				apply(&evs[i])
			}
			renewed++
			inSecond++
		}
		most = max(most, inSecond)
		if at, ok := state.Wake(d.name, now); ok {
			heap.Push(&next, due{at, d.name})
		}
	}
	took := time.Since(began)
	if renewed < n*int(length/time.Hour) {
		t.Errorf("%d renewals of %d leases in %s", renewed, n, length)
	}
	for name := range state.Names() {
		if name.Committed(now) == nil {
			t.Fatalf("%s has no usable lease at the end of the day", name.Name)
		}
	}
	how := fmt.Sprintf("%d renewals decided and applied on a simulated clock, all leases granted at one moment; the log and Vault left out", renewed)
	tb.Figure(t, fmt.Sprintf("a day of %d leases in simulated time", n), "s", took.Seconds(), how)
	tb.Figure(t, fmt.Sprintf("a day of %d leases: each renewal", n), "µs", float64(took.Microseconds())/float64(max(1, renewed)), "decide, apply and make the next appointment")
	tb.Figure(t, fmt.Sprintf("a day of %d leases: most renewals within a second", n), "renewals", float64(most), "how far a tenth of splay spreads leases that were granted at one moment")
}
