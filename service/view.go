package service

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/handover/wire"
	"github.com/leasesvc/leasesvc/leasecore"
)

// view is what readers see of a name: committed, immutable but for the values,
// which are opened when somebody first asks.
type view struct {
	definition *events.Definition
	epoch, n   uint64
	lease      uint64 // 0: none is committed
	expires    time.Time
	expiresAt  int64 // the same in nanoseconds since 1970; 0: it does not expire
	goodFor    time.Duration
	public     string
	state      string // why there is none, for people
	values     atomic.Pointer[wire.Values]
}

// views are the views of a scope by name; readers take no lock that the
// scope's goroutine could hold for long.
type views struct{ byName sync.Map }

func (v *views) get(name string) *view {
	if x, ok := v.byName.Load(name); ok {
		return x.(*view)
	}
	return nil
}

// open tells whether a name's values are held open.
func (v *views) open(name string) bool {
	w := v.get(name)
	return w != nil && w.values.Load() != nil
}

// publish makes what the state says of a name visible to readers. The values of
// a lease that was there before are kept.
func (v *views) publish(s *leasecore.State, name string, now time.Time) {
	n := s.Name(name)
	if n == nil {
		v.byName.Delete(name)
		return
	}
	next := &view{definition: n.Definition, epoch: s.Epoch, n: n.N}
	if n.Definition != nil {
		next.goodFor = n.Definition.GoodFor.Duration()
	}
	if l := n.Lease(n.Active); l == nil {
		next.state = s.Story(name, now)
	} else {
		next.lease, next.public = l.No, publicOf(n.Definition, l.Public)
		if end, ends := l.Expires(); ends {
			next.expires, next.expiresAt = end, nanosOf(end)
		}
		if before := v.get(name); before != nil && before.lease == l.No {
			next.values.Store(before.values.Load())
		}
	}
	v.byName.Store(name, next)
}

func (v *views) clear() { v.byName.Clear() }

// usable tells whether the view's lease may be handed out at now (L53, I2).
func (w *view) usable(now time.Time) bool { return w.expires.IsZero() || now.Before(w.expires) }

// expiresIn gives what is left of the lease; 0: it does not expire.
func (w *view) expiresIn(now time.Time) time.Duration {
	if w.expires.IsZero() {
		return 0
	}
	return max(w.expires.Sub(now), time.Nanosecond)
}

// nanosOf gives a time in nanoseconds since 1970, the greatest for one that is
// too far away for that.
func nanosOf(t time.Time) int64 {
	if t.Year() > 2261 {
		return math.MaxInt64
	}
	return t.UnixNano()
}

// publicOf gives the one public value that identifies an account.
func publicOf(def *events.Definition, public leasecore.Public) string {
	if def == nil {
		return ""
	}
	for _, k := range def.Kind.PublicKeys() {
		if v := public.Get(k); v != "" {
			return v
		}
	}
	return ""
}
