// Package mutate tests the tests: it makes small faults in a package, one at a
// time, and looks whether any test fails. A fault that no test sees is a
// survivor: a test is missing, or the fault changes nothing that matters.
//
// [Run] is the one function to call; `make mutate` does, through cmd.
// docs/mutation.md tells how to read its report, and holds the table of the
// survivors that are known to be equivalent to the original.
//
// How it works. The faults ([Mutant]) come from the syntax tree (find.go). All
// of a package are compiled into one set of test binaries: each function gets a
// switch in front that runs the mutated copy of its body whose number is in the
// environment (instrument.go). What the type checker refuses is dropped, and
// not counted. The files are swapped by `go test -overlay`; the tree is never
// written to. Faults outside of functions (constants) are compiled one by one.
// Each mutant is then run against the binaries, fastest first, until one fails
// (run.go).
//
// Guaranteed: the same tree gives the same mutants in the same order, and
// property tests begin at a fixed seed, so that two runs agree. A mutant that
// loops or hoards is stopped by a time and a memory limit, and counts as killed.
//
// Not done: strings are not mutated, since they are for people; no two faults at
// once; packages that need cgo or build tags.
//
// Concurrency: [Run] runs up to Config.Parallel test binaries at once and waits
// for all of them before it returns.
//
// Tested on small modules that the tests write.
package mutate
