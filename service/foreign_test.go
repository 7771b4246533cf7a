package service

import (
	"testing"
	"time"
)

// TestForeign_TellsWhatWasOnlyFed: whichever of the two comes first, and however
// far apart they are.
func TestForeign_TellsWhatWasOnlyFed(t *testing.T) {
	now := time.Now()
	var f foreign
	told := 0
	appended := func(seqs ...uint64) {
		for _, s := range seqs {
			told += f.appended(s)
		}
	}
	arrived := func(seqs ...uint64) {
		for _, s := range seqs {
			told += f.arrived(s, now)
		}
	}
	want := func(what string, n int, last uint64) {
		t.Helper()
		if told != n || f.last() != last {
			t.Errorf("%s: %d strangers, the last at %d; not %d, %d", what, told, f.last(), n, last)
		}
	}
	appended(1)
	arrived(2)
	want("before the term", 0, 0)
	f.begin(10)
	arrived(9, 10) // the opening itself, fed late
	appended(11, 12)
	arrived(11, 12)
	arrived(13, 14)
	appended(13, 14)
	want("ours", 0, 0)
	arrived(15)
	want("alone, and perhaps ours", 0, 0)
	arrived(16)
	appended(16)
	want("not ours, since a later one is", 1, 15)
	appended(18)
	arrived(17, 18)
	want("not ours, since an earlier one was missing", 2, 17)
	appended(19) // never fed
	appended(20)
	arrived(20)
	want("ours that was never fed", 2, 17)
	arrived(21)
	if n := f.overdue(now.Add(foreignAfter - time.Second)); n != 0 {
		t.Errorf("%d strangers too early", n)
	}
	if n := f.overdue(now.Add(foreignAfter + time.Second)); n != 1 || f.last() != 21 {
		t.Errorf("%d strangers after a while, the last at %d", n, f.last())
	}
	arrived(22)
	f.end()
	if n := f.overdue(now.Add(time.Hour)); n != 0 {
		t.Errorf("%d strangers after the term: they are a successor's", n)
	}
	f.begin(30)
	for s := uint64(31); s < 31+3*maxUnmatched; s++ {
		appended(s)
	}
	if len(f.mine) > maxUnmatched {
		t.Errorf("%d are kept", len(f.mine))
	}
}

func TestPulse_TellsOnlyAStepThatLasts(t *testing.T) {
	var p pulse
	now := time.Now()
	if p.stuck(now.Add(time.Hour), time.Minute) != 0 {
		t.Error("at rest it is stuck")
	}
	p.work()
	if p.stuck(now, time.Minute) != 0 {
		t.Error("at once it is stuck")
	}
	if got := p.stuck(now.Add(2*time.Minute), time.Minute); got < 110*time.Second || got > 121*time.Second {
		t.Errorf("stuck for %s", got)
	}
	p.rest()
	if p.stuck(now.Add(time.Hour), time.Minute) != 0 {
		t.Error("after the step it is stuck")
	}
}
