package sessions

import (
	"sync"

	"github.com/leasesvc/leasesvc/consumer"
)

// kept is the sessions of one lease. Who begins work on them enters first, so
// that they are never closed between being chosen and being used.
type kept[S any] struct {
	cred     consumer.Credential
	sessions S
	shut     func(S)

	mu       sync.Mutex
	entered  int
	closing  bool
	lastLeft chan struct{} // closed when closing and nobody is inside
	drained  chan struct{} // closed when no session is open any more
}

func newKept[S any](cred consumer.Credential, s S, shut func(S)) *kept[S] {
	return &kept[S]{cred: cred, sessions: s, shut: shut, lastLeft: make(chan struct{}), drained: make(chan struct{})}
}

// enter holds the closing up until leave; false when it has begun.
func (k *kept[S]) enter() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closing {
		return false
	}
	k.entered++
	return true
}

func (k *kept[S]) leave() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.entered--
	if k.closing && k.entered == 0 {
		close(k.lastLeft)
	}
}

// open tells whether the closing has not begun.
func (k *kept[S]) open() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.closing
}

func (k *kept[S]) inside() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.entered
}

// drain begins the closing, once, in a goroutine that work counts. New work is
// turned away, what is in flight finishes.
func (k *kept[S]) drain(work *sync.WaitGroup) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closing {
		return
	}
	k.closing = true
	if k.entered == 0 {
		close(k.lastLeft)
	}
	work.Add(1)
	go func() {
		defer work.Done()
		<-k.lastLeft
		k.shut(k.sessions)
		close(k.drained)
	}()
}

// Held is the sessions of a lease that somebody works in. It is for one
// goroutine.
type Held[S any] struct {
	// Sessions are what to work with.
	Sessions S
	kept     *kept[S]
	replaced <-chan struct{}
	left     bool
}

// Credential tells whose sessions they are.
func (h *Held[S]) Credential() consumer.Credential { return h.kept.cred }

// Replaced is closed when the lease is no longer where new work goes: after a
// yes, a commit or a way back. Nothing need be done on it but by work that would
// go on for ever.
func (h *Held[S]) Replaced() <-chan struct{} { return h.replaced }

// Leave ends the work. A second call does nothing.
func (h *Held[S]) Leave() {
	if h.left {
		return
	}
	h.left = true
	h.kept.leave()
}
