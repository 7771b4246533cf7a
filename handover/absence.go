package handover

import (
	"sync"
	"time"
)

// longestGap is the longest time between two messages without a subscriber
// that is still taken for absence all through.
const longestGap = time.Minute

// absence is a run of messages that found no subscriber.
type absence struct {
	lasted     time.Duration
	last       time.Time
	reconnects uint64
}

// absences keeps one per incarnation that is being asked and is not there; the
// registered incarnations bound it.
type absences struct {
	mu sync.Mutex
	by map[string]*absence
}

// nobody records a message without a subscriber. Time counts only between two
// such, and only if our own connection held all the while: reconnects is the
// connection's count.
func (a *absences) nobody(incarnation string, reconnects uint64) time.Duration {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.by == nil {
		a.by = map[string]*absence{}
	}
	run := a.by[incarnation]
	if run == nil {
		run = &absence{last: now, reconnects: reconnects}
		a.by[incarnation] = run
	}
	if gap := now.Sub(run.last); run.reconnects == reconnects && gap <= longestGap {
		run.lasted += gap
	}
	run.last, run.reconnects = now, reconnects
	return run.lasted
}

// present ends the run.
func (a *absences) present(incarnation string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.by, incarnation)
}

func (a *absences) lasted(incarnation string) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if run := a.by[incarnation]; run != nil {
		return run.lasted
	}
	return 0
}
