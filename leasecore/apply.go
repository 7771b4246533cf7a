package leasecore

import (
	"slices"
	"time"

	"github.com/leasesvc/leasesvc/events"
)

// Apply folds one event of the log into the state. It returns an
// [*InconsistentError], and leaves the state as it was, when the event does not
// fit, and an [*events.FutureError] for a format that lets events be written which
// this release can't read. Whether the event is genuine and of the current epoch is the caller's
// question (projector).
func (s *State) Apply(e *events.Event) error {
	if err := apply(s, e); err != nil {
		return err
	}
	s.share(e)
	return nil
}

// apply is the one fold, for states and drafts.
func apply(t target, e *events.Event) error {
	why := ""
	switch d := e.Data.(type) {
	case *events.Opened:
		applyOpened(t, e, d)
	case *events.Released:
		h := t.head()
		h.Released, h.Shutdown, h.ReleasedAt = true, d.Shutdown, e.Time
	case *events.Updated:
		why = applyUpdated(t, e, d)
	case *events.Format:
		raised, err := d.Raised(e.Seq)
		if err != nil {
			return err
		}
		h := t.head()
		h.Formats = h.Formats.With(raised)
	case *events.Paused, *events.Resumed, *events.Rejected:
		// Nothing of these is in the core's state yet.
	case *events.Applied:
		applyDefinition(t, e, d)
	default:
		why = applyToName(t, e)
	}
	if why != "" {
		return &InconsistentError{Seq: e.Seq, Type: string(e.Type()), Name: e.Name, Why: why}
	}
	if h := t.head(); e.Seq > h.LastSeq {
		h.LastSeq = e.Seq
	}
	return nil
}

func applyOpened(t target, e *events.Event, d *events.Opened) {
	h := t.head()
	if e.Epoch != h.Epoch {
		// A deposed holder's readers don't end with the next epoch.
		still := h.OpenedAt.Add(h.Overlap).Sub(e.Time)
		h.OpenedAt, h.Began, h.Overlap = e.Time, e.Seq, max(d.Overlap.Duration(), still, 0)
		for _, name := range h.Lowered {
			// The holder before may not have known of its own definition to the end.
			if n := t.edit(name); n != nil && n.promisedBefore().For > 0 {
				n.promise(e.Time.Add(h.Overlap+n.promisedBefore().For), 0)
			}
		}
		h.Lowered = nil
		t.forgetConfirmations()
	}
	h.Epoch, h.Fence, h.Holder, h.Released, h.Shutdown = e.Epoch, e.Seq, d.Holder, false, false
}

func applyDefinition(t target, e *events.Event, d *events.Applied) {
	if e.Name == events.DefinitionsName {
		h := t.head()
		h.Revision, h.Digest = d.Revision, d.Digest
		return
	}
	n := t.edit(e.Name)
	if n == nil {
		n = t.create(e.Name)
	}
	if old := n.Definition; old != nil && d.Definition != nil && d.Definition.GoodFor.Cmp(old.GoodFor) < 0 {
		h, before := t.head(), old.GoodFor.Duration()
		promised := n.promisedBefore().For
		if promised == 0 {
			h.Lowered = append(slices.Clip(h.Lowered), e.Name)
		}
		n.promise(e.Time.Add(before), max(promised, before))
	}
	n.Definition = d.Definition
}

// lasting has the reasons of a request that its own attempt is the only trace of.
var lasting = map[string]bool{
	events.ReasonAnew: true, events.ReasonReported: true, events.ReasonRotate: true, events.ReasonReissue: true,
}

// promise keeps what readers may have been promised under earlier definitions.
func (n *Name) promise(until time.Time, most time.Duration) {
	n.Promised = &Promised{Until: latest(n.promisedBefore().Until, until), For: most}
}

