package consumer

import "sync"

// latest remembers, per name, the newest (epoch, n) that a get was answered
// with: a holder that hung and was deposed may answer once more from what it
// last knew, and that must not be taken (P10).
type latest struct {
	mu     sync.Mutex
	byName map[string]position
}

type position struct{ epoch, n uint64 }

// admit tells whether an answer is not older than what was seen before.
func (l *latest) admit(name string, epoch, n uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := l.byName[name]
	if epoch < seen.epoch || n < seen.n {
		return false
	}
	if l.byName == nil {
		l.byName = map[string]position{}
	}
	l.byName[name] = position{epoch, n}
	return true
}
