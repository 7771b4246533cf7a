package audit

import (
	"errors"
	"fmt"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
)

// scope is the audit of one scope's log.
type scope struct {
	a     *Auditor
	name  string
	links *links
	state *leasecore.State

	looking uint64 // the sequence being looked at
	lastSeq uint64 // of the last event that counted
	lastAt  time.Time
	events  uint64
	types   map[events.Type]uint64
	epochs  uint64
	begun   uint64 // leases that were requested or adopted
	closed  uint64
	// muted are the names whose story can't be followed any more.
	muted map[string]bool
	// anchors has the MACs that an earlier audit saw, by sequence.
	anchors map[uint64]string
}

func newScope(a *Auditor, name string) *scope {
	s := &scope{a: a, name: name, state: leasecore.NewState(name), types: map[events.Type]uint64{}, muted: map[string]bool{}, anchors: map[uint64]string{}}
	s.links = newLinks(s, a.opts.Keys)
	for _, h := range a.opts.Anchors {
		if h.Scope == name {
			s.anchors[h.Seq] = h.MAC
		}
	}
	return s
}

func (s *scope) find(f Finding) *Finding {
	f.Scope = s.name
	return s.a.find(f)
}

// mute stops following a name's story: what comes after a finding about it would
// only follow from that.
func (s *scope) mute(name string) { s.muted[name] = true }

func (s *scope) look(m Message) {
	s.looking = m.Seq
	defer s.anchored(m)
	e, err := events.Decode(m.Payload, m.Seq)
	var future *events.FutureError
	switch {
	case errors.As(err, &future):
		s.future(future, m)
		return
	case err != nil:
		s.find(Finding{Seq: m.Seq, Kind: Foreign, Says: "somebody else's message: " + err.Error()})
		return
	}
	if why := misfiled(&e, m.Subject); why != "" {
		s.find(about(&e, Envelope, "", "%s", why))
		if e.Scope != s.name {
			return
		}
	}
	if !s.links.admit(&e, m.Payload) || !s.inForce(&e) {
		return
	}
	s.count(&e)
	s.rules(&e)
	s.fold(&e)
}

func (s *scope) count(e *events.Event) {
	s.events++
	s.types[e.Type()]++
	s.lastSeq, s.lastAt = e.Seq, e.Time
	if d, ok := e.Data.(*events.Opened); ok && d.How != events.HowReopened {
		s.epochs++
	}
	if t := e.Type(); t == events.TypeRequested || t == events.TypeAdopted {
		s.begun++
	}
}

// anchored compares with what an earlier audit saw here.
func (s *scope) anchored(m Message) {
	want, ok := s.anchors[m.Seq]
	if !ok {
		return
	}
	delete(s.anchors, m.Seq)
	if got := linkOf(m.Payload).MAC; got != want {
		s.find(Finding{Seq: m.Seq, Kind: Truncated, Says: "an earlier audit saw another event here: the log was replaced by another, or cut off and written on"})
	}
}

// future judges an event of a later release: only who has the key wrote one.
func (s *scope) future(future *events.FutureError, m Message) {
	chain := s.links.chain
	if _, err := chain.Admit(m.Payload, m.Seq); errors.Is(err, events.ErrForged) || linkOf(m.Payload).MAC == "" {
		s.find(Finding{Seq: m.Seq, Kind: Forged, Type: future.Type, Says: fmt.Sprintf("an event (%s, version %d) of no release that this one knows, whose MAC does not hold: somebody wrote it without the key", future.Type, future.Version)})
		return
	}
	s.find(Finding{Seq: m.Seq, Kind: Future, Type: future.Type, Says: future.Error()})
	s.links.skip(future.Type, m.Payload)
	if _, name, _, err := events.ParseSubject(m.Subject); err == nil {
		s.mute(name)
	}
	s.lastSeq = m.Seq
}

