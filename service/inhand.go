package service

import (
	"context"
	"sync"

	"github.com/leasesvc/leasesvc/handover/wire"
)

// mostInHand bounds the candidates whose values are held beside the store, and
// largestInHand those values, in bytes: 32 MiB in all. The others are read from there
// by each that needs them.
const (
	mostInHand    = 1024
	largestInHand = 32 << 10
)

// inHand holds the values of candidates from their acquisition until they are
// committed or closed: verifier, incarnations and, once they are committed, readers
// need them at once, and each reading of the store is a way there and back. It is
// memory, and never the only place where they are. It is safe for concurrent use.
type inHand struct {
	mu     sync.Mutex
	byName map[string]offered
}

type offered struct {
	lease  uint64
	values wire.Values
}

// put notes the values of a name's candidate, unless they are large or there are many
// already.
func (h *inHand) put(name string, lease uint64, values wire.Values) {
	if len(values) > largestInHand {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byName == nil {
		h.byName = map[string]offered{}
	}
	if _, there := h.byName[name]; there || len(h.byName) < mostInHand {
		h.byName[name] = offered{lease, values}
	}
}

// get gives the values of a lease, if it is the name's candidate and they are held.
func (h *inHand) get(name string, lease uint64) (wire.Values, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c, held := h.byName[name]
	return c.values, held && c.lease == lease
}

// letGo forgets what is held of a name but for this lease.
func (h *inHand) letGo(name string, but uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c, held := h.byName[name]; held && c.lease != but {
		delete(h.byName, name)
	}
}

// valuesOf gives the values of a name's lease, from the store only if it is neither
// the one that readers see and somebody has asked for before, nor the candidate
// that is being handed over.
func (t *term) valuesOf(ctx context.Context, name string, lease uint64) (wire.Values, error) {
	if values, held := t.inHand.get(name, lease); held {
		return values, nil
	}
	if v := t.views.get(name); v != nil && v.lease == lease {
		return t.read(ctx, name, v)
	}
	return t.svc.values(ctx, t.name, name, lease)
}

// show has a view that was committed just now have the values that are in hand;
// false: they are not.
func (t *term) show(name string, v *view) bool {
	values, held := t.inHand.get(name, v.lease)
	if held {
		t.hold(&t.views, name, v, values)
	}
	return held
}
