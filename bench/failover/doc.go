// Package failover measures how long a scope is without a holder: an instance
// that is killed, stopped, or leaves as planned; one with 1,000 scopes; and NATS
// servers that are killed or stopped under a holder. Everything runs on three
// nats-server processes and instances of leasesvc as processes of their own
// (package clustertest), with clients that ask `get` all the time.
//
//	make bench-failover                             # 30 rounds each, into bench/out/failover.json
//	go test ./bench/failover                        # a round of each, nothing is written
//	go test ./bench/failover -run TestFailover/killed -failover.rounds 30 -v
//
// The figures are of the machine they are taken on: servers, instances and
// clients share its cores. A target that is missed is reported, and fails
// nothing; what must hold whatever the machine (no event is lost, a planned
// hand-over is taken from a released cell, a woken process stores nothing) does.
package failover
