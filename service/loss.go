package service

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasesvc/leasesvc/epochkv"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/snapshot"
)

// LossError says that a scope's log does not have what is known to have been in
// it, or the bucket of epochs not what the log knows: one of them was lost, or an
// older one was restored. Such a scope is not led until an operator decides
// (leasesvc recover).
type LossError struct {
	Scope string
	// Epoch is the highest, and Seq the highest sequence, that is known of.
	Epoch, Seq uint64
	// Found says what is missing, for people.
	Found []string
}

// Error implements error.
func (e *LossError) Error() string {
	return fmt.Sprintf("scope %s: something was lost, or restored from an older backup: %s; nobody leads it until an operator decides: run leasesvc recover",
		e.Scope, strings.Join(e.Found, "; "))
}

func (e *LossError) add(format string, args ...any) {
	e.Found = append(e.Found, fmt.Sprintf(format, args...))
}

// logReader is what the examination reads of the log.
type logReader interface {
	LastOpened(ctx context.Context, scope string) (*journal.Opened, error)
	At(ctx context.Context, scope string, seq uint64) (*journal.Message, error)
	Created() time.Time
}

// scopeEcho is what a holder's heartbeat says of a scope that it leads, or led
// last.
type scopeEcho struct {
	Epoch   uint64 `json:"epoch"`
	LastSeq uint64 `json:"last_seq"`
	Names   int    `json:"names"`
}

// echoed gives what the last holder of a scope said of it.
func echoed(v epochkv.View) (scopeEcho, bool) {
	if v.Holder == nil {
		return scopeEcho{}, false
	}
	var said struct {
		Scopes map[string]scopeEcho `json:"scopes"`
	}
	if json.Unmarshal(v.Holder.Echo, &said) != nil {
		return scopeEcho{}, false
	}
	e, ok := said.Scopes[v.Scope]
	return e, ok && e.LastSeq > 0
}

// examineLog holds a scope's log to what else is known: its cell, what its last
// holder said in its heartbeat, and the sealed values. nil: nothing contradicts
// it. keys are our seal keys, trusted up to where the MACs don't matter.
func examineLog(ctx context.Context, log logReader, v epochkv.View, sealed store, keys *handover.Keyring, trusted uint64) (*LossError, error) {
	loss := &LossError{Scope: v.Scope}
	last, err := log.LastOpened(ctx, v.Scope)
	if err != nil && !errors.Is(err, events.ErrEvent) {
		return nil, err
	}
	epoch := uint64(0)
	if last != nil {
		epoch, loss.Seq = last.Event.Epoch, last.Seq
		if d := last.Data(); d != nil && d.SealKey != "" && !keys.Has(d.SealKey) && last.Seq > trusted {
			loss.add("the last epoch was opened under the seal key %s, and this instance has %s: give every instance the scope's seal key (seal_key.previous takes further ones); only where it is lost for good, decide to go on without the values", d.SealKey, strings.Join(keys.IDs(), ", "))
		}
	}
	loss.Epoch = max(epoch, v.Revision)
	if v.Cell != nil && v.Cell.Released && v.Cell.Epoch > epoch {
		loss.add("epoch %d was given back by %s, and the last epoch in the log is %d", v.Cell.Epoch, v.Cell.Holder, epoch)
	}
	// Who opened a later epoch than that has seen to it already.
	if e, ok := echoed(v); ok && e.Epoch >= epoch {
		loss.Epoch, loss.Seq = max(loss.Epoch, e.Epoch), max(loss.Seq, e.LastSeq)
		m, err := log.At(ctx, v.Scope, e.LastSeq)
		if err != nil {
			return nil, err
		}
		if why := notThere(m, e); why != "" {
			loss.add("holder %s led epoch %d and had the log up to sequence %d; %s", v.Holder.Holder, e.Epoch, e.LastSeq, why)
		}
	}
	if epoch > 0 && v.Cell == nil {
		loss.add("the log is in epoch %d, and the bucket of epochs has no cell of the scope: the bucket was recreated or restored", epoch)
	}
	switch n := len(sealed.leases); {
	case epoch == 0 && n > 0:
		loss.add("the values of %s are in the store (%s), and the log of the scope is empty", events.Counted(n, "lease"), strings.Join(blobNames(sealed.leases), ", "))
	case epoch > 0 && !sealed.probed:
		loss.add("the log is in epoch %d, and the bucket of sealed values has nothing of the scope: it was deleted, recreated or restored, and the values are gone", epoch)
	}
	if len(loss.Found) == 0 {
		return nil, nil
	}
	return loss, nil
}

// notThere tells why the event at a sequence is not the one that was echoed.
func notThere(m *journal.Message, e scopeEcho) string {
	if m == nil {
		return "the log has no event of the scope there"
	}
	got, err := events.Decode(m.Payload, m.Seq)
	switch {
	case err != nil:
		return "" // of a later release, or somebody else's: the fold judges it
	case got.Epoch != e.Epoch:
		return fmt.Sprintf("the log has an event of epoch %d there", got.Epoch)
	default:
		return ""
	}
}

// shownBlobs bounds how many leases are named in a message.
const shownBlobs = 20

// blobNames names sealed values by name and lease.
func blobNames(sealed []handover.Blob) []string {
	var out []string
	for _, b := range sealed {
		out = append(out, b.Name+"/"+strconv.FormatUint(b.Lease, 10))
	}
	slices.Sort(out)
	if len(out) > shownBlobs {
		out = append(out[:shownBlobs], fmt.Sprintf("and %d more", len(out)-shownBlobs))
	}
	return out
}

