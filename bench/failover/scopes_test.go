package failover

import (
	"fmt"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/bench/table"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/itest/clustertest"
)

const scopesTarget = 3 * time.Second

// manyScopes kills an instance that leads 1,000 scopes.
func manyScopes(t *testing.T, rows *table.Table) {
	n := *scopeCount
	if *serverRounds == 0 {
		n = min(n, 50)
	}
	var scopes []string
	for i := range n {
		scopes = append(scopes, fmt.Sprintf("s%d", i))
	}
	c := clustertest.Start(t)
	d := clustertest.Deploy(t, c, clustertest.Options{Scopes: scopes, Names: 1, KV: true})
	begin := time.Now()
	in := []*clustertest.Instance{d.Instance("a")}
	r := d.Record()
	led := func(above uint64, of map[string]uint64) (first, half, last time.Time, epochs map[string]uint64) {
		epochs = map[string]uint64{}
		r.AwaitEach(fmt.Sprintf("%d scopes to be led", n), above, 3*time.Minute, func(s *clustertest.Seen) bool {
			if s.Type() != events.TypeOpened || s.Epoch <= of[s.Scope] {
				return false
			}
			if epochs[s.Scope] = s.Epoch; len(epochs) == 1 {
				first = s.At
			}
			if len(epochs) == n/2 {
				half = s.At
			}
			last = s.At
			return len(epochs) == n
		})
		return first, half, last, epochs
	}
	_, _, last, epochs := led(0, nil)
	rows.Figure(t, fmt.Sprintf("%d scopes: a first start", n), "ms", table.MS(last.Sub(begin)), "from the start of the process to the last opened event; the streams are made, too")
	in = append(in, d.Instance("b"))
	in[0].AwaitSaid("msg=definitions ", n, 3*time.Minute)

	var all, firsts, halves, ready []time.Duration
	for round := range max(1, *serverRounds) {
		holder, standby := in[round%2], in[(round+1)%2]
		standby.AwaitSaid(`msg="standing by"`, n*(round/2+1), 2*time.Minute)
		<-time.After(5 * time.Second) // definitions, secrets and the like come to rest
		leading := standby.Said("msg=leading ")
		applied := standby.Said("msg=definitions ")
		above := r.Last()
		signal := time.Now()
		holder.Kill()
		first, half, last, now := led(above, epochs)
		all, firsts, halves = append(all, last.Sub(signal)), append(firsts, first.Sub(signal)), append(halves, half.Sub(signal))
		epochs = now
		standby.AwaitSaid("msg=leading ", leading+n, time.Minute)
		standby.AwaitSaid("msg=definitions ", applied+n, time.Minute)
		ready = append(ready, time.Since(signal))
		t.Logf("%d scopes: first %v, half %v, all %v, all ready %v; deposed after %v", n, firsts[round].Round(time.Millisecond), halves[round].Round(time.Millisecond),
			all[round].Round(time.Millisecond), ready[round].Round(time.Millisecond), said(t, standby, `msg="deposed a silent holder"`, signal).Round(time.Millisecond))
		holder.Start()
	}
	checked := r.Check(in...)
	t.Logf("%d events, %d takeovers", checked.Events, checked.Takeovers)
	name := fmt.Sprintf("instance with %d scopes killed: ", n)
	rows.Spread(t, name+"all led again", all, scopesTarget, "from kill -9 to the last scope's opened event, as a follower is given it; R3, sync always")
	rows.Spread(t, name+"the first led again", firsts, 0, "as above")
	rows.Spread(t, name+"half led again", halves, 0, "as above")
	rows.Spread(t, name+"all serving", ready, 0, "until the successor has looked at the definitions of each scope, which is after it began to serve it")
	rows.Write(t, *out)
}
