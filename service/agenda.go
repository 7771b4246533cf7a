package service

import (
	"container/heap"
	"time"
)

// agenda says which name is to be looked at next: an indexed heap by time.
type agenda struct {
	items []*appointment
	index map[string]*appointment
}

type appointment struct {
	name string
	at   int64 // nanosOf
	pos  int
}

func newAgenda() *agenda { return &agenda{index: map[string]*appointment{}} }

// set puts a name at a time, or takes it off when there is none.
func (a *agenda) set(name string, at time.Time, ok bool) {
	p := a.index[name]
	switch {
	case p == nil && ok:
		p = &appointment{name: name, at: nanosOf(at)}
		a.index[name] = p
		heap.Push(a, p)
	case p != nil && ok:
		p.at = nanosOf(at)
		heap.Fix(a, p.pos)
	case p != nil:
		heap.Remove(a, p.pos)
		delete(a.index, name)
	}
}

// next gives the earliest time; false: there is none.
func (a *agenda) next() (time.Time, bool) {
	if len(a.items) == 0 {
		return time.Time{}, false
	}
	return time.Unix(0, a.items[0].at), true
}

// due takes at most limit names off whose time has come.
func (a *agenda) due(now time.Time, limit int) []string {
	var out []string
	for len(out) < limit && len(a.items) > 0 && a.items[0].at <= now.UnixNano() {
		p := heap.Pop(a).(*appointment)
		delete(a.index, p.name)
		out = append(out, p.name)
	}
	return out
}

// Len, Less, Swap, Push and Pop implement heap.Interface.

func (a *agenda) Len() int           { return len(a.items) }
func (a *agenda) Less(i, j int) bool { return a.items[i].at < a.items[j].at }
func (a *agenda) Swap(i, j int) {
	a.items[i], a.items[j] = a.items[j], a.items[i]
	a.items[i].pos, a.items[j].pos = i, j
}
func (a *agenda) Push(x any) {
	p := x.(*appointment)
	p.pos = len(a.items)
	a.items = append(a.items, p)
}
func (a *agenda) Pop() any {
	p := a.items[len(a.items)-1]
	a.items = a.items[:len(a.items)-1]
	return p
}
