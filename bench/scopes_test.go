package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

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
func scopes(t *testing.T, tb *table) {
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
	tb.figure(t, fmt.Sprintf("start until it leads, %d scopes", n), "ms", ms(time.Since(begin)), "a whole instance, from connecting until the last scope is led; R1, sync default")
	<-time.After(sized(100*time.Millisecond, 0, 3*time.Second))
	tb.figure(t, fmt.Sprintf("memory, %d scopes in one process", n), "KiB/scope", float64(inUse()-before)/float64(n)/1024, "the heap over the number of scopes, without leases")
	d := sized(200*time.Millisecond, 0, 10*time.Second)
	tb.figure(t, fmt.Sprintf("idle, %d scopes", n), "% of a core", busy(t, d), fmt.Sprintf("of this process over %s: the instance and its NATS server; one heartbeat for all scopes", d))
	stop()
}
