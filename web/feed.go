package web

import (
	"sync"

	"github.com/leasesvc/leasesvc/events"
)

// maxKept bounds the latest events that a reader who was away can be given.
const maxKept = 4096

// Said is an event as the list of what is new has it.
type Said struct {
	Seq   uint64 `json:"seq"`
	At    int64  `json:"at"`
	Scope string `json:"scope"`
	Name  string `json:"name"`
	Lease uint64 `json:"lease,omitempty"`
	Type  string `json:"type"`
	Says  string `json:"says"`
}

// feed keeps the latest events and wakes who waits for more.
type feed struct {
	mu    sync.Mutex
	kept  []Said // oldest first
	since uint64 // all after this sequence are kept
	more  chan struct{}
	// before are the latest events of a log that is being read.
	before []*events.Event
}

// maxBefore bounds the events that a page begins with.
const maxBefore = 100

// remember keeps an event of a log that is being read.
func (f *feed) remember(e *events.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.before) >= 2*maxBefore {
		f.before = append(f.before[:0], f.before[maxBefore:]...)
	}
	f.before = append(f.before, e)
}

func newFeed() *feed { return &feed{more: make(chan struct{})} }

// start says that everything after seq will be added.
func (f *feed) start(seq uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.before) > maxBefore {
		f.before = f.before[len(f.before)-maxBefore:]
	}
	f.since = seq
	for i, e := range f.before {
		if i == 0 {
			f.since = e.Seq - 1 // none of the scopes has one in between
		}
		f.kept = append(f.kept, said(e))
	}
	f.before = nil
	f.wake()
}

func (f *feed) wake() {
	close(f.more)
	f.more = make(chan struct{})
}

func (f *feed) add(e *events.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.kept) >= maxKept {
		drop := maxKept / 4
		f.since = f.kept[drop-1].Seq
		f.kept = append(f.kept[:0], f.kept[drop:]...)
	}
	f.kept = append(f.kept, said(e))
	f.wake()
}

// after gives the events after a sequence, whether all of them were still there,
// and a channel that is closed when there are more.
func (f *feed) after(seq uint64) (all []Said, complete bool, more <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := len(f.kept)
	for i > 0 && f.kept[i-1].Seq > seq {
		i--
	}
	return append([]Said(nil), f.kept[i:]...), seq >= f.since, f.more
}

func said(e *events.Event) Said {
	return Said{Seq: e.Seq, At: e.Time.UnixMilli(), Scope: e.Scope, Name: e.Name, Lease: e.Lease, Type: string(e.Type()), Says: sentence(e)}
}
