// Package handover measures what a hand-over costs beyond Vault and the
// consumers' own work: an instance in a process of its own, and in this one a NATS
// server that writes each message to disk before it acknowledges it, devvault, and
// consumers that say yes at once.
//
//	make bench-handover
//
// BenchmarkOverhead rotates one name with one consumer, one after the other: the
// time from the request to rotate until the consumer is told that the new lease is
// committed, less the time in which the Vault worked on a request. p50 and p99 are
// reported; the target is a p99 of at most 10 ms.
//
// BenchmarkThousandConsumers has 1,000 registered incarnations, of one name (each
// hand-over asks all of them) and of 1,000 names (rotated all at once), and reports
// hand-overs per second, Vault included.
//
// The figures are of the machine they are taken on: the processes share its cores.
package handover
