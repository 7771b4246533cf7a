package service

import (
	"sync"
	"sync/atomic"
)

// viewTable finds views by name. A reader of a settled name takes no lock: names
// are settled in a map that is never changed again, and each has a slot in it.
// Names that are not are found under a lock, and settled once they are more than
// the others, or were looked for as often as they are many: however many come,
// each is copied a few times. The zero value is ready for use.
type viewTable struct {
	settled atomic.Pointer[map[string]*viewSlot]

	mu     sync.Mutex
	fresh  map[string]*viewSlot
	misses int
}

// viewSlot holds the view of one name; nil: there is none.
type viewSlot = atomic.Pointer[view]

// load gives the view of a name; nil: there is none.
func (t *viewTable) load(name string) *view {
	if slot := t.settledNames()[name]; slot != nil {
		return slot.Load()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	slot := t.fresh[name]
	if slot == nil {
		if slot = t.settledNames()[name]; slot == nil { // it may have been settled meanwhile
			return nil
		}
	} else if t.misses++; t.misses >= len(t.fresh) {
		t.settle()
	}
	return slot.Load()
}

// store puts a view in place of what there was; nil: none.
func (t *viewTable) store(name string, v *view) {
	t.mu.Lock()
	defer t.mu.Unlock()
	slot := t.settledNames()[name]
	if slot == nil {
		slot = t.fresh[name]
	}
	if slot != nil {
		slot.Store(v)
		return
	}
	if v == nil {
		return
	}
	slot = new(viewSlot)
	slot.Store(v)
	if t.fresh == nil {
		t.fresh = map[string]*viewSlot{}
	}
	t.fresh[name] = slot
	if len(t.fresh) > len(t.settledNames()) {
		t.settle()
	}
}

// settle needs mu. Names without a view are let go.
func (t *viewTable) settle() {
	names := map[string]*viewSlot{}
	for _, from := range []map[string]*viewSlot{t.settledNames(), t.fresh} {
		for name, slot := range from {
			if slot.Load() != nil {
				names[name] = slot
			}
		}
	}
	t.settled.Store(&names)
	t.fresh, t.misses = nil, 0
}

func (t *viewTable) settledNames() map[string]*viewSlot {
	if names := t.settled.Load(); names != nil {
		return *names
	}
	return nil
}

// each calls f with every name that has a view.
func (t *viewTable) each(f func(name string, v *view)) {
	t.mu.Lock()
	if len(t.fresh) > 0 {
		t.settle()
	}
	names := t.settledNames()
	t.mu.Unlock()
	for name, slot := range names {
		if v := slot.Load(); v != nil {
			f(name, v)
		}
	}
}

// clear lets go of all.
func (t *viewTable) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settled.Store(nil)
	t.fresh, t.misses = nil, 0
}
