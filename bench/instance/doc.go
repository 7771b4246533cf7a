// Package instance runs an instance in a process of its own, for benchmarks: what it
// holds and what it works is then its own, and the NATS server, the Vault and the
// consumers of the benchmark have another process, as they do where it is used.
//
// The child is the benchmark's own program, whose TestMain gives way to [Main]. It
// answers what the parent asks by a line of its standard input, ends in order when
// that ends, and so does not outlive the parent.
//
// It guarantees nothing about the figures but where they come from: the heap after a
// collection from the runtime, processor time from the operating system, for the whole
// process. It is for Unix only.
//
// Concurrency: an Instance may be used from several goroutines; they are answered
// one after the other.
//
// How it is tested: the benchmarks' small runs, which CI makes, and a child that
// can't start.
package instance
