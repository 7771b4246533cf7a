package sim

import (
	"testing"
	"time"
)

// TestMutants proves that the simulator sees: each deliberate fault of the
// surroundings breaks a rule within the schedules of the short run.
func TestMutants(t *testing.T) {
	for m := NoMutant + 1; m < Mutants; m++ {
		t.Run(m.String(), func(t *testing.T) { caught(t, Options{Mutant: m}) })
	}
}

// caught fails when the short run does not catch what opts plants.
func caught(t *testing.T, opts Options) {
	t.Helper()
	total := RunMany(*firstFlag, shortRun, opts, 5**timeFlag)
	if total.Failed == nil {
		t.Errorf("not caught by %d schedules in %s", total.Schedules, total.Took.Round(time.Millisecond))
		return
	}
	if ruleOf(total.Failed.Err) == "panic" {
		t.Errorf("it panicked: %v", total.Failed.Err)
		return
	}
	t.Logf("caught by schedule %d, after %s: %v", total.Failed.Seed-*firstFlag+1, total.Took.Round(time.Millisecond), total.Failed.Err)
}
