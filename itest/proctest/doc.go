// Package proctest runs real programs for a test: it builds a command of this
// module ([Build]), starts a process with its output in a file ([Start]), waits
// for what it says, signals it, kills it, and sees it reaped.
//
// It guarantees what package process does: a process does not outlive the test
// process, even a killed one (Linux only), and does not get the terminal's
// Ctrl-C by itself: the test ends it, in order.
//
// It does not clean up after what the process itself starts.
//
// Concurrency: methods may be called from several goroutines.
//
// How it is tested: with a program it builds; the rest by package process.
package proctest