// awaitExamined examines the logs as soon as they can be read. The error is ctx's.
func (s *Service) awaitExamined(ctx context.Context) error {
	for {
		err := s.examineLogs(ctx)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		s.log.Warn("waiting for the logs to be examined", "error", err)
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

// examineLogs holds every scope's log to what else is known of it, before this
// instance says anything about them itself.
func (s *Service) examineLogs(ctx context.Context) error {
	for name, sc := range s.scopes {
		view, err := s.cells.Look(ctx, name)
		if err != nil {
			return fmt.Errorf("examining the log of scope %s: %w", name, err)
		}
		if e, ok := echoed(view); ok && view.Cell != nil && view.Cell.Holder == s.cells.HolderID() {
			sc.said = e
		}
		sealed, err := storeOf(ctx, s.blobs, name)
		if err != nil {
			return fmt.Errorf("examining the log of scope %s: %w", name, err)
		}
		keys, err := s.loadKeys(ctx, name)
		if err != nil {
			return fmt.Errorf("examining the log of scope %s: %w", name, err)
		}
		sc.keys.Store(keys)
		if sc.trusted, err = s.trusted(ctx, name); err != nil {
			return fmt.Errorf("examining the log of scope %s: %w", name, err)
		}
		sc.follower.ring(keys, sc.trusted)
		if sc.loss, err = examineLog(ctx, s.journal, view, sealed, s.keys, sc.trusted); err != nil {
			return fmt.Errorf("examining the log of scope %s: %w", name, err)
		}
		sc.known = max(view.Revision, sc.said.Epoch)
		if sc.loss == nil {
			if sc.recovered, err = s.pendingDecision(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// trusted gives up to where a scope's log counts without its MACs.
func (s *Service) trusted(ctx context.Context, scope string) (uint64, error) {
	r, err := s.cells.Recovery(ctx, scope)
	if err != nil || r == nil || r.Trusted == 0 || !r.StreamCreated.Equal(s.journal.Created()) {
		return 0, err
	}
	if !s.scopes[scope].keys.Load().proves(r) {
		s.log.Error("a decision to trust the log without its MACs does not hold, and is ignored", "scope", scope)
		return 0, nil
	}
	return r.Trusted, nil
}

// proves tells whether who decided to trust a log had one of the seal keys.
func (k *scopeKeys) proves(r *epochkv.Recovery) bool {
	return slices.ContainsFunc(k.macKeys(), func(key []byte) bool { return r.Proof == proofOf(key, r) })
}

// proofOf proves that who decided to trust a log has the seal key.
func proofOf(macKey []byte, r *epochkv.Recovery) string {
	h := hmac.New(sha256.New, macKey)
	fmt.Fprintf(h, "leasesvc recovery v1\n%s\n%s\n%d", r.Scope, r.StreamCreated.UTC().Format(time.RFC3339Nano), r.Trusted)
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// pendingDecision gives what an operator decided about a scope that was not led
// since: the bucket of epochs was made anew, say. nil: nothing was.
func (s *Service) pendingDecision(ctx context.Context, scope string) (*epochkv.Recovery, error) {
	r, err := s.cells.Recovery(ctx, scope)
	if err != nil || r == nil {
		return nil, err
	}
	last, err := s.journal.LastOpened(ctx, scope)
	if err != nil && !errors.Is(err, events.ErrEvent) {
		return nil, err
	}
	epoch := uint64(0)
	if last != nil {
		epoch = last.Event.Epoch
	}
	if !r.Covers(s.journal.Created(), epoch) {
		return nil, nil
	}
	return r, nil
}

// store is what there is of a scope in the bucket of sealed values: those of
// leases, and whether its probe is there, which the first who claimed it put there.
type store struct {
	leases []handover.Blob
	probed bool
}

func storeOf(ctx context.Context, blobs *handover.Blobs, scope string) (s store, err error) {
	if s.leases, err = blobs.List(ctx, scope); err != nil {
		return s, err
	}
	s.leases = leasesOnly(s.leases)
	s.probed, err = blobs.Probed(ctx, scope)
	return s, err
}

func leasesOnly(all []handover.Blob) []handover.Blob {
	return slices.DeleteFunc(all, func(b handover.Blob) bool { return strings.HasPrefix(b.Name, "_") })
}

// lossOf gives what keeps the scope from being led: what the examination found, or
// a snapshot that knows more than the log.
func (sc *scope) lossOf(stopped error) *LossError {
	var lost *snapshot.LostError
	switch {
	case !errors.As(stopped, &lost):
		return sc.loss
	case sc.loss == nil:
		return &LossError{Scope: sc.name, Epoch: sc.known, Seq: lost.Seq, Found: []string{lost.Error()}}
	default:
		both := *sc.loss
		both.Seq, both.Found = max(both.Seq, lost.Seq), append(slices.Clone(both.Found), lost.Error())
		return &both
	}
}

// heedDecision looks whether an operator decided to go on in spite of a loss; then
// the log is followed from its beginning, whatever is known beside it. Otherwise
// it gives the loss.
func (sc *scope) heedDecision(ctx context.Context, loss *LossError) error {
	r, err := sc.svc.cells.Recovery(ctx, sc.name)
	if err != nil {
		return err
	}
	if !r.Covers(sc.svc.journal.Created(), loss.Epoch) {
		return loss
	}
	if sc.trusted, err = sc.svc.trusted(ctx, sc.name); err != nil {
		return err
	}
	sc.log.Warn("going on with a log that lost something, as an operator decided", "found", strings.Join(r.Found, "; "), "decided", r.At)
	sc.mu.Lock()
	sc.saved = nil
	sc.mu.Unlock()
	if err := sc.follower.giveBack(ctx, sc); err != nil {
		return err
	}
	sc.loss, sc.recovered = nil, r
	return nil
}
