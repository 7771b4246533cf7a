package leasecore

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/leasesvc/leasesvc/events"
)

// Decide turns a command into events and applies them to the draft. An error
// says why the command was refused; then there are no events and the draft is
// as it was. A command that has no effect any more gives neither.
func Decide(d *Draft, at At, c Command) ([]events.Event, error) {
	w := &decision{Draft: d, at: at}
	if at.Draining && begins(c) {
		return nil, ErrLeaving // L1
	}
	if err := w.decide(c); err != nil {
		return nil, err
	}
	if w.broken != nil {
		return nil, w.broken
	}
	return w.out, nil
}

// begins tells whether a command's whole point is to begin something.
func begins(c Command) bool {
	switch c.(type) {
	case Rotate, Reported, Adopt, Reissue, UpdateDocument, RejectDocument, Finalize:
		return true
	default:
		return false
	}
}

// decision is one command being decided.
type decision struct {
	*Draft
	at     At
	out    []events.Event
	broken error
}

// emit adds an event and applies it, so that what is decided next sees it.
func (w *decision) emit(name string, lease uint64, data events.Data) {
	if w.broken != nil {
		return
	}
	version := w.h.Formats.Of(data.EventType())
	if version == 0 {
		w.broken = fmt.Errorf("%w: deciding: a %s may not be written before the format is raised", ErrDefect, data.EventType())
		return
	}
	rehearse(data)
	e := events.Event{
		ID:    w.at.ID + "." + strconv.Itoa(len(w.out)),
		Scope: w.h.Scope, Name: name, Lease: lease, Epoch: w.h.Epoch,
		Time: w.at.Now.UTC(), Cause: w.at.Cause, Actor: w.at.Actor,
		// What the version does not have is not in the log, and so must not be in
		// the state either.
		Data: events.Fit(data, version), Version: version,
	}
	if err := apply(w.Draft, &e); err != nil {
		w.broken = fmt.Errorf("%w: deciding: %w", ErrDefect, err)
		return
	}
	w.out = append(w.out, e)
}

func (w *decision) decide(c Command) error {
	switch c := c.(type) {
	case Tick:
		w.settle(c.Name)
	case ApplyDefinitions:
		return w.applyDefinitions(c)
	case AcquireDone:
		return w.acquireDone(c)
	case ExtendDone:
		return w.extendDone(c)
	case VerifyDone:
		return w.verifyDone(c)
	case Answered:
		return w.answered(c)
	case RenewDone:
		return w.renewDone(c)
	case RevokeDone:
		return w.revokeDone(c)
	case Register:
		return w.register(c)
	case Leave:
		return w.leave(c)
	case Rotate:
		return w.rotate(c)
	case Reported:
		return w.reported(c)
	case RevokeActive:
		return w.revokeActive(c)
	case PollDone:
		return w.pollDone(c)
	case Adopt:
		return w.adopt(c)
	case Reissue:
		w.reissue()
	case Shutdown:
		w.shutdown()
	case UpdateDocument:
		return w.updateDocument(c)
	case RejectDocument:
		w.rejectDocument(c)
	case Finalize:
		if reads := events.Release(); len(reads.Above(w.h.Formats)) > 0 {
			w.emit(events.EpochName, 0, &events.Format{Versions: w.h.Formats.With(reads)})
		}
	case Release:
		w.emit(events.EpochName, 0, &events.Released{Holder: c.Holder, Shutdown: c.Shutdown})
	}
	return nil
}

func (w *decision) applyDefinitions(c ApplyDefinitions) error {
	switch {
	case c.Revision < w.h.Revision:
		return fmt.Errorf("%w: the file has %d, in force is %d; raise the file's revision", ErrRevision, c.Revision, w.h.Revision)
	case c.Revision == w.h.Revision && c.Digest != w.h.Digest:
		return fmt.Errorf("%w: revision %d; raise the file's revision with every change", ErrSameRevision, c.Revision)
	case c.Revision == w.h.Revision:
		return nil
	}
	for _, name := range w.sortedNames() {
		n := w.Name(name)
		if _, still := c.Definitions[name]; !still && n.Definition != nil {
			w.emit(name, 0, &events.Removed{Revision: c.Revision})
			w.settle(name)
		}
	}
	for _, name := range sortedKeys(c.Definitions) {
		def := c.Definitions[name]
		if n := w.Name(name); n != nil && n.Definition != nil && n.Definition.Equal(&def) {
			continue // untouched
		}
		w.emit(name, 0, &events.Applied{Revision: c.Revision, Definition: &def})
		if !c.Insecure {
			w.dropUnnamed(name, &def)
		}
		w.settle(name)
	}
	w.emit(events.DefinitionsName, 0, &events.Applied{Revision: c.Revision, Digest: c.Digest})
	return nil
}

