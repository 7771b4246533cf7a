package service

import (
	"sync"
	"time"
)

// foreign tells, while we lead a scope, which messages of its log are not ours:
// somebody else wrote them by hand. Each message comes twice, as an event that
// was appended and as one that was fed, both in the order of the log; what is fed
// and never was appended is not ours. A successor's messages come so too, until
// we know that we were fenced, so nothing is told before it has waited.
//
// The zero value is ready for use.
type foreign struct {
	mu sync.Mutex
	on bool
	// fence is where the term begins.
	fence uint64
	mine  []uint64 // appended, not fed yet
	fed   []arrival
	seen  uint64 // the last that was told
}

type arrival struct {
	seq uint64
	at  time.Time
}

const (
	// maxUnmatched bounds what waits for its match. A consumer that stalls leaves
	// more behind; then the comparison begins anew.
	maxUnmatched = 1 << 16
	// foreignAfter is how long a message may be the only one of its pair: an append
	// of unknown outcome is settled, or we are deposed, long before.
	foreignAfter = 30 * time.Second
)

// begin starts a term; what stands up to its opening at fence is read otherwise.
func (f *foreign) begin(fence uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.on, f.fence, f.mine, f.fed = true, fence, nil, nil
}

// end forgets what the term left.
func (f *foreign) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.on, f.mine, f.fed = false, nil, nil
}

// appended notes an event of ours.
func (f *foreign) appended(seq uint64) (strangers int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.on {
		return 0
	}
	if len(f.mine) >= maxUnmatched {
		f.mine = nil
	}
	f.mine = append(f.mine, seq)
	return f.match()
}

// arrived notes a message that was fed.
func (f *foreign) arrived(seq uint64, now time.Time) (strangers int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.on || seq <= f.fence {
		return 0
	}
	if len(f.fed) >= maxUnmatched {
		f.fed = nil
	}
	f.fed = append(f.fed, arrival{seq, now})
	return f.match()
}

// overdue gives how many messages have waited for so long that they are not ours.
func (f *foreign) overdue(now time.Time) (strangers int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.fed) > 0 && now.Sub(f.fed[0].at) > foreignAfter {
		f.seen = f.fed[0].seq
		f.fed = f.fed[1:]
		strangers++
	}
	return strangers
}

// last gives the sequence of the last message that was found not to be ours.
func (f *foreign) last() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen
}

// match pairs what there is. It needs mu.
func (f *foreign) match() (strangers int) {
	for len(f.mine) > 0 && len(f.fed) > 0 {
		switch a, b := f.mine[0], f.fed[0].seq; {
		case a == b:
			f.mine, f.fed = f.mine[1:], f.fed[1:]
		case a < b: // fed before the term was noted
			f.mine = f.mine[1:]
		default: // ours come in order, so it never will be ours
			f.seen = b
			f.fed = f.fed[1:]
			strangers++
		}
	}
	if len(f.mine) == 0 && cap(f.mine) > 1024 {
		f.mine = nil
	}
	return strangers
}
