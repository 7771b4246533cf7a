package service

import (
	"sync"
	"testing"
	"time"
)

// TestSoonIsNow: by the monotonic clock it is the time at which it was asked, by the
// wall clock no further off than that can be moved in its millisecond, for all who ask
// at once.
func TestSoonIsNow(t *testing.T) {
	t.Parallel()
	c := newClock()
	var asking sync.WaitGroup
	for range 4 {
		asking.Go(func() {
			for until := time.Now().Add(20 * readLife); time.Now().Before(until); {
				before := time.Now()
				soon := c.soon()
				after := time.Now()
				if soon.Before(before) || soon.After(after) {
					t.Errorf("between %s and %s it is said to be %s", before, after, soon)
				}
				if late := before.Round(0).Sub(soon.Round(0)); late > readLife {
					t.Errorf("the wall clock is said to show %s less than it does", late)
				}
			}
		})
	}
	asking.Wait()
}

// TestSoonReadsTheWallClockAgain, once in its millisecond.
func TestSoonReadsTheWallClockAgain(t *testing.T) {
	t.Parallel()
	c := newClock()
	old := time.Now().Add(-readLife)
	c.read.Store(&old)
	c.soon()
	again := c.read.Load()
	if again == &old {
		t.Error("a look at the wall clock that is a millisecond old still counts")
	}
	young := time.Now().Add(time.Hour) // as if it were looked at just now
	c.read.Store(&young)
	if c.soon(); c.read.Load() != &young {
		t.Error("the wall clock is read each time")
	}
}