// dropUnnamed has the incarnations leave whose consumer the definition does not
// name any more: they could not register again, and would be waited for.
func (w *decision) dropUnnamed(name string, def *events.Definition) {
	for _, in := range slices.Clone(w.Name(name).Consumers) {
		if !names(def, in.Consumer, in.Key) {
			w.emit(name, 0, &events.Left{Incarnation: in.ID, Reason: events.LeftUnnamed})
		}
	}
}

// names tells whether a definition names a consumer with this key.
func names(def *events.Definition, consumer, key string) bool {
	return slices.ContainsFunc(def.Consumers, func(k events.Consumer) bool { return k.Name == consumer && k.Key == key && key != "" })
}

// lease finds what an outcome is about, in the state it must be in for the
// outcome to mean anything. Otherwise the outcome is late (L5): no effect.
func (w *decision) lease(name string, no uint64, states ...LeaseState) (*Name, *Lease, error) {
	n := w.Name(name)
	if n == nil {
		return nil, nil, fmt.Errorf("%s: %w", name, ErrStale)
	}
	l := n.Lease(no)
	if l == nil || !slices.Contains(states, l.State) {
		return nil, nil, fmt.Errorf("%s, lease %d: %w", name, no, ErrStale)
	}
	return n, l, nil
}

func (w *decision) acquireDone(c AcquireDone) error {
	n, l, err := w.lease(c.Name, c.Lease, Requested)
	if err != nil {
		return err
	}
	if c.Err == nil {
		f := Stage(n.Definition, c.Grant)
		if f == nil && w.beingRevoked(l.Vault, c.Grant.LeaseID) {
			f = &events.Failure{Kind: "malformed", Message: "Vault gave a lease id that is being revoked"} // L11
		}
		if f != nil {
			c.Err, c.Keys = &Failed{Failure: *f}, c.Grant.Keys
			c.LeaseID, c.Guard = c.Grant.LeaseID, c.Grant.Guard
		}
	}
	if c.Err != nil {
		w.emit(c.Name, c.Lease, &events.AcquireFailed{
			Failure: c.Err.Failure, Keys: c.Keys, LeaseID: c.LeaseID, Guard: c.Guard, NotSent: c.Err.NotSent,
			Retry: retryAfter(n.attempts(), w.at.Now, c.Err.RetryAfter),
		})
	} else {
		grant := *c.Grant
		clampGrant(n.Definition, &grant)
		w.emit(c.Name, c.Lease, &grant)
	}
	w.settle(c.Name)
	return nil
}

// reissuable tells whether there is a lease to ask a successor for, and none is
// on its way.
func (n *Name) reissuable() bool {
	return n.Definition != nil && n.Active != 0 && n.Candidate == 0 && n.Handover == nil
}

// PassedOver gives, in the order of the names, those that a [Reissue] at this
// time asks no successor for though they have an active lease, each with why.
func (s *State) PassedOver(now time.Time) []string {
	var out []string
	w := &decision{Draft: NewDraft(s), at: At{Now: now}}
	for _, name := range s.SortedNames() {
		if n := s.names[name]; n.reissuable() {
			if why := w.mayAcquire(n, events.ReasonReissue, false); why != "" {
				out = append(out, name+": "+why)
			}
		}
	}
	return out
}

// beingRevoked tells whether a lease of ours under a lease id is being revoked:
// what is staged under it would be dead as soon as the call lands.
func (w *decision) beingRevoked(vault, id string) bool {
	if id == "" {
		return false
	}
	for _, o := range w.ownersOf(&Lease{Vault: vault, LeaseID: id}) {
		if n := w.Name(o.name); n != nil {
			if l := n.Lease(o.no); l != nil && l.State == Revoking {
				return true
			}
		}
	}
	return false
}

// KindMissingKeys is the kind of failure of a credential that lacks a key.
const KindMissingKeys = "missing-keys"

