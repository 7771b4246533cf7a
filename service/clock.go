package service

import (
	"sync"
	"sync/atomic"
	"time"
)

// clock is the holder's clock: the later of the wall clock and of what the
// monotonic clock says has passed since it was last read. So it never goes
// back, it jumps ahead when the machine slept (the monotonic clock stands
// still then), and whatever expires by either clock has expired by this one
// (C51).
type clock struct {
	mu   sync.Mutex // of who moves it on
	last atomic.Pointer[glance]
	read atomic.Pointer[time.Time] // the last of soon
}

// glance is one look at the clock.
type glance struct {
	read  time.Time // with the monotonic reading
	shown time.Time // what was answered then, without
	nanos int64     // shown, since 1970
}

func glanced(read, shown time.Time) *glance { return &glance{read, shown, shown.UnixNano()} }

func newClock() *clock {
	now := time.Now()
	c := &clock{}
	c.last.Store(glanced(now, now.Round(0)))
	c.read.Store(&now)
	return c
}

// readLife is for how long the wall clock is not read again by [clock.soon].
const readLife = time.Millisecond

// soon is [time.Now] for who asks often: the wall clock, which costs as much again as
// the monotonic one, is read once in a millisecond. Who is answered in the first one
// after the machine slept is told what they would have been told just before.
func (c *clock) soon() time.Time {
	read := c.read.Load()
	if passed := time.Since(*read); passed < readLife {
		return read.Add(passed)
	}
	now := time.Now()
	c.read.Store(&now)
	return now
}

// Now gives the time in UTC, without a monotonic reading.
func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.moveOn()
}

// moveOn needs mu.
func (c *clock) moveOn() time.Time {
	now := time.Now()
	shown := c.last.Load().at(now)
	c.last.Store(glanced(now, shown))
	return shown.UTC()
}

// jump is how far the wall clock may be ahead of the monotonic one before who
// only reads the time has it remembered.
const jump = time.Millisecond

// nanos is Now, in nanoseconds since 1970, for readers who have just read
// [time.Now]: without a lock, unless the wall clock has jumped.
func (c *clock) nanos(now time.Time) int64 {
	last, wall := c.last.Load(), now.UnixNano()
	passed := last.nanos + int64(max(0, now.Sub(last.read)))
	if wall-passed > int64(jump) {
		return c.Now().UnixNano()
	}
	return max(wall, passed)
}

// at gives what the clock shows at a later moment.
func (r *glance) at(now time.Time) time.Time {
	passed := r.shown.Add(max(0, now.Sub(r.read)))
	if wall := now.Round(0); wall.After(passed) {
		return wall
	}
	return passed
}

// AtLeast sets the clock ahead to t if it is behind: to the time of the last
// event in the log, which another instance's clock may have written.
func (c *clock) AtLeast(t time.Time) (behind time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if behind = t.Sub(c.moveOn()); behind > 0 {
		last := c.last.Load()
		c.last.Store(glanced(last.read, last.shown.Add(behind)))
		return behind
	}
	return 0
}
