//go:build race

package ledger_test

// logSize is small under the race detector, which makes exact decimals some
// twenty times slower and has nothing to find in a package without goroutines.
const logSize = 4_000
