package ledger

import (
	"slices"
	"time"

	"github.com/leasesvc/leasesvc/events"
)

// event moves what is open of a name on.
func (l *Ledger) event(e *events.Event, a *account) {
	switch d := e.Data.(type) {
	case *events.Registered:
		l.register(e, a, d)
	case *events.Left:
		l.leave(e.Name, a, d.Incarnation)
	case *events.Requested:
		a.Leases = append(a.Leases, &lease{No: e.Lease, Path: d.Vault + "/" + d.Path})
	case *events.Adopted:
		x := &lease{No: e.Lease, Path: d.Vault + "/" + d.Path}
		a.Leases = append(a.Leases, x)
		l.acquired(e, x, d.SentAt, d.TTL)
	default:
		if x := a.lease(e.Lease); x != nil {
			l.leaseEvent(e, a, x)
		}
	}
}

func (l *Ledger) leaseEvent(e *events.Event, a *account, x *lease) {
	switch d := e.Data.(type) {
	case *events.Acquired:
		l.acquired(e, x, d.SentAt, d.TTL)
	case *events.AcquireFailed:
		l.both(e.Name, x, func(t *Totals) { t.FailedAcquisitions++ })
		if d.LeaseID == "" && d.Guard == "" {
			l.end(e.Name, a, x)
			return
		}
		// What arrived is owned, and nobody can use it.
		x.Phase, x.Began = exposed, l.clock
	case *events.Renewed:
		l.grant(e.Name, x, d.SentAt, d.TTL)
	case *events.VerifyFailed:
		l.both(e.Name, x, func(t *Totals) { t.FailedHandovers++ })
		l.retire(e.Name, x)
	case *events.HandoverStarted:
		for _, id := range d.Asked {
			l.give(a, x, id)
		}
	case *events.Prepared:
		l.give(a, x, d.Incarnation)
		if m := a.member(d.Incarnation); m != nil && !d.Yes && l.counts() {
			l.total(ByConsumer, m.Consumer).FailedHandovers++
		}
	case *events.Installed:
		l.installed(e, a, x, d)
	case *events.RollbackStarted:
		l.both(e.Name, x, func(t *Totals) { t.RollBacks++; t.FailedHandovers++ })
		l.each(x, func(t *Totals) { t.RollBacks++ })
	case *events.RolledBack:
		if d.Safe {
			l.retire(e.Name, x)
			return
		}
		l.let(e.Name, x, func(u user) bool { return !slices.Contains(d.Unconfirmed, u.Incarnation) })
		x.Phase = overlapped
	case *events.Retired:
		l.retire(e.Name, x)
	case *events.Expired:
		l.retire(e.Name, x)
		if d.By == events.ExpiredByVault {
			l.end(e.Name, a, x)
		}
	case *events.Revoked, *events.Orphaned:
		l.end(e.Name, a, x)
	}
}

// both counts something of a lease for its name and its path.
func (l *Ledger) both(name string, x *lease, count func(*Totals)) {
	if l.counts() {
		count(l.total(ByName, name))
		count(l.total(ByPath, x.Path))
	}
}

// each counts something once for each consumer that has the lease.
func (l *Ledger) each(x *lease, count func(*Totals)) {
	if !l.counts() {
		return
	}
	var done []string
	for _, u := range x.Users {
		if !slices.Contains(done, u.Consumer) {
			done = append(done, u.Consumer)
			count(l.total(ByConsumer, u.Consumer))
		}
	}
}

func (l *Ledger) acquired(e *events.Event, x *lease, sentAt time.Time, ttl events.Seconds) {
	x.Phase, x.Began, x.SentAt = staged, l.clock, sentAt
	l.both(e.Name, x, func(t *Totals) { t.Acquired++ })
	l.grant(e.Name, x, sentAt, ttl)
}

// grant counts what a grant adds to the grants before it.
func (l *Ledger) grant(name string, x *lease, sentAt time.Time, ttl events.Seconds) {
	from := events.FromDuration(sentAt.Sub(x.SentAt))
	end := from.Add(ttl)
	if x.Granted.Cmp(from) > 0 {
		from = x.Granted
	}
	if added := end.Sub(from); added.Sign() > 0 {
		x.Granted = end
		l.both(name, x, func(t *Totals) { t.Granted = t.Granted.Add(added) })
	}
}

func (l *Ledger) installed(e *events.Event, a *account, x *lease, d *events.Installed) {
	for _, o := range a.Leases {
		if o != x && o.Phase == inUse {
			o.Phase = overlapped
		}
	}
	x.Phase = inUse
	for _, m := range a.Members {
		l.give(a, x, m.Incarnation)
	}
	if d.Previous != 0 {
		l.both(e.Name, x, func(t *Totals) { t.Rotations++ })
		l.each(x, func(t *Totals) { t.Rotations++ })
	}
}

func (l *Ledger) register(e *events.Event, a *account, d *events.Registered) {
	for _, m := range a.Members {
		if m.Consumer == d.Consumer && m.Instance == d.Instance {
			l.leave(e.Name, a, m.Incarnation)
			break
		}
	}
	a.Members = append(a.Members, member{d.Consumer, d.Instance, d.Incarnation})
	for _, x := range a.Leases {
		if x.Phase == inUse {
			l.give(a, x, d.Incarnation)
		}
	}
}

func (l *Ledger) leave(name string, a *account, id string) {
	a.Members = slices.DeleteFunc(a.Members, func(m member) bool { return m.Incarnation == id })
	for _, x := range a.Leases {
		l.let(name, x, func(u user) bool { return u.Incarnation == id })
	}
}

func (a *account) member(id string) *member {
	for i := range a.Members {
		if a.Members[i].Incarnation == id {
			return &a.Members[i]
		}
	}
	return nil
}

// give notes that an incarnation has a lease.
func (l *Ledger) give(a *account, x *lease, id string) {
	m := a.member(id)
	if m == nil || slices.ContainsFunc(x.Users, func(u user) bool { return u.Incarnation == id }) {
		return
	}
	x.Users = append(x.Users, user{*m, l.clock})
}

// let notes that the incarnations that go says have a lease no more.
func (l *Ledger) let(name string, x *lease, goes func(user) bool) {
	kept := x.Users[:0:0]
	for _, u := range x.Users {
		switch {
		case !goes(u):
			kept = append(kept, u)
		case l.counts():
			l.total(ByConsumer, u.Consumer).longest(span(u.From, l.clock), leaseName(name, x.No))
		}
	}
	x.Users = kept
}

func (l *Ledger) retire(name string, x *lease) {
	l.let(name, x, func(user) bool { return true })
	x.Phase = exposed
}

// end closes a lease.
func (l *Ledger) end(name string, a *account, x *lease) {
	l.let(name, x, func(user) bool { return true })
	if x.Phase != "" {
		l.life(name, x, l.clock, l.total)
	}
	a.Leases = slices.DeleteFunc(a.Leases, func(o *lease) bool { return o == x })
}