// Stage checks that a grant has every key that its definition needs (L10); nil:
// it has.
func Stage(def *events.Definition, g *events.Acquired) *events.Failure {
	if def == nil {
		return nil // the candidate is retired next
	}
	var missing []string
	for _, k := range def.Keys() {
		if !slices.Contains(g.Keys, k) {
			missing = append(missing, k)
		}
	}
	if missing == nil && def.Kind == events.KindPKI && g.TTL.Sign() <= 0 {
		return &events.Failure{Kind: "malformed", Message: "the certificate has expired already: check the clocks, and the ttl of the definition's params and of the path's role in Vault"}
	}
	if missing == nil {
		return nil
	}
	return &events.Failure{Kind: KindMissingKeys, Message: fmt.Sprintf(
		"a %s credential needs %v; %v came: check the definition's kind and require, and the path's role in Vault", def.Kind, missing, g.Keys)}
}

// clampGrant replaces a duration that makes no sense (L9).
func clampGrant(def *events.Definition, g *events.Acquired) {
	came := g.TTL
	if g.LeaseID == "" && (def == nil || !def.Makes()) { // it does not expire for readers, it is polled (L38)
		g.TTL = events.Seconds{}
		if def != nil && def.MakesAccounts() && g.Suspect == "" { // C17
			g.Suspect = fmt.Sprintf("Vault gave no lease with an account; it is never renewed or revoked, and read again after fallback_ttl of %s s", def.FallbackTTL)
		}
		return
	}
	if came.Sign() > 0 {
		return
	}
	g.TTL = events.Seconds{}
	if def == nil {
		return
	}
	g.TTL = def.FallbackTTL
	if g.Suspect == "" {
		g.Suspect = fmt.Sprintf("Vault granted a lease for %s s; fallback_ttl of %s s counts", came, def.FallbackTTL)
	}
}

// attempts gives how many acquisitions in a row have failed for the path and
// connection that are in force (L4, L35).
func (n *Name) attempts() int {
	if n.Pending == nil || n.Definition == nil || n.Pending.Vault != n.Definition.Vault || n.Pending.Path != n.Definition.Path {
		return 0
	}
	return n.Pending.Attempt
}

func (w *decision) extendDone(c ExtendDone) error {
	n, l, err := w.lease(c.Name, c.Lease, Acquired)
	if err != nil {
		return err
	}
	switch {
	case c.Err == nil:
		w.emit(c.Name, c.Lease, &events.GuardExtended{Granted: c.Granted, SentAt: c.SentAt, Warnings: c.Warnings})
	case c.Err.Gone:
		w.emit(c.Name, c.Lease, &events.Expired{By: events.ExpiredByVault, Retry: retryAfter(n.attempts(), w.at.Now, c.Err.RetryAfter)})
	default:
		end, _ := l.Expires()
		w.emit(c.Name, c.Lease, &events.RenewFailed{Failure: c.Err.Failure, Retry: retryWithin(l.Retry.Attempt, w.at.Now, end, c.Err.RetryAfter)})
	}
	w.settle(c.Name)
	return nil
}

func (w *decision) verifyDone(c VerifyDone) error {
	n, _, err := w.lease(c.Name, c.Lease, Acquired)
	if err != nil {
		return err
	}
	if c.Err == nil {
		w.emit(c.Name, c.Lease, &events.Verified{Verifier: c.Verifier, Took: c.Took})
	} else {
		w.emit(c.Name, c.Lease, &events.VerifyFailed{Failure: c.Err.Failure, Retry: retryAfter(n.attempts(), w.at.Now, c.Err.RetryAfter)})
	}
	w.settle(c.Name)
	return nil
}

func (w *decision) answered(c Answered) error {
	n := w.Name(c.Name)
	if n == nil || n.Handover == nil || n.Handover.RollingBack || n.Handover.N != c.N || n.Incarnation(c.Incarnation) == nil {
		return fmt.Errorf("%s, answer to %d by %s: %w", c.Name, c.N, c.Incarnation, ErrStale) // P8
	}
	if _, already := n.Handover.Answers[c.Incarnation]; already {
		return nil
	}
	w.emit(c.Name, n.Handover.Lease, &events.Prepared{Incarnation: c.Incarnation, N: c.N, Yes: c.Yes, Reason: c.Reason})
	w.settle(c.Name)
	return nil
}

