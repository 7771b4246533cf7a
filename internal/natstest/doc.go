// Package natstest gives a test NATS servers of its own, inside the test's
// process: [Start] for one with JetStream, [Cluster] for three or more that
// replicate.
//
// It guarantees that the servers listen on 127.0.0.1 only, that they keep
// their streams and ports over a restart, and that they are shut down and their
// files removed when the test ends. A [Servers] is returned only once
// JetStream serves: it has a leader, every server follows it and can be given
// streams.
//
// It does not stop a server as a crash would: [Server.Stop] is orderly. Kills
// and partitions need servers in processes of their own.
//
// Concurrency: methods may be called from several goroutines; those that start
// and stop one server exclude each other.
//
// How it is tested: with real servers, restarted and with one of three stopped.
package natstest