// applyToName folds the events of a name that exists; the result says why the
// event does not fit.
func applyToName(t target, e *events.Event) (why string) {
	n := t.edit(e.Name)
	if n == nil {
		return "there is no such name"
	}
	switch d := e.Data.(type) {
	case *events.Removed:
		n.Definition = nil
	case *events.Registered:
		applyRegistered(t, n, d)
	case *events.Left:
		n.leave(d.Incarnation)
		t.forgetIncarnation(n.Name, d.Incarnation)
	case *events.Requested:
		l := Lease{State: Requested, Vault: d.Vault, Path: d.Path, Reason: d.Reason, GrantedAt: e.Time}
		if of := n.Definition; of != nil && of.Vault == d.Vault && of.Path == d.Path {
			l.Vault, l.Path = of.Vault, of.Path // the same strings, held once
		}
		if why = n.candidate(t, e, l); why == "" {
			spend(t.head(), n, e.Time)
			if d.Reason == events.ReasonReported {
				n.ReportedAt = e.Time
			}
			if lasting[d.Reason] && (n.Successor == "" || d.Reason == events.ReasonReported) {
				n.Successor = d.Reason // asked for again if this comes to nothing
			}
		}
	case *events.Adopted:
		l := Lease{State: Requested, Vault: d.Vault, Path: d.Path, Reason: reasonAdopted, Forced: true}
		if why = n.candidate(t, e, l); why == "" {
			l := n.Lease(e.Lease)
			if why = applyAcquired(t, n, l, &d.Acquired); why == "" {
				joinOwner(t, l)
			}
		}
	default:
		l := n.Lease(e.Lease)
		if l == nil {
			return "the lease is closed or was never there"
		}
		why = applyToLease(t, n, l, e)
	}
	if n.Definition == nil && len(n.Leases) == 0 && why == "" {
		t.drop(n.Name)
	}
	return why
}

// reasonAdopted is the reason of a lease that was not requested.
const reasonAdopted = "adopted"

// candidate makes a new lease the name's candidate.
func (n *Name) candidate(t target, e *events.Event, l Lease) (why string) {
	if n.Candidate != 0 {
		return "another candidate is on its way"
	}
	l.No, l.Epoch = e.Lease, e.Epoch
	n.Leases = append(n.Leases, l)
	n.Candidate = e.Lease
	if h := t.head(); e.Lease > h.LastLease {
		h.LastLease = e.Lease
	}
	return ""
}

func applyRegistered(t target, n *Name, d *events.Registered) {
	if old := n.instance(d.Consumer, d.Instance); old != nil {
		id := old.ID
		n.leave(id)
		t.forgetIncarnation(n.Name, id)
	}
	n.Consumers = append(n.Consumers, Incarnation{
		Consumer: d.Consumer, Instance: d.Instance, ID: d.Incarnation, Key: d.Key, XKey: d.XKey, Subject: d.Subject,
	})
}

func (n *Name) leave(id string) {
	kept := n.Consumers[:0:0]
	for _, c := range n.Consumers {
		if c.ID != id {
			kept = append(kept, c)
		}
	}
	n.Consumers = kept
}

// applyToLease folds the events of a lease's life.
func applyToLease(t target, n *Name, l *Lease, e *events.Event) string {
	switch d := e.Data.(type) {
	case *events.Acquired:
		return applyAcquired(t, n, l, d)
	case *events.AcquireFailed:
		return applyAcquireFailed(t, n, l, d)
	case *events.Orphaned:
		if l.State != Requested {
			return "only an intent can be orphaned, the lease is " + l.State.String()
		}
		n.close(t, l)
	case *events.GuardExtended:
		l.GuardExtended, l.GuardAt, l.GuardTTL = true, d.SentAt, d.Granted.Duration()
		l.Retry = events.Retry{}
		if l.GuardTTL < l.TTL {
			l.Short = true // the guard can't be made to outlive it: a successor in time (L37)
		}
	case *events.Verified:
		l.Verified = true
	case *events.VerifyFailed:
		if l.State != Acquired {
			return "only a candidate can fail to verify, the lease is " + l.State.String()
		}
		n.postpone(l, d.Failure, d.Retry)
		n.retire(l)
	case *events.HandoverStarted:
		if l.State != Acquired || n.Handover != nil {
			return "the lease is " + l.State.String() + ", or another hand-over is in flight"
		}
		l.State = HandingOver
		n.Handover = &Handover{
			N: e.Seq, Lease: l.No, Epoch: e.Epoch, Started: e.Time, Budget: d.Budget.Duration(), Answers: map[string]Answer{}, Unasked: d.Unasked,
		}
	case *events.Prepared, *events.Installed, *events.RollbackStarted, *events.RolledBack:
		return applyHandover(t, n, l, e)
	default:
		return applyUpkeep(t, n, l, e)
	}
	return ""
}

func applyAcquired(t target, n *Name, l *Lease, d *events.Acquired) string {
	if l.State != Requested {
		return "the lease is " + l.State.String() + ", not requested"
	}
	l.State = Acquired
	l.LeaseID, l.Guard = d.LeaseID, d.Guard
	l.AcquiredAt, l.GrantedAt, l.TTL, l.Renewable = d.SentAt, d.SentAt, d.TTL.Duration(), d.Renewable
	l.GuardAt, l.GuardTTL = d.SentAt, d.GuardTTL.Duration()
	l.Public, l.Fingerprint, l.RereadIn = publicOf(d.Public), d.Fingerprint, d.RereadIn.Duration()
	t.own(l, n.Name)
	return ""
}

