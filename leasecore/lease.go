package leasecore

import (
	"hash/fnv"
	"maps"
	"math/bits"
	"slices"
	"time"

	"github.com/leasesvc/leasesvc/events"
)

// LeaseState is what a lease is to its name.
type LeaseState uint8

// The states of a lease. A closed lease is not in the state at all.
const (
	// Requested: its one read is intended; nobody knows more.
	Requested LeaseState = iota + 1
	// Acquired: Vault granted it, its values are sealed in the store.
	Acquired
	// HandingOver: everybody registered is being asked.
	HandingOver
	// RollingBack: everybody asked is being told to go back.
	RollingBack
	// Active: readers see it.
	Active
	// Grace: replaced, but somebody may still be on it.
	Grace
	// Kept: a candidate that was rolled back without everybody's word (L22).
	Kept
	// Retired: nobody uses it; it is owed a revocation.
	Retired
	// Revoking: its revocation is intended, which is final (P7).
	Revoking
)

var leaseStates = [...]string{
	"none", "requested", "acquired", "handing-over", "rolling-back",
	"active", "grace", "kept", "retired", "revoking",
}

// String gives the state's word.
func (s LeaseState) String() string {
	if int(s) < len(leaseStates) {
		return leaseStates[s]
	}
	return "?"
}

// Lease is one grant of Vault's, or the intent to get one.
type Lease struct {
	// No is our number, unique in the scope.
	No    uint64
	State LeaseState
	// Epoch is the one it was requested under.
	Epoch uint64

	Vault, Path string
	// LeaseID is Vault's; empty for a secret without lease.
	LeaseID string
	// Guard is the accessor of the token the lease hangs on; empty: unguarded.
	Guard string
	// Reason says why it was requested.
	Reason string

	// AcquiredAt is when it was asked for in the first place: it is that old.
	AcquiredAt time.Time
	// GrantedAt is when the last grant was asked for, TTL what was granted;
	// TTL 0 does not expire.
	GrantedAt time.Time
	TTL       time.Duration
	Renewable bool
	// Short: the last renewal granted less than it asked for (L37).
	Short bool
	// GuardAt and GuardTTL are the same for the guard.
	GuardAt       time.Time
	GuardTTL      time.Duration
	GuardExtended bool

	Public      Public
	Fingerprint string
	// RereadIn is when, counted from GrantedAt, a static role's own clock will
	// have given it new values (L39); 0: it has no clock.
	RereadIn time.Duration
	// Forced: consumers are asked even if the values are those that they use
	// (an adopted lease, L51).
	Forced bool
	// Lost: Vault refused to renew it while consumers were asked, so it must not
	// be installed any more.
	Lost bool
	// Verified: a login of our own with it worked.
	Verified bool
	// ActiveRenewed: a renewal of the active lease was tried while this
	// candidate waited for its hand-over.
	ActiveRenewed bool

	// Retry paces what failed last: the guard's extension, a renewal or a
	// revocation, whichever the state owes.
	Retry events.Retry

	// GateN is the log sequence that every registered incarnation must have
	// confirmed before the lease may be revoked (P13).
	GateN uint64
	// Replaced is there from Grace on; nil: it has no successor.
	Replaced *Replaced
}

// Replaced tells of a lease that has a successor; it is never changed.
type Replaced struct {
	// At is when the successor was decided on, GoodFor what readers were promised,
	// RetireAt when the lease goes though somebody has not confirmed.
	At, RetireAt time.Time
	GoodFor      time.Duration
}

// Expires gives the earlier end of lease and guard; false: it does not expire.
func (l *Lease) Expires() (time.Time, bool) {
	var end time.Time
	if l.TTL > 0 {
		end = l.GrantedAt.Add(l.TTL)
	}
	if l.LeaseID != "" && l.Guard != "" && l.GuardTTL > 0 {
		if g := l.GuardAt.Add(l.GuardTTL); end.IsZero() || g.Before(end) {
			end = g
		}
	}
	return end, !end.IsZero()
}

// Usable tells whether the lease is unexpired at now (L53).
func (l *Lease) Usable(now time.Time) bool {
	end, ends := l.Expires()
	return !ends || now.Before(end)
}

// lives tells whether the lease is unexpired at now and for d longer.
func (l *Lease) lives(now time.Time, d time.Duration) bool { return l.Usable(now.Add(d)) }

// held tells whether the lease must be kept alive: somebody uses it, or may.
func (l *Lease) held() bool {
	switch l.State {
	case HandingOver, RollingBack, Active, Grace, Kept:
		return true
	case Acquired:
		return l.extended()
	default:
		return false
	}
}

// minRenewalInterval keeps a lease whose TTL has shrunk to nothing from being
// renewed in a loop (C8).
const minRenewalInterval = time.Second

// renewalSpread is the part of the renewal point by which a lease may be
// renewed early, so that leases of one instant spread out (C12, C13).
const renewalSpread = 0.1

// RenewalDue gives when renewing is due: at fraction renewAt of the life that
// was granted, at most a tenth of that earlier, by a spread that depends on
// the lease alone. False: the lease does not expire.
//
// Leases that are due at about the same time are due at once, so that one awakening
// serves them all: it costs more than a renewal does.
func (l *Lease) RenewalDue(renewAt events.Seconds) (time.Time, bool) {
	end, ends := l.Expires()
	if !ends {
		return time.Time{}, false
	}
	life := end.Sub(l.GrantedAt)
	together := dueTogether(life)
	point := events.FromDuration(life).Mul(renewAt).Duration()
	point -= time.Duration(max(0, float64(point)*renewalSpread-float64(together)) * l.spread())
	return l.GrantedAt.Add(point).Truncate(together), true
}

