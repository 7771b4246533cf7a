package vault

import (
	"container/heap"
	"time"
)

// waiter is a call that waits for its turn.
type waiter struct {
	ask   ask
	seq   uint64 // who came first, of those that are equally urgent
	at    int    // its place in its lane, -1 when it has left
	lane  *lane
	ready chan pass // takes one without blocking
}

func (w *waiter) before(o *waiter) bool {
	if w.ask.vital != o.ask.vital {
		return w.ask.vital
	}
	if !w.ask.urgency.Equal(o.ask.urgency) {
		return w.ask.urgency.Before(o.ask.urgency)
	}
	return w.seq < o.seq
}

// lane holds what is about one mount: calls that wait, most urgent first, and
// how many are in flight.
type lane struct {
	mount    string
	inFlight int
	waiting  []*waiter
}

func (l *lane) Len() int           { return len(l.waiting) }
func (l *lane) Less(i, j int) bool { return l.waiting[i].before(l.waiting[j]) }
func (l *lane) Swap(i, j int) {
	l.waiting[i], l.waiting[j] = l.waiting[j], l.waiting[i]
	l.waiting[i].at, l.waiting[j].at = i, j
}

// Push is heap's.
func (l *lane) Push(x any) {
	w, _ := x.(*waiter)
	w.at = len(l.waiting)
	l.waiting = append(l.waiting, w)
}

// Pop is heap's.
func (l *lane) Pop() any {
	last := len(l.waiting) - 1
	w := l.waiting[last]
	l.waiting[last] = nil
	l.waiting = l.waiting[:last]
	w.at = -1
	return w
}

// queue is the lanes of a connection. Not safe for concurrent use.
type queue struct {
	lanes map[string]*lane
	size  int
	seq   uint64
}

func (q *queue) lane(mount string) *lane {
	l := q.lanes[mount]
	if l == nil {
		l = &lane{mount: mount}
		q.lanes[mount] = l
	}
	return l
}

// forget drops a lane that nothing is in, so that there are never more lanes
// than calls.
func (q *queue) forget(l *lane) {
	if l.inFlight == 0 && len(l.waiting) == 0 {
		delete(q.lanes, l.mount)
	}
}

func (q *queue) add(a ask) *waiter {
	q.seq++
	w := &waiter{ask: a, seq: q.seq, lane: q.lane(a.mount), ready: make(chan pass, 1)}
	heap.Push(w.lane, w)
	q.size++
	return w
}

func (q *queue) remove(w *waiter) {
	heap.Remove(w.lane, w.at)
	q.size--
}

// first gives the most urgent call of the lanes with less than perLane in
// flight; vital calls know no such bound. Nil when there is none.
func (q *queue) first(perLane int) *waiter {
	var best *waiter
	for _, l := range q.lanes {
		if len(l.waiting) == 0 {
			continue
		}
		w := l.waiting[0]
		if (w.ask.vital || l.inFlight < perLane) && (best == nil || w.before(best)) {
			best = w
		}
	}
	return best
}

// ask is what a call wants of the gate.
type ask struct {
	mount   string
	urgency time.Time
	vital   bool // keeps our token alive: it waits for no rate and no bound
}