func applyAcquireFailed(t target, n *Name, l *Lease, d *events.AcquireFailed) string {
	if l.State != Requested {
		return "the lease is " + l.State.String() + ", not requested"
	}
	n.postpone(l, d.Failure, d.Retry)
	if d.NotSent {
		unspend(t.head(), n)
	}
	if d.LeaseID == "" && d.Guard == "" {
		n.close(t, l)
		return ""
	}
	// L8: what arrived is owned, whatever else was wrong with it.
	l.LeaseID, l.Guard = d.LeaseID, d.Guard
	t.own(l, n.Name)
	n.retire(l)
	return ""
}

// postpone plans the next acquisition after a candidate came to nothing. A wish
// is kept, whatever the reason was that it failed for, unless Vault understood the
// request and said that there is no such thing.
func (n *Name) postpone(l *Lease, f events.Failure, r events.Retry) {
	n.Pending = &Pending{Retry: r, Vault: l.Vault, Path: l.Path, Failure: f}
	if n.wished() && hopeless[f.Kind] {
		n.Successor = ""
	}
}

// hopeless has the kinds of failure (vault.Kind) after which asking again gives
// the same answer. A permission is none: a login or a policy may bring it back.
var hopeless = map[string]bool{"not-found": true, "refused": true, "invalid": true}

// wished tells whether a successor is asked for by hand and for nothing else.
func (n *Name) wished() bool {
	return n.Successor == events.ReasonRotate || n.Successor == events.ReasonReissue
}

// retire makes a lease owe its revocation and takes it out of its roles.
func (n *Name) retire(l *Lease) {
	l.State = Retired
	l.Retry = events.Retry{}
	n.forget(l.No)
}

// applyHandover folds the outcome of asking.
func applyHandover(t target, n *Name, l *Lease, e *events.Event) string {
	h := n.Handover
	if h == nil || h.Lease != l.No {
		return "no hand-over of the lease is in flight"
	}
	switch d := e.Data.(type) {
	case *events.Prepared:
		h.Answers[d.Incarnation] = Answer{Yes: d.Yes, Reason: d.Reason}
	case *events.Installed:
		if h.RollingBack {
			return "its roll back has begun" // P12
		}
		n.install(t.head(), l, e, d)
	case *events.RollbackStarted:
		l.State = RollingBack
		h.RollingBack, h.RollbackAt, h.RollbackBudget, h.Failure = true, e.Time, d.Budget.Duration(), d.Failure
		n.N, n.Reverted = e.Seq, true
	case *events.RolledBack:
		if !h.RollingBack {
			return "its roll back has not begun"
		}
		n.postpone(l, h.Failure, d.Retry)
		n.Handover = nil
		if n.wished() {
			n.Successor = "" // somebody asked, and this is the answer
		}
		if d.Safe {
			n.retire(l)
		} else {
			l.State, l.GateN = Kept, n.N
			n.forget(l.No)
		}
	}
	return ""
}

// install commits a candidate (L15): every other owned lease of the name goes
// into grace.
func (n *Name) install(h *Head, l *Lease, e *events.Event, d *events.Installed) {
	refund(h, n)
	for i := range n.Leases {
		o := &n.Leases[i]
		if o.State == Active || o.State == Kept {
			o.State, o.GateN = Grace, e.Seq
			goodFor := d.GoodFor.Duration()
			o.Replaced = &Replaced{At: e.Time, GoodFor: goodFor, RetireAt: e.Time.Add(max(d.RetireAfter.Duration(), goodFor))}
		}
	}
	l.State = Active
	n.Active, n.Candidate, n.Handover, n.Pending, n.Successor = l.No, 0, nil, nil, ""
	n.N, n.Reverted = e.Seq, false
}

