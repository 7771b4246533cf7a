package service

import (
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
)

// BenchmarkStanding is what a name that was touched costs more for the metrics.
func BenchmarkStanding(b *testing.B) {
	now := time.Now()
	def := events.DefaultDefinition()
	n := &leasecore.Name{Name: "orders", Definition: &def, Active: 7, Leases: []leasecore.Lease{{
		No: 7, State: leasecore.Active, LeaseID: "database/creds/orders/x", GrantedAt: now, TTL: time.Hour,
	}}}
	s := leasecore.NewState("prod")
	b.ReportAllocs()
	for b.Loop() {
		standingOf(s, n, now)
	}
}
