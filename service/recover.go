package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasesvc/leasesvc/epochkv"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/projector"
	"github.com/leasesvc/leasesvc/service/config"
	"github.com/leasesvc/leasesvc/snapshot"
)

// Recoverer finds out what was lost, and records what an operator decides. It is
// for the command; it is no instance and leads nothing.
type Recoverer struct {
	cfg       *config.Config
	js        jetstream.JetStream
	keys      *handover.Keyring
	blobs     *handover.Blobs
	snapshots *snapshot.Store
}

// NewRecoverer prepares a recovery of what a service file names. The version is
// the program's, whose snapshots it can read.
func NewRecoverer(ctx context.Context, cfg *config.Config, nc *nats.Conn, version string) (*Recoverer, error) {
	keys, err := sealKeys(cfg)
	if err != nil {
		return nil, err
	}
	r := &Recoverer{cfg: cfg, keys: keys}
	if r.js, err = jetstream.New(nc); err != nil {
		return nil, err
	}
	if r.blobs, err = handover.OpenBlobs(ctx, r.js, handover.BlobsBucket, cfg.NATS.Replicas); err != nil {
		return nil, err
	}
	key, err := snapshotKey(r.keys, version)
	if err == nil {
		r.snapshots, err = snapshot.Open(ctx, r.js, snapshot.Bucket, cfg.NATS.Replicas, key, slog.New(slog.DiscardHandler))
	}
	if err != nil {
		r.snapshots = nil // they may know more; without them less is named
	}
	return r, nil
}

// openJournal opens the log as it is; nil: there is no stream.
func (r *Recoverer) openJournal(ctx context.Context) (*journal.Log, error) {
	log, err := journal.Open(ctx, r.js, journal.Config{Stream: r.cfg.NATS.Stream, ReadOnly: true})
	if errors.Is(err, journal.ErrNoStream) {
		return nil, nil
	}
	return log, err
}

// Examine finds out what was lost of each scope.
func (r *Recoverer) Examine(ctx context.Context) ([]Damage, error) {
	log, err := r.openJournal(ctx)
	if err != nil {
		return nil, err
	}
	if log != nil {
		defer log.Close()
	}
	var out []Damage
	for _, scope := range r.cfg.ScopeNames() {
		d, err := r.examine(ctx, log, scope)
		if err != nil {
			return nil, fmt.Errorf("examining scope %s: %w", scope, err)
		}
		out = append(out, d)
	}
	return out, nil
}

func (r *Recoverer) examine(ctx context.Context, log *journal.Log, scope string) (Damage, error) {
	d := Damage{Scope: scope, Found: []string{}, Kept: []FoundLease{}, Lost: []FoundLease{}}
	view, lastRevision, err := epochkv.LookFrom(ctx, r.js, epochkv.DefaultBucket, scope)
	noBucket := errors.Is(err, epochkv.ErrNoBucket)
	if err != nil && !noBucket {
		return d, err
	}
	sealed, err := storeOf(ctx, r.blobs, scope)
	if err != nil {
		return d, err
	}
	state := leasecore.NewState(scope)
	if log == nil {
		d.noStream(r.cfg.NATS.Stream, view, sealed.leases)
	} else if state, err = r.examineStream(ctx, log, view, sealed, &d); err != nil {
		return d, err
	}
	d.bucket(noBucket, lastRevision, state.Epoch)
	if err := r.values(ctx, &d, state, sealed); err != nil {
		return d, err
	}
	r.leases(ctx, &d, state, sealed.leases)
	if log == nil || len(d.Found) == 0 {
		return d, nil
	}
	decision, err := epochkv.DecisionOf(ctx, r.js, epochkv.DefaultBucket, scope)
	if err == nil && decision.Covers(log.Created(), d.Epoch) {
		d.Decided = decision.At
	}
	return d, err
}