// applyUpkeep folds renewals and the way out.
func applyUpkeep(t target, n *Name, l *Lease, e *events.Event) string {
	switch d := e.Data.(type) {
	case *events.Renewed:
		n.applyRenewed(l, d)
		for _, o := range t.ownersOf(l) { // they are one lease in Vault (L26), which a renewal may make shorter
			if o == (owner{n.Name, l.No}) {
				continue
			}
			if other := t.edit(o.name); other != nil {
				if h := other.Lease(o.no); h != nil && h.State != Retired && h.State != Revoking {
					other.applyRenewed(h, d)
				}
			}
		}
		n.renewalTried(l)
	case *events.RenewFailed:
		l.Retry = d.Retry
		if d.Refused && n.Active == l.No {
			n.Successor = events.ReasonRefused
		}
		if d.Refused {
			l.Renewable = false
			l.Lost = l.State == HandingOver
		}
		n.renewalTried(l)
	case *events.Retired:
		return n.applyRetired(l, d)
	case *events.Expired:
		return n.applyExpired(t, l, d)
	case *events.Changed:
		if n.Active == l.No {
			n.Successor = events.ReasonChanged
		}
	case *events.Revoking:
		if l.State != Retired && l.State != Revoking {
			return "only a retired lease may be revoked, the lease is " + l.State.String() // L25, I4
		}
		l.State, l.Retry = Revoking, events.Retry{}
	case *events.RevokeFailed:
		l.Retry = d.Retry
	case *events.Revoked:
		if d.Shared && l.State == Retired {
			return n.letGo(t, l)
		}
		if l.State != Revoking {
			return "its revocation was not intended, the lease is " + l.State.String()
		}
		n.close(t, l)
	default:
		return "this release does not know how to apply it"
	}
	return ""
}

func (n *Name) applyRenewed(l *Lease, d *events.Renewed) {
	l.GrantedAt, l.TTL, l.Renewable, l.Short = d.SentAt, d.TTL.Duration(), d.Renewable, d.Short
	l.Retry = events.Retry{}
	if d.GuardTTL.Sign() > 0 && l.Guard != "" {
		l.GuardAt, l.GuardTTL = d.SentAt, d.GuardTTL.Duration()
	}
	if d.Short && n.Active == l.No {
		n.Successor = events.ReasonShortGrant
	}
}

func (n *Name) applyRetired(l *Lease, d *events.Retired) string {
	switch l.State {
	case Active:
		if d.Reason == events.RetiredByHand {
			n.Successor = events.ReasonRevokedByHand
		}
	case Acquired:
		if d.Reason == events.RetiredUnchanged {
			n.Successor = ""
		}
	case Grace, Kept:
	case HandingOver, RollingBack:
		if d.Reason != events.RetiredShutdown {
			return "a lease that is " + l.State.String() + " can't be retired"
		}
		n.Handover = nil
	default:
		return "a lease that is " + l.State.String() + " can't be retired"
	}
	n.retire(l)
	return ""
}

// joinOwner has a lease that was adopted under a lease id which another one of
// ours has too live as long as that one, and hang on its guard: they are one
// lease in Vault (L26), of which we know more than who had it adopted.
func joinOwner(t target, l *Lease) {
	for _, o := range t.ownersOf(l) {
		other := t.Name(o.name)
		if other == nil {
			continue
		}
		if h := other.Lease(o.no); h != nil && h != l && h.State != Retired {
			l.AcquiredAt, l.GrantedAt, l.TTL, l.Renewable, l.Short = h.AcquiredAt, h.GrantedAt, h.TTL, h.Renewable, h.Short
			l.Guard, l.GuardAt, l.GuardTTL, l.GuardExtended = h.Guard, h.GuardAt, h.GuardTTL, h.GuardExtended
			return
		}
	}
}

// letGo closes a lease whose lease id lives on under another one of ours; that
// one inherits the guard, which the lease hangs on in Vault.
func (n *Name) letGo(t target, l *Lease) string {
	heir := sharer(t, n.Name, l)
	if heir == nil {
		return "nobody else has its lease id"
	}
	if o := t.edit(heir.name); o != nil {
		if h := o.Lease(heir.no); h != nil && h.Guard == "" {
			h.Guard, h.GuardAt, h.GuardTTL, h.GuardExtended = l.Guard, l.GuardAt, l.GuardTTL, l.GuardExtended
		}
	}
	n.close(t, l)
	return ""
}

func (n *Name) applyExpired(t target, l *Lease, d *events.Expired) string {
	switch l.State {
	case Active:
		n.Successor = events.ReasonExpired
	case Acquired, Grace, Kept:
	default:
		return "a lease that is " + l.State.String() + " can't expire"
	}
	if d.Retry.Attempt > 0 {
		n.postpone(l, events.Failure{Kind: "expired", Message: "the lease was gone before it was handed over"}, d.Retry)
	}
	if d.By == events.ExpiredByVault {
		n.close(t, l)
		return ""
	}
	n.retire(l)
	return ""
}

// renewalTried notes, for a candidate that waits for the active lease's
// renewal before its hand-over, that it was tried.
func (n *Name) renewalTried(l *Lease) {
	if n.Active != l.No {
		return
	}
	if c := n.Lease(n.Candidate); c != nil {
		c.ActiveRenewed = true
	}
}
