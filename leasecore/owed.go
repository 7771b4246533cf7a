package leasecore

import (
	"fmt"
	"time"

	"github.com/leasesvc/leasesvc/events"
)

// EffectKind is what kind of work an effect is.
type EffectKind uint8

// The kinds of effects. All but Renew and Extend have their intent in the log
// before they are owed.
const (
	// Acquire: make a guard, read the credential once, seal its values.
	Acquire EffectKind = iota + 1
	// Extend the guard by its accessor.
	Extend
	// Verify: log in with the candidate.
	Verify
	// Prepare: ask an incarnation to prove the candidate.
	Prepare
	// Tell an incarnation what is in force: after a commit (follow) or a roll
	// back (revert), again and again until it confirms (P14).
	Tell
	// Renew a lease and its guard.
	Renew
	// Revoke a lease and its guard, purge its values.
	Revoke
	// Poll: read a secret without lease again, to see whether it changed (L38).
	Poll

	// EffectKinds is above every kind.
	EffectKinds
)

var effectKinds = [...]string{"none", "acquire", "extend", "verify", "prepare", "tell", "renew", "revoke", "poll"}

// String gives the kind's word.
func (k EffectKind) String() string {
	if int(k) < len(effectKinds) {
		return effectKinds[k]
	}
	return "?"
}

// Effect is work that a state owes. It is comparable: two effects that are
// equal are the same work, and it is never started twice at a time.
type Effect struct {
	Kind EffectKind
	Name string
	// Lease is the lease it is about; for Tell the one in force, 0: none.
	Lease uint64
	// N and Incarnation belong to Prepare and Tell.
	N           uint64
	Incarnation string
}

// String prints an effect for people.
func (e Effect) String() string {
	s := fmt.Sprintf("%s %s/%d", e.Kind, e.Name, e.Lease)
	if e.Incarnation != "" {
		s += fmt.Sprintf(" to %s n=%d", e.Incarnation, e.N)
	}
	return s
}

// Owed gives the effects that a name owes at now. What runs already is the
// caller's to know.
func (s *State) Owed(name string, now time.Time) []Effect {
	n := s.names[name]
	if n == nil {
		return nil
	}
	var out []Effect
	for i := range n.Leases {
		if k, ok := s.owedByLease(n, &n.Leases[i], now); ok {
			out = append(out, Effect{Kind: k, Name: name, Lease: n.Leases[i].No})
		}
	}
	return s.owedToConsumers(n, out)
}

func (s *State) owedByLease(n *Name, l *Lease, now time.Time) (EffectKind, bool) {
	paced := s.overdue(l.Vault, l.Retry, now)
	switch l.State {
	case Requested:
		return Acquire, l.Epoch == s.Epoch
	case Acquired:
		switch {
		case !l.extended():
			return Extend, paced
		case n.Definition != nil && n.Definition.Verifier != nil && !l.Verified:
			return Verify, true
		}
	case Revoking:
		return Revoke, paced // any holder may repeat it (P7)
	case Retired:
		return 0, false
	}
	if due, ok := n.renewal(l, now); ok {
		return Renew, paced && !now.Before(due)
	}
	if due, ok := s.poll(n, l); ok {
		return Poll, !now.Before(due)
	}
	return 0, false
}

// rereadMargin is how long after a static role's own clock it is read again.
const rereadMargin = time.Second

// poll gives when a secret without lease is to be read again; false: the lease
// is none, or something else is on its way.
func (s *State) poll(n *Name, l *Lease) (time.Time, bool) {
	// What has an end of its own was made for us: reading again would make another.
	if l.State != Active || l.LeaseID != "" || l.TTL > 0 || n.Definition == nil || n.Definition.Makes() || n.Candidate != 0 || n.Successor != "" {
		return time.Time{}, false
	}
	last, clock := l.GrantedAt, l.RereadIn
	p, polled := s.polled[n.Name]
	if polled && p.at.After(last) {
		last, clock = p.at, p.reread
	}
	every := n.Definition.Poll.Duration()
	if n.Definition.MakesAccounts() { // C17: each reading makes another account
		every = max(every, n.Definition.FallbackTTL.Duration())
	}
	if clock > 0 {
		every = clock + rereadMargin // L39
	}
	every -= time.Duration(float64(every) * renewalSpread * l.spread())
	if clock > 0 {
		every = max(every, clock+rereadMargin)
	}
	if p.failed > 0 {
		every = Backoff(p.failed)
	}
	return last.Add(max(every, minRenewalInterval)), true
}

// renewal gives when a lease is to be renewed; false: never.
func (n *Name) renewal(l *Lease, now time.Time) (time.Time, bool) {
	if n.Definition == nil || !l.held() || !l.renewable(now) {
		return time.Time{}, false
	}
	due, ends := l.RenewalDue(n.Definition.RenewAt)
	if !ends {
		return time.Time{}, false
	}
	if soonest := l.GrantedAt.Add(minRenewalInterval); due.Before(soonest) {
		due = soonest
	}
	if l.State == Active {
		// A candidate that is ready waits for this renewal.
		if c := n.Lease(n.Candidate); c != nil && c.State == Acquired && n.readyToHandOver(c) && n.renewFirst(c, now) {
			due = now
		}
	}
	return due, true
}