func (w *decision) renewDone(c RenewDone) error {
	n, l, err := w.lease(c.Name, c.Lease, Acquired, HandingOver, RollingBack, Active, Grace, Kept)
	if err != nil {
		return err
	}
	inHandover := l.State == HandingOver || l.State == RollingBack
	if c.Err == nil && c.Renewed.TTL.Sign() <= 0 {
		c.Err = &Failed{Refused: true, Failure: events.Failure{ // L31
			Kind: "malformed", Message: fmt.Sprintf("Vault renewed the lease for %s s", c.Renewed.TTL),
		}}
	}
	switch {
	case c.Err == nil:
		renewed := *c.Renewed
		// L37: we ask for what we had; and a guard that ends before its lease
		// would fall short of the next renewal.
		renewed.Short = renewed.TTL.Duration() < l.TTL && !c.BoundByToken || renewed.GuardTTL.Sign() > 0 && renewed.GuardTTL.Cmp(renewed.TTL) < 0
		active := l.State == Active
		w.emit(c.Name, c.Lease, &renewed)
		if n := w.Name(c.Name); c.Anew && active && !w.at.Draining && n.Definition != nil && n.Candidate == 0 && n.Handover == nil {
			w.request(n, events.ReasonAnew)
		}
	case c.Err.Gone && !inHandover:
		gone := &events.Expired{By: events.ExpiredByVault}
		if l.State == Acquired {
			gone.Retry = retryAfter(n.attempts(), w.at.Now, c.Err.RetryAfter)
		}
		w.emit(c.Name, c.Lease, gone)
	default:
		end, _ := l.Expires()
		w.emit(c.Name, c.Lease, &events.RenewFailed{
			Failure: c.Err.Failure, Refused: c.Err.Refused || c.Err.Gone,
			Retry: retryWithin(l.Retry.Attempt, w.at.Now, end, c.Err.RetryAfter),
		})
	}
	w.settle(c.Name)
	return nil
}

func (w *decision) revokeDone(c RevokeDone) error {
	_, l, err := w.lease(c.Name, c.Lease, Revoking)
	if err != nil {
		return err
	}
	if c.Err == nil {
		w.emit(c.Name, c.Lease, &events.Revoked{Gone: c.Gone})
	} else {
		w.emit(c.Name, c.Lease, &events.RevokeFailed{Failure: c.Err.Failure, Retry: retryAfter(l.Retry.Attempt, w.at.Now, c.Err.RetryAfter)})
	}
	w.settle(c.Name)
	return nil
}

func (w *decision) register(c Register) error {
	n := w.Name(c.Name)
	if n == nil || n.Definition == nil {
		return fmt.Errorf("%s: %w", c.Name, ErrUnknownName)
	}
	r := c.Registration
	if !c.Insecure && !names(n.Definition, r.Consumer, r.Key) {
		return fmt.Errorf("%s, consumer %s: %w", c.Name, r.Consumer, ErrNotAConsumer)
	}
	if now := n.instance(r.Consumer, r.Instance); now != nil {
		switch {
		case now.ID == r.Incarnation:
			return nil // repeated: answered from the fold
		case now.ID != r.Replaces || r.Incarnation < now.ID:
			return &MismatchError{Registered: now.ID}
		}
	} else {
		r.Replaces = ""
	}
	w.emit(c.Name, 0, &r)
	w.settle(c.Name)
	return nil
}

func (w *decision) leave(c Leave) error {
	n := w.Name(c.Name)
	if n == nil || n.Incarnation(c.Incarnation) == nil {
		return nil
	}
	w.emit(c.Name, 0, &events.Left{Incarnation: c.Incarnation, Reason: c.Reason})
	w.settle(c.Name)
	return nil
}

func (w *decision) rotate(c Rotate) error {
	n := w.Name(c.Name)
	if n == nil || n.Definition == nil {
		return fmt.Errorf("%s: %w", c.Name, ErrUnknownName)
	}
	if n.Candidate != 0 {
		return fmt.Errorf("%s: %w: lease %d is on its way already", c.Name, ErrBusy, n.Candidate)
	}
	if why := w.mayAcquire(n, events.ReasonRotate, false); why != "" {
		return fmt.Errorf("%s: %w: %s", c.Name, ErrWaiting, why)
	}
	w.request(n, events.ReasonRotate)
	w.settle(c.Name)
	return nil
}