// misfiled tells what contradicts the envelope; "": nothing does.
func misfiled(e *events.Event, subject string) string {
	ofScope := scopeTypes[e.Type()]
	switch {
	case e.Subject() != subject:
		return fmt.Sprintf("the %s says that it belongs under %s, and stands under %s", e.Type(), e.Subject(), subject)
	case ofScope != (e.Name == events.EpochName):
		return fmt.Sprintf("a %s of %s: events of the scope, and only they, are of %s", e.Type(), e.Name, events.EpochName)
	case leaseTypes[e.Type()] != (e.Lease > 0):
		return fmt.Sprintf("a %s of lease %d: events of a lease, and only they, have its number", e.Type(), e.Lease)
	case e.Epoch == 0 || e.Time.IsZero():
		return fmt.Sprintf("the %s has no epoch or no time", e.Type())
	default:
		return ""
	}
}

var (
	scopeTypes = set(events.TypeOpened, events.TypeReleased, events.TypePaused, events.TypeResumed, events.TypeFormat)
	leaseTypes = set(
		events.TypeRequested, events.TypeAcquired, events.TypeGuardExtended, events.TypeAcquireFailed, events.TypeVerified, events.TypeVerifyFailed,
		events.TypeHandoverStarted, events.TypePrepared, events.TypeInstalled, events.TypeRollbackStarted, events.TypeRolledBack, events.TypeRenewed,
		events.TypeRenewFailed, events.TypeRetired, events.TypeRevoking, events.TypeRevoked, events.TypeRevokeFailed, events.TypeExpired,
		events.TypeAdopted, events.TypeOrphaned, events.TypeChanged,
	)
)

func set(types ...events.Type) map[events.Type]bool {
	out := map[events.Type]bool{}
	for _, t := range types {
		out[t] = true
	}
	return out
}

// inForce tells whether an event is of the epoch in force (I1).
func (s *scope) inForce(e *events.Event) bool {
	h := &s.state.Head
	opened, ok := e.Data.(*events.Opened)
	switch {
	case !ok && e.Epoch == h.Epoch:
		return true
	case ok && (e.Epoch > h.Epoch || opened.How == events.HowReopened && e.Epoch == h.Epoch && opened.Holder == h.Holder):
		return true
	case ok:
		s.find(about(e, Epoch, "I1", "it opens epoch %d, in force is %d", e.Epoch, h.Epoch))
		return false
	case e.Epoch < h.Epoch:
		s.find(about(e, Epoch, "I1", "the %s of %s is of epoch %d, and epoch %d was opened before it", e.Type(), e.Name, e.Epoch, h.Epoch))
		return false
	default:
		s.find(about(e, Epoch, "I1", "the %s of %s is of epoch %d, whose opened is not in the log", e.Type(), e.Name, e.Epoch))
		// Go on in that epoch, so that it is said once.
		opening := events.Event{Seq: e.Seq, Scope: s.name, Name: events.EpochName, Epoch: e.Epoch, Time: e.Time, Data: &events.Opened{Holder: "?"}}
		_ = s.state.Apply(&opening) // an opened fits any state
		return true
	}
}

// fold applies an event to the state; one that does not fit is told once a name.
func (s *scope) fold(e *events.Event) {
	if s.muted[e.Name] {
		_ = s.state.Apply(e) // as far as it fits
		return
	}
	n := s.state.Name(e.Name)
	open := 0
	if n != nil {
		open = len(n.Leases)
	}
	err := s.state.Apply(e)
	var misfit *leasecore.InconsistentError
	var future *events.FutureError
	switch {
	case errors.As(err, &future):
		s.find(about(e, Future, "", "%s", future.Error()))
	case errors.As(err, &misfit):
		s.find(about(e, Story, "", "the %s of %s does not fit what the log says before it: %s", e.Type(), e.Name, misfit.Why))
		s.mute(e.Name)
	case n != nil && len(n.Leases) < open:
		s.closed++
	}
}
