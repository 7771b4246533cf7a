package bench

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/bench/table"
	"github.com/leasesvc/leasesvc/events/journal"
)

// scopes measures an instance that leads many scopes.
func scopes(t *testing.T, tb *table.Table) {
	if *size == "short" {
		return
	}
	n := sized(20, 0, 1_000)
	r := newRig(t).on(1, false)
	var list strings.Builder
	for i := range n {
		fmt.Fprintf(&list, "\n  s-%04d: {definitions: none.yaml}", i)
	}
	begin := time.Now()
	in := r.apart(list.String())
	r.leads(in, n)
	tb.Figure(t, fmt.Sprintf("start until it leads, %d scopes", n), "ms", table.MS(time.Since(begin)), "a whole instance, from the start of its process until the last scope is led; R1, sync default")
	<-time.After(sized(100*time.Millisecond, 0, 3*time.Second))
	tb.Figure(t, fmt.Sprintf("memory, %d scopes in one process", n), "KiB/scope", in.Heap()/float64(n)/1024, "the heap of an instance over the number of scopes, without leases")
	d := sized(200*time.Millisecond, 0, 10*time.Second)
	tb.Figure(t, fmt.Sprintf("idle, %d scopes", n), "% of a core", in.Busy(d), fmt.Sprintf("of the instance's process over %s; one heartbeat for all scopes", d))
	in.Stop()
	r.place.openAtOnce(t, tb, n)
}

// openAtOnce has many scopes of one instance append at the same time.
func (p *place) openAtOnce(t *testing.T, tb *table.Table, n int) {
	t.Helper()
	const batch, rounds = 10, 5
	writers, most := make([]*journal.Writer, n), make([]int, n)
	for i := range writers {
		writers[i] = p.writer(t, fmt.Sprintf("open-%04d", i), 1)
	}
	begin := time.Now()
	for range rounds {
		var wg sync.WaitGroup
		for i, w := range writers {
			wg.Go(func() {
				must(t, w, renewals(fmt.Sprintf("open-%04d", i), batch))
				most[i] = max(most[i], p.log.OpenBatches())
			})
		}
		wg.Wait()
	}
	how := fmt.Sprintf("%d scopes append %d events each at once, %d times: %.0f events a second; a stream takes 50 open batches of all instances together", n, batch, rounds, table.Rate(n*batch*rounds, time.Since(begin)))
	tb.AtMost(t, fmt.Sprintf("batches open at once, %d scopes", n), "batches", float64(slices.Max(most)), openBatches, how)
}