// mostTogether is 0.54 s, in nanoseconds: at 100,000 leases for an hour, 30 at once.
const mostTogether = 1 << 29

// dueTogether gives within which time what is due is due at once, for leases of this
// life: up to a 4,096th of it, and at most mostTogether. It is a power of two, so
// that what is due of different lives meets.
func dueTogether(life time.Duration) time.Duration {
	part := uint64(max(life>>12, 1))
	return min(time.Duration(1)<<(bits.Len64(part)-1), mostTogether)
}

// spread gives a number in [0, 1) that is the lease's own.
func (l *Lease) spread() float64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(l.LeaseID))
	_, _ = h.Write([]byte{byte(l.No), byte(l.No >> 8), byte(l.No >> 16), byte(l.No >> 24)})
	return float64(h.Sum32()>>8) / (1 << 24)
}

// renewable tells whether a renewal could lengthen the lease's life (L30).
func (l *Lease) renewable(now time.Time) bool {
	return l.Renewable && !l.Short && l.LeaseID != "" && l.Usable(now)
}

// Answer is an incarnation's word on a prepare.
type Answer struct {
	Yes    bool
	Reason string
}

// Handover is the one transaction in flight of a name.
type Handover struct {
	// N is the sequence of handover-started; 0 while it is only in a draft.
	N     uint64
	Lease uint64
	// Epoch is the one it was started under.
	Epoch   uint64
	Started time.Time
	Budget  time.Duration
	Answers map[string]Answer
	// Unasked says why nobody is asked (events.ProofUnchanged, ProofForward).
	Unasked string

	// RollingBack: rollback-started is in the log.
	RollingBack    bool
	RollbackAt     time.Time
	RollbackBudget time.Duration
	Failure        events.Failure
}

// Incarnation is one life of a consumer's instance that must be asked.
type Incarnation struct {
	Consumer, Instance, ID string
	Key, XKey, Subject     string
}

// Pending is a failure whose retry is due later (L4).
type Pending struct {
	events.Retry
	Vault, Path string
	Failure     events.Failure
}

// Name is a definition's state: its leases, its hand-over, its consumers.
type Name struct {
	Name string
	// Definition is nil once it was removed.
	Definition *events.Definition
	// Active is the lease that readers see; 0: none.
	Active uint64
	// Candidate is the lease on its way to be active; 0: none.
	Candidate uint64
	// Leases are those not closed, by number.
	Leases   []Lease
	Handover *Handover
	Pending  *Pending
	// Successor is the reason why the active lease must be replaced.
	Successor string
	// Promised is what readers were promised under definitions that promised more;
	// nil: nothing.
	Promised *Promised
	// ReportedAt is when a successor was last requested because a consumer
	// reported the active lease to be refused (C58).
	ReportedAt time.Time
	// Spent is when the budget of acquisitions would be whole again if nothing
	// more was acquired (C34).
	Spent time.Time
	// N is the sequence of the last installed or rollback-started: what every
	// registered incarnation must have confirmed (P14).
	N uint64
	// Reverted: N is that of a rollback-started.
	Reverted bool
	// Consumers are the registered incarnations, in order of registration.
	Consumers []Incarnation
}

// Promised is what readers were promised under definitions that were replaced by
// ones with a lower good_for. It is never changed, only replaced.
type Promised struct {
	// Until is when those promises end.
	Until time.Time
	// For is the most that such a definition promised in this epoch; 0: there was
	// none. Its holder promises that much until it knows the new one to be in the
	// log, and never may.
	For time.Duration
}

// promisedBefore gives what was promised under earlier definitions; zero: nothing.
func (n *Name) promisedBefore() Promised {
	if n.Promised == nil {
		return Promised{}
	}
	return *n.Promised
}

// Lease gives a lease by number; nil: closed or never there.
func (n *Name) Lease(no uint64) *Lease {
	if no == 0 {
		return nil
	}
	for i := range n.Leases {
		if n.Leases[i].No == no {
			return &n.Leases[i]
		}
	}
	return nil
}

// Committed gives the lease that readers see at now; nil: none, or expired.
func (n *Name) Committed(now time.Time) *Lease {
	if l := n.Lease(n.Active); l != nil && l.Usable(now) {
		return l
	}
	return nil
}

// Incarnation gives a registered incarnation by its id.
func (n *Name) Incarnation(id string) *Incarnation {
	for i := range n.Consumers {
		if n.Consumers[i].ID == id {
			return &n.Consumers[i]
		}
	}
	return nil
}

// instance gives the registered incarnation of an instance.
func (n *Name) instance(consumer, instance string) *Incarnation {
	for i := range n.Consumers {
		if n.Consumers[i].Consumer == consumer && n.Consumers[i].Instance == instance {
			return &n.Consumers[i]
		}
	}
	return nil
}

func (n *Name) close(t target, l *Lease) {
	no := l.No
	t.disown(l, n.Name)
	n.Leases = slices.DeleteFunc(n.Leases, func(l Lease) bool { return l.No == no })
	n.forget(no)
}

// forget takes a lease out of its roles; it stays owned.
func (n *Name) forget(no uint64) {
	if n.Active == no {
		n.Active = 0
	}
	if n.Candidate == no {
		n.Candidate = 0
	}
}

// clone copies all that Apply may change.
func (n *Name) clone() *Name {
	c := *n
	c.Leases = slices.Clone(n.Leases)
	c.Consumers = slices.Clone(n.Consumers)
	if n.Handover != nil {
		h := *n.Handover
		h.Answers = maps.Clone(n.Handover.Answers)
		c.Handover = &h
	}
	if n.Pending != nil {
		p := *n.Pending
		c.Pending = &p
	}
	return &c
}