// reported has a successor asked for, unless one is on its way (C58).
func (w *decision) reported(c Reported) error {
	n := w.Name(c.Name)
	switch {
	case n == nil || n.Definition == nil:
		return fmt.Errorf("%s: %w", c.Name, ErrUnknownName)
	case c.Lease == 0 || n.Active != c.Lease:
		return fmt.Errorf("%s: %w: lease %d is not the active one", c.Name, ErrStale, c.Lease)
	case n.Candidate != 0 || n.Handover != nil || n.Successor == events.ReasonReported:
		return nil
	}
	if next := n.ReportedAt.Add(ReportCooldown); w.at.Now.Before(next) {
		return fmt.Errorf("%s: %w: it was asked for anew after a report at %s already, the next time is %s", c.Name, ErrWaiting,
			n.ReportedAt.UTC().Format(time.RFC3339), next.UTC().Format(time.RFC3339))
	}
	if why := w.mayAcquire(n, events.ReasonReported, false); why != "" {
		return fmt.Errorf("%s: %w: %s", c.Name, ErrWaiting, why)
	}
	w.request(n, events.ReasonReported)
	w.settle(c.Name)
	return nil
}

func (w *decision) pollDone(c PollDone) error {
	_, l, err := w.lease(c.Name, c.Lease, Active)
	if err != nil {
		return err
	}
	if l.Fingerprint == c.Fingerprint {
		return nil // L38: nothing happens
	}
	w.emit(c.Name, c.Lease, &events.Changed{Fingerprint: c.Fingerprint})
	w.settle(c.Name)
	return nil
}

func (w *decision) adopt(c Adopt) error {
	n := w.Name(c.Name)
	switch {
	case n == nil || n.Definition == nil:
		return fmt.Errorf("%s: %w", c.Name, ErrUnknownName)
	case n.Candidate != 0 || n.Handover != nil:
		return fmt.Errorf("%s: %w", c.Name, ErrBusy)
	case c.Lease <= w.h.LastLease:
		return fmt.Errorf("%s: %w: %d", c.Name, ErrNumber, c.Lease)
	case c.Adopted.Vault != n.Definition.Vault:
		return fmt.Errorf("%s: %w: it was obtained by connection %s, the definition has %s", c.Name, ErrUnfit, c.Adopted.Vault, n.Definition.Vault)
	case w.beingRevoked(n.Definition.Vault, c.Adopted.LeaseID):
		return fmt.Errorf("%s: %w: its lease id is being revoked", c.Name, ErrUnfit) // L11
	}
	if f := Stage(n.Definition, &c.Adopted.Acquired); f != nil {
		return fmt.Errorf("%s: %w: %s", c.Name, ErrUnfit, f.Message)
	}
	adopted := c.Adopted
	adopted.Path = n.Definition.Path
	clampGrant(n.Definition, &adopted.Acquired)
	w.emit(c.Name, c.Lease, &adopted)
	w.settle(c.Name)
	return nil
}

// reissue requests successors wherever one may be requested now.
func (w *decision) reissue() {
	for _, name := range w.sortedNames() {
		n := w.Name(name)
		if !n.reissuable() || w.mayAcquire(n, events.ReasonReissue, false) != "" || w.at.Draining {
			continue
		}
		w.request(n, events.ReasonReissue)
		w.settle(name)
	}
}

// shutdown retires all that is owned and ignores every back-off. What is only
// intended is left to its guard, or to its outcome.
func (w *decision) shutdown() {
	for _, name := range w.sortedNames() {
		for _, l := range slices.Clone(w.Name(name).Leases) {
			switch l.State {
			case Requested, Retired:
			case Revoking:
				w.emit(name, l.No, &events.Revoking{}) // once more, without its back-off
			default:
				w.emit(name, l.No, &events.Retired{Reason: events.RetiredShutdown})
			}
		}
		w.settle(name)
	}
}

func (w *decision) revokeActive(c RevokeActive) error {
	n := w.Name(c.Name)
	if n == nil {
		return fmt.Errorf("%s: %w", c.Name, ErrUnknownName)
	}
	if n.Active == 0 {
		return fmt.Errorf("%s: %w", c.Name, ErrNoActive)
	}
	w.emit(c.Name, n.Active, &events.Retired{Reason: events.RetiredByHand})
	w.settle(c.Name)
	return nil
}
