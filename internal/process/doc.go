// Package process runs a program as a child of this one: [Start] starts it with
// its output in a file, [Process.AwaitOutput] waits for what it says,
// [Process.End] and [Process.Kill] end it and see it reaped.
//
// It guarantees that the child does not outlive this process, even a killed one
// (Linux only), and that it does not get the terminal's Ctrl-C by itself: its
// owner ends it, in order.
//
// It does not clean up after what the child itself starts, it restarts nothing,
// and it reads the whole output each time it looks for something in it: it is
// for programs that say little. It is for Unix only.
//
// Concurrency: methods may be called from several goroutines.
//
// How it is tested: with processes that end, hang, and ignore signals.
package process
