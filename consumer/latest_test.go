package consumer

import "testing"

func TestP10_AnOlderAnswerToAGetIsNotTaken(t *testing.T) {
	var l latest
	for _, step := range []struct {
		name     string
		epoch, n uint64
		taken    bool
	}{
		{"a", 5, 10, true},
		{"a", 5, 10, true}, // asked again
		{"a", 7, 20, true},
		{"a", 5, 12, false}, // a deposed holder
		{"a", 7, 19, false},
		{"b", 1, 1, true},
		{"a", 7, 21, true},
		{"a", 8, 21, true}, // a takeover that committed nothing
	} {
		if got := l.admit(step.name, step.epoch, step.n); got != step.taken {
			t.Errorf("%+v: %t", step, got)
		}
	}
}
