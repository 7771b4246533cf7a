package service

import (
	"sync/atomic"
	"time"
)

// pulse tells whether a loop is stuck: at one step of its own work, which waits
// for nobody, for too long. The zero value is at rest.
type pulse struct{ since atomic.Int64 } // since started, by the monotonic clock; 0: at rest

// started is what pulses count from.
var started = time.Now()

// stuckAfter is how long a step of a loop's own may take. The longest that is
// right is a decision about 100,000 names, or a snapshot of them: seconds.
const stuckAfter = time.Minute

// work begins a step, rest ends it.
func (p *pulse) work() { p.since.Store(max(1, int64(time.Since(started)))) }
func (p *pulse) rest() { p.since.Store(0) }

// stuck gives for how long the step has lasted, if that is longer than it may; 0:
// it is not.
func (p *pulse) stuck(now time.Time, may time.Duration) time.Duration {
	at := p.since.Load()
	if at == 0 {
		return 0
	}
	if lasted := now.Sub(started) - time.Duration(at); lasted > may {
		return lasted
	}
	return 0
}
