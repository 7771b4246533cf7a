package service

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/handover/wire"
	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/service/metrics"
)

// view is what readers see of a name: committed, immutable but for the values,
// which are opened when somebody first asks.
type view struct {
	definition *events.Definition
	epoch, n   uint64
	lease      uint64    // 0: none is committed
	expires    time.Time // zero: it does not
	ends       int64     // the same in nanoseconds since 1970
	goodFor    time.Duration
	public     string
	state      string // why there is none, for people
	values     atomic.Pointer[wire.Values]
	form       atomic.Pointer[wire.GotForm]     // of the answers, once somebody has asked over NATS
	standing   atomic.Pointer[metrics.Standing] // of a term's views
}

// views are the views of a scope by name; readers take no lock that the
// scope's goroutine could hold for long.
type views struct {
	byName viewTable
	opened opened
}

func (v *views) get(name string) *view { return v.byName.load(name) }

// open tells whether the values are held open.
func (w *view) open() bool { return w != nil && w.values.Load() != nil }

// viewOf gives what a state says of a name; nil: nothing.
func viewOf(s *leasecore.State, name string, now time.Time) *view {
	n := s.Name(name)
	if n == nil {
		return nil
	}
	w := &view{definition: n.Definition, epoch: s.Epoch, n: n.N}
	if n.Definition != nil {
		w.goodFor = n.Definition.GoodFor.Duration()
	}
	if l := n.Lease(n.Active); l == nil {
		w.state = s.Story(name, now)
	} else {
		w.lease, w.public = l.No, publicOf(n.Definition, l.Public)
		w.expires, _ = l.Expires()
		w.ends = nanosOf(w.expires)
	}
	return w
}

// publish makes what the state says of a name visible to readers; other tells
// whether that is another lease than before.
func (v *views) publish(s *leasecore.State, name string, now time.Time) (other bool) {
	return v.show(name, viewOf(s, name, now))
}

// show makes a view visible. The values of a lease that was there before are
// kept.
func (v *views) show(name string, next *view) (other bool) {
	before := v.get(name)
	if next == nil {
		v.byName.store(name, nil)
		return before != nil && before.lease != 0
	}
	other = before == nil || before.lease != next.lease
	if before != nil {
		next.standing.Store(before.standing.Load()) // until it is brought in line as well
	}
	if !other {
		next.values.Store(before.values.Load())
	}
	v.byName.store(name, next)
	return other
}

// inherit takes over the values that other views of the same leases have opened.
func (v *views) inherit(from *views) {
	from.byName.each(func(name string, theirs *view) {
		if mine := v.get(name); mine != nil && mine.lease == theirs.lease && mine.values.Load() == nil {
			if values := theirs.values.Load(); values != nil {
				mine.values.Store(values)
				v.opened.add(name)
			}
		}
	})
}

func (v *views) clear() { v.byName.clear() }

// formOf gives the form of the answers to gets of the whole credential.
func (w *view) formOf(scope, name string, values wire.Values) (*wire.GotForm, error) {
	if form := w.form.Load(); form != nil {
		return form, nil
	}
	form, err := wire.NewGotForm(w.got(scope, name, values))
	if err == nil && w.values.Load() != nil { // else they were let go of
		w.form.Store(form)
	}
	return form, err
}

// got is what the answers to gets of the whole credential have in common.
func (w *view) got(scope, name string, values wire.Values) wire.Got {
	return wire.Got{Scope: scope, Name: name, Epoch: w.epoch, N: w.n, Lease: w.lease, Values: values, Public: w.public}
}

// letGo gives up what is held open.
func (w *view) letGo() {
	w.values.Store(nil)
	w.form.Store(nil)
}

// committed tells whether there is a lease to hand out; also of no view.
func (w *view) committed() bool { return w != nil && w.lease != 0 }

// usable tells whether the view's lease may be handed out at now (L53, I2).
func (w *view) usable(now time.Time) bool { return w.usableAt(now.UnixNano()) }

// usableAt is usable, of a time in nanoseconds since 1970.
func (w *view) usableAt(now int64) bool { return now < w.ends }

// nanosOf gives when something ends in nanoseconds since 1970; the last one there
// is for what does not end, or after 2262.
func nanosOf(end time.Time) int64 {
	if end.IsZero() || end.Year() >= 2262 {
		return math.MaxInt64
	}
	return end.UnixNano()
}

// promise gives for how long, now, an answer to a read that came at a time may be
// relied on: good_for, less what the view is older than the read. What is left
// of the lease is the caller's to look at.
func (w *view) promise(came time.Time, now int64, certain time.Time) (time.Duration, error) {
	old := max(0, came.Sub(certain))
	switch {
	case old > 0 && (!w.committed() || w.definition == nil || !w.usableAt(now) || old >= w.goodFor):
		return 0, errNotLeading // what we see may be over
	case w == nil || w.definition == nil:
		return 0, leasecore.ErrUnknownName
	case w.lease == 0:
		return 0, wire.Refusal{Code: wire.CodeNone, Message: "no credential is committed: " + w.state}
	case !w.usableAt(now):
		return 0, wire.Refusal{Code: wire.CodeExpired, Message: "the committed credential expired at " + w.expires.Format(time.RFC3339)}
	}
	return w.goodFor - old, nil
}

// expiresIn gives what is left of the lease; 0: it does not expire.
func (w *view) expiresIn(now int64) time.Duration {
	if w.expires.IsZero() {
		return 0
	}
	return max(time.Duration(w.ends-now), time.Nanosecond)
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
