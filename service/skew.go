package service

import (
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
)

// tolerated is how far a clock may be from the server's before it is corrected
// and said.
const tolerated = 2 * time.Second

// skews remembers, per lease, how far ahead of the server's clock the one was
// that stamped its last grant, where that is more than can be tolerated. A
// holder with a right clock would believe such a lease to live longer than it
// does; so it sets its own clock as far ahead while one of them lives (C51).
type skews map[skewed]time.Duration

type skewed struct {
	name  string
	lease uint64
}

// note looks at an event and at when the server stored it.
func (s skews) note(e *events.Event, stored time.Time) {
	switch e.Data.(type) {
	case *events.Acquired, *events.Adopted, *events.Renewed, *events.GuardExtended:
	default:
		return
	}
	key := skewed{e.Name, e.Lease}
	if ahead := e.Time.Sub(stored); ahead > tolerated {
		s[key] = ahead
	} else {
		delete(s, key)
	}
}

// live gives the largest skew of a lease that is not closed; 0: there is none.
func (s skews) live(state *leasecore.State) (ahead time.Duration) {
	for key, by := range s {
		n := state.Name(key.name)
		if n == nil || n.Lease(key.lease) == nil {
			delete(s, key)
			continue
		}
		ahead = max(ahead, by)
	}
	return ahead
}
