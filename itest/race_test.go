//go:build race

package itest

// The program is built like the tests.
var raceFlags = []string{"-race"}