func (s *State) owedToConsumers(n *Name, out []Effect) []Effect {
	asking := n.Handover != nil && !n.Handover.RollingBack && n.Handover.Unasked == ""
	asked := uint64(0)
	for i := range n.Consumers {
		id := n.Consumers[i].ID
		switch {
		case asking:
			_, answered := n.Handover.Answers[id]
			if !answered && n.Handover.Epoch == s.Epoch && n.mayAsk(asked) {
				asked++
				out = append(out, Effect{Kind: Prepare, Name: n.Name, Lease: n.Handover.Lease, N: n.Handover.N, Incarnation: id})
			}
		case n.N > 0 && s.Confirmed(n.Name, id) < n.N:
			out = append(out, Effect{Kind: Tell, Name: n.Name, Lease: n.Active, N: n.N, Incarnation: id})
		}
	}
	return out
}

// mayAsk tells whether one more incarnation may be asked to prepare beside those
// that are. They are asked in the order they registered, so that one that is
// asked stays so whoever comes later.
func (n *Name) mayAsk(asked uint64) bool {
	return n.Definition == nil || n.Definition.Width == 0 || asked < n.Definition.Width
}

// InFlight tells whether a name has something begun that a holder brings to its
// end before it gives the scope back (E18): a read that is intended, a guard
// that is not extended, a hand-over.
func (n *Name) InFlight() bool {
	if n.Handover != nil {
		return true
	}
	c := n.Lease(n.Candidate)
	return c != nil && (c.State == Requested || !c.extended())
}

// Waits tells whether something of a name waits to be tried again at a Vault
// connection.
func (n *Name) Waits(vault string) bool {
	if n.Pending != nil && n.Pending.Vault == vault {
		return true
	}
	for i := range n.Leases {
		if l := &n.Leases[i]; l.Vault == vault && l.Retry.Attempt > 0 {
			return true
		}
	}
	return false
}

// Wake gives the next time at which a name must be looked at again even if
// nothing happens; false: never. It looks only at what is later than now: what
// is due now was decided or is owed already.
func (s *State) Wake(name string, now time.Time) (time.Time, bool) {
	n := s.names[name]
	if n == nil {
		return time.Time{}, false
	}
	var w wake
	w.now = now
	if p := n.Pending; p != nil {
		w.at(p.At)
	}
	if n.Definition != nil && n.Candidate == 0 {
		if at, _ := afford(&s.Head, n.Definition, n, now); at.After(now) {
			w.at(at)
		}
	}
	if h := n.Handover; h != nil {
		if h.RollingBack {
			w.at(rollbackEnd(&s.Head, h))
		} else {
			w.at(h.Started.Add(h.Budget))
		}
	}
	for i := range n.Leases {
		s.wakeForLease(&w, n, &n.Leases[i])
	}
	return w.next, !w.next.IsZero()
}

func (s *State) wakeForLease(w *wake, n *Name, l *Lease) {
	w.at(l.Retry.At)
	if l.State == Grace {
		w.at(s.promised(n, l))
		w.at(l.Replaced.RetireAt)
	}
	if l.State == Revoking || l.State == Requested {
		return
	}
	if end, ends := l.Expires(); ends {
		w.at(end)
		if n.Definition != nil && l.State == Active {
			// The point where waiting for a kept lease ends.
			need := n.Definition.PrepareTimeout.Add(n.Definition.RollbackTimeout).Duration()
			if n.Definition.Verifier != nil {
				need += n.Definition.Verifier.Timeout.Duration()
			}
			w.at(end.Add(-need))
		}
	}
	if n.Definition == nil {
		return
	}
	if due, ok := s.poll(n, l); ok {
		w.at(due)
	}
	if due, ok := n.renewal(l, w.now); ok {
		w.at(due)
	} else if due, ends := l.RenewalDue(n.Definition.RenewAt); ends && l.State == Active {
		w.at(due)
	}
}

// wake collects the earliest time after now.
type wake struct{ now, next time.Time }

func (w *wake) at(t time.Time) {
	if t.IsZero() || !t.After(w.now) {
		return
	}
	if w.next.IsZero() || t.Before(w.next) {
		w.next = t
	}
}

// Story tells in few words what a name is doing and what it waits for.
func (s *State) Story(name string, now time.Time) string {
	n := s.names[name]
	if n == nil {
		return "unknown"
	}
	switch h := n.Handover; {
	case h != nil && h.RollingBack:
		return fmt.Sprintf("rolling back lease %d: %s", h.Lease, h.Failure.Message)
	case h != nil:
		return fmt.Sprintf("asking %s to follow to lease %d", events.Counted(len(n.silent(h)), "consumer"), h.Lease)
	}
	if c := n.Lease(n.Candidate); c != nil {
		switch {
		case c.State == Requested:
			return "acquiring"
		case !c.extended():
			return "extending the guard of lease " + fmt.Sprint(c.No)
		default:
			return "proving lease " + fmt.Sprint(c.No)
		}
	}
	if n.Definition == nil {
		return "removed, its leases are being revoked"
	}
	w := &decision{Draft: NewDraft(s), at: At{Now: now}}
	if reason := n.need(now); reason != "" {
		if why := w.mayAcquire(n, reason, true); why != "" {
			return "waiting: " + why
		}
	}
	if a := n.Committed(now); a != nil {
		return "active"
	}
	return "no usable lease"
}
