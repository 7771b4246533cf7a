//go:build !race

package ledger_test

// logSize is how many events the ledger is compared over.
const logSize = 100_000