// noStream says what is known where the log is gone.
func (d *Damage) noStream(stream string, view epochkv.View, sealed []handover.Blob) {
	d.Epoch = view.Revision
	e, ok := echoed(view)
	switch {
	case ok:
		d.Epoch, d.LastSeq = max(d.Epoch, e.Epoch), e.LastSeq
		d.Found = append(d.Found, fmt.Sprintf("there is no stream %s; holder %s led epoch %d and had the log up to sequence %d", stream, view.Holder.Holder, e.Epoch, e.LastSeq))
	case len(sealed) > 0 || view.Cell != nil:
		d.Found = append(d.Found, fmt.Sprintf("there is no stream %s, and the scope was led before", stream))
	}
}

// examineStream holds the log to what else is known, and gives the state that it
// makes, as far as it can be followed.
func (r *Recoverer) examineStream(ctx context.Context, log *journal.Log, view epochkv.View, sealed store, d *Damage) (*leasecore.State, error) {
	last, err := log.LastOpened(ctx, d.Scope)
	if err != nil && !errors.Is(err, events.ErrEvent) {
		return nil, err
	}
	past, _, err := r.blobs.Past(ctx, r.keys, d.Scope)
	if err != nil {
		return nil, err
	}
	keys := newScopeKeys(r.keys, past)
	trusted, err := r.trusted(ctx, log, keys, d.Scope)
	if err != nil {
		return nil, err
	}
	loss, err := examineLog(ctx, log, view, sealed, r.keys, trusted)
	if err != nil {
		return nil, err
	}
	if loss != nil {
		d.Found, d.Epoch, d.LastSeq = append(d.Found, loss.Found...), loss.Epoch, loss.Seq
	}
	if lost := r.snapshotLost(ctx, log, d.Scope); lost != nil {
		d.Found, d.LastSeq = append(d.Found, lost.Error()), max(d.LastSeq, lost.Seq)
	}
	st, err := log.Info(ctx)
	if err != nil {
		return nil, err
	}
	if o := lastData(last); o != nil && o.SealKey != "" && !r.keys.Has(o.SealKey) && last.Seq > trusted {
		d.KeyLost, trusted = true, st.LastSeq
	}
	if missing := keys.missing(d.Scope); missing != nil && !d.KeyLost {
		d.Found, d.KeyLost = append(d.Found, missing.Error()), true
	}
	p, err := folded(ctx, log, keys, d.Scope, trusted, st.LastSeq)
	var unknown *events.UnknownKeyError
	if errors.As(err, &unknown) {
		unchecked, uerr := r.unchecked(ctx, log, keys, d.Scope, unknown.Seq, st.LastSeq)
		if uerr != nil {
			return nil, uerr
		}
		d.Found, trusted = append(d.Found, unchecked.Error()), unchecked.upTo
		p, err = folded(ctx, log, keys, d.Scope, trusted, st.LastSeq)
	}
	var future *events.FutureError
	switch {
	case errors.As(err, &future):
		// Nothing is lost; and what there is, this release can't tell.
		return nil, fmt.Errorf("this release is behind the log: %w; run leasesvc recover of the release that the instances run (docs/operations.md, Upgrade)", future)
	case errors.Is(err, projector.ErrStopped):
		d.Found = append(d.Found, err.Error())
	case err != nil:
		return nil, err
	}
	d.trust = trusted
	d.Epoch = max(d.Epoch, p.State().Epoch, view.Revision)
	return p.State(), nil
}

func lastData(o *journal.Opened) *events.Opened {
	if o == nil {
		return nil
	}
	return o.Data()
}

// trusted gives up to where an earlier decision has the log count without its MACs.
func (r *Recoverer) trusted(ctx context.Context, log *journal.Log, keys *scopeKeys, scope string) (uint64, error) {
	before, err := epochkv.DecisionOf(ctx, r.js, epochkv.DefaultBucket, scope)
	if err != nil || before == nil || !before.StreamCreated.Equal(log.Created()) || before.Trusted == 0 || !keys.proves(before) {
		return 0, err
	}
	return before.Trusted, nil
}

