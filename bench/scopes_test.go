package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/bench/table"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/service"
)

// leads tells whether an instance leads its scope prod.
func leads(t *testing.T, svc *service.Service) bool { return ledBy(t, svc, "prod") }

// ledBy tells whether an instance leads a scope: it answers for a name that is not
// there.
func ledBy(t *testing.T, svc *service.Service, scope string) bool {
	t.Helper()
	_, err := svc.Get(context.Background(), scope, "nobody")
	return errors.Is(err, leasecore.ErrUnknownName)
}

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
	before, begin := inUse(), time.Now()
	svc, stop := r.start(list.String())
	for i := range n {
		r.await("a scope", func() bool { return ledBy(t, svc, fmt.Sprintf("s-%04d", i)) })
	}
	tb.Figure(t, fmt.Sprintf("start until it leads, %d scopes", n), "ms", table.MS(time.Since(begin)), "a whole instance, from connecting until the last scope is led; R1, sync default")
	<-time.After(sized(100*time.Millisecond, 0, 3*time.Second))
	tb.Figure(t, fmt.Sprintf("memory, %d scopes in one process", n), "KiB/scope", float64(inUse()-before)/float64(n)/1024, "the heap over the number of scopes, without leases")
	d := sized(200*time.Millisecond, 0, 10*time.Second)
	tb.Figure(t, fmt.Sprintf("idle, %d scopes", n), "% of a core", busy(t, d), fmt.Sprintf("of this process over %s: the instance and its NATS server; one heartbeat for all scopes", d))
	stop()
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
