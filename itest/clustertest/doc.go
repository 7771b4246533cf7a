// Package clustertest runs a whole deployment as processes of their own, for
// tests that kill them: three nats-server processes built from the module that
// go.mod names ([Start]), instances of leasesvc on them ([Deploy]), and a
// devvault in the test's process.
//
// Servers and instances can be killed (kill -9), stopped and woken (SIGSTOP,
// SIGCONT: a black hole whose connections stay open) and started again on the
// same files. A [Proxy] between a client and a server drops acknowledgements,
// cuts connections, and shows each message to who wants to record it. A
// [Recorder] follows the log on a connection of its own, so that what was there
// is known outside of the process that is killed.
//
// # What it guarantees
//
// JetStream writes with sync_interval always, so an acknowledged message is on
// disk on a majority. Clients are not told of servers they did not name: a
// connection goes where the test says. No process outlives the test process
// (Linux). Everything listens on 127.0.0.1.
//
// # What it does not
//
// A black hole is a stopped process, not a network that loses packets: what the
// kernel has accepted for it is read when it wakes. Routes between servers are
// direct; there are no partial partitions. Power loss is not simulated: what was
// written to the kernel survives a kill.
//
// # Concurrency
//
// Methods may be called from several goroutines, except where two would start
// or end the same process at the same time.
//
// # How it is tested
//
// By its own test of a killed, a stopped and a restarted server, and by the
// tests of package cluster, which check that each fault happened.
package clustertest