// bucket says what is wrong with the bucket of epochs.
func (d *Damage) bucket(missing bool, lastRevision, logEpoch uint64) {
	switch {
	case logEpoch == 0 || !missing && lastRevision >= logEpoch:
		return
	case missing:
		d.Found = append(d.Found, fmt.Sprintf("there is no bucket of epochs, and the log is in epoch %d: a new one must begin above it", logEpoch))
	default:
		d.Found = append(d.Found, fmt.Sprintf("the bucket of epochs is at revision %d, and the log in epoch %d: it was made anew, or an older one was restored", lastRevision, logEpoch))
	}
	d.BucketBehind = true
}

// values names the active leases whose values are not in the store.
func (r *Recoverer) values(ctx context.Context, d *Damage, s *leasecore.State, sealed store) error {
	there := map[string]bool{}
	for _, b := range sealed.leases {
		there[fmt.Sprint(b.Name, "/", b.Lease)] = true
	}
	for _, name := range s.SortedNames() {
		active := s.Name(name).Active
		id := fmt.Sprint(name, "/", active)
		if active == 0 || there[id] {
			continue
		}
		// The log was read after the store, and somebody may be at work.
		_, err := r.blobs.Get(ctx, d.Scope, name, active)
		if err != nil && !errors.Is(err, handover.ErrNoBlob) {
			return err
		}
		if err != nil {
			d.ValuesGone = append(d.ValuesGone, id)
		}
	}
	if n := len(d.ValuesGone); n > 0 {
		d.Found = append(d.Found, fmt.Sprintf("the values of %d active leases are not in the store: %s", n, strings.Join(told(d.ValuesGone), ", ")))
	}
	return nil
}

// leases names what the log knows, and what it does not: from the snapshots and
// the sealed values.
func (r *Recoverer) leases(ctx context.Context, d *Damage, s *leasecore.State, sealed []handover.Blob) {
	known := map[string]bool{}
	key := func(name string, lease uint64) string { return fmt.Sprint(name, "/", lease) }
	eachLease(s, func(l FoundLease) {
		known[key(l.Name, l.Lease)] = true
		d.Kept = append(d.Kept, l)
	})
	if len(d.Found) == 0 {
		return
	}
	if saved := r.saved(ctx, d.Scope); saved != nil {
		d.LastSeq = max(d.LastSeq, saved.LastSeq)
		eachLease(saved, func(l FoundLease) {
			if !known[key(l.Name, l.Lease)] {
				known[key(l.Name, l.Lease)] = true
				d.Lost = append(d.Lost, l)
			}
		})
	}
	for _, b := range sealed {
		if !known[key(b.Name, b.Lease)] {
			d.Lost = append(d.Lost, r.found(ctx, d.Scope, b))
		}
	}
}

// found says of a lease what its sealed values do.
func (r *Recoverer) found(ctx context.Context, scope string, b handover.Blob) FoundLease {
	f := FoundLease{Name: b.Name, Lease: b.Lease}
	sealed, err := r.blobs.Get(ctx, scope, b.Name, b.Lease)
	if err != nil {
		return f
	}
	if from, err := r.keys.OriginAtRest(scope, b.Name, b.Lease, sealed); err == nil && from != nil {
		f.LeaseID, f.Guard = from.LeaseID, from.Guard
	}
	return f
}

func eachLease(s *leasecore.State, see func(FoundLease)) {
	for _, name := range s.SortedNames() {
		n := s.Name(name)
		for i := range n.Leases {
			l := &n.Leases[i]
			f := FoundLease{Name: name, Lease: l.No, State: l.State.String(), LeaseID: l.LeaseID, Guard: l.Guard}
			f.Ends, _ = l.Expires()
			see(f)
		}
	}
}

// saved gives the state of a scope's last genuine snapshot; nil: there is none.
func (r *Recoverer) saved(ctx context.Context, scope string) *leasecore.State {
	if r.snapshots == nil {
		return nil
	}
	p, err := r.snapshots.Last(ctx, scope)
	if err != nil || p == nil {
		return nil
	}
	return p.State()
}

