package service

import (
	"sync"
	"time"
)

// clock is the holder's clock: the later of the wall clock and of what the
// monotonic clock says has passed since it was last read. So it never goes
// back, it jumps ahead when the machine slept (the monotonic clock stands
// still then), and whatever expires by either clock has expired by this one
// (C51).
type clock struct {
	mu    sync.Mutex
	read  time.Time // with the monotonic reading
	shown time.Time // what was answered then, without
}

func newClock() *clock {
	now := time.Now()
	return &clock{read: now, shown: now.Round(0)}
}

// Now gives the time in UTC, without a monotonic reading.
func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.show(time.Now())
}

// at is Now for who has just read [time.Now] already.
func (c *clock) at(now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Before(c.read) {
		now = c.read // another reader was quicker
	}
	return c.show(now)
}

// show needs mu.
func (c *clock) show(now time.Time) time.Time {
	passed := c.shown.Add(now.Sub(c.read))
	if wall := now.Round(0); wall.After(passed) {
		passed = wall
	}
	c.read, c.shown = now, passed
	return passed.UTC()
}

// AtLeast sets the clock ahead to t if it is behind: to the time of the last
// event in the log, which another instance's clock may have written.
func (c *clock) AtLeast(t time.Time) (behind time.Duration) {
	now := c.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if behind = t.Sub(now); behind > 0 {
		c.shown = c.shown.Add(behind)
		return behind
	}
	return 0
}
