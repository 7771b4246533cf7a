//go:build !race

package itest

var raceFlags []string