// snapshotLost holds the log to the scope's snapshots; nil: they agree, or there
// are none.
func (r *Recoverer) snapshotLost(ctx context.Context, log *journal.Log, scope string) *snapshot.LostError {
	if r.snapshots == nil {
		return nil
	}
	all, err := r.snapshots.List(ctx)
	if err != nil {
		return nil //nolint:nilerr // snapshots that can't be read say nothing about the log
	}
	var lost *snapshot.LostError
	if _, _, err := r.snapshots.Restore(ctx, log, scope, all[scope]); errors.As(err, &lost) {
		return lost
	}
	return nil
}

// Decide records that the scopes go on with what their logs have; with anew, all
// that they still know is issued anew. No instance may run. A log that is empty or
// gone is made anew above the sequences that are known of, the bucket of epochs
// above the epochs, where it is behind.
func (r *Recoverer) Decide(ctx context.Context, damages []Damage, anew bool) error {
	epoch, seq, behind := uint64(0), uint64(0), false
	for i := range damages {
		epoch, seq, behind = max(epoch, damages[i].Epoch), max(seq, damages[i].LastSeq), behind || damages[i].BucketBehind
	}
	if err := r.ensureStream(ctx, seq); err != nil {
		return err
	}
	if behind {
		if err := epochkv.Recreate(ctx, r.js, epochkv.DefaultBucket, r.cfg.NATS.Replicas, epoch); err != nil {
			return err
		}
	}
	log, err := r.openJournal(ctx)
	if err != nil {
		return err
	}
	if log == nil {
		return fmt.Errorf("stream %s: %w", r.cfg.NATS.Stream, journal.ErrNoStream)
	}
	defer log.Close()
	for i := range damages {
		d := &damages[i]
		if len(d.Found) == 0 {
			continue
		}
		if r.snapshots != nil {
			if err := r.snapshots.Drop(ctx, d.Scope); err != nil {
				return err
			}
		}
		if d.KeyLost || len(d.ValuesGone) > 0 {
			if err := r.giveUpKeys(ctx, d.Scope); err != nil {
				return err
			}
		}
		decision := epochkv.Recovery{
			Scope: d.Scope, StreamCreated: log.Created(), Epoch: d.Epoch, Anew: anew || d.KeyLost || len(d.ValuesGone) > 0, Trusted: d.trust, Found: d.Found, Lost: lostNames(d.Lost), At: time.Now().UTC(),
		}
		if decision.Trusted > 0 {
			decision.Proof = proofOf(r.keys.MACKey(), &decision)
		}
		if err := epochkv.Decide(ctx, r.js, epochkv.DefaultBucket, decision); err != nil {
			return err
		}
	}
	return nil
}

// lostNames names leases with their lease ids.
func lostNames(lost []FoundLease) (out []string) {
	for _, l := range lost {
		name := fmt.Sprint(l.Name, "/", l.Lease)
		if l.LeaseID != "" {
			name += " " + l.LeaseID
		}
		out = append(out, name)
	}
	return out
}

// ensureStream makes a log anew that is gone or empty, with sequences above those
// that consumers have seen: they take nothing at or below the last they took.
func (r *Recoverer) ensureStream(ctx context.Context, above uint64) error {
	log, err := r.openJournal(ctx)
	if err != nil {
		return err
	}
	settings := journal.Settings(journalOf(&r.cfg.NATS))
	if log != nil {
		st, err := log.Info(ctx)
		log.Close()
		if err != nil || st.Messages > 0 {
			return err
		}
		if err := r.js.DeleteStream(ctx, settings.Name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("making stream %s anew: %w", settings.Name, err)
		}
	}
	settings.FirstSeq = above + 1
	if _, err := r.js.CreateStream(ctx, settings); err != nil {
		return fmt.Errorf("making stream %s anew: %w", settings.Name, err)
	}
	return nil
}
