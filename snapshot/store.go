package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/projector"
)

// Bucket is the usual bucket of snapshots.
const Bucket = "leasesvc_snapshots"

// kept is how many snapshots of a scope are kept: the highest, and one to fall
// back on. So many are kept of the release that saved last before ours, too: while
// two releases share a scope, or where one goes back, neither has to read the
// whole log.
const kept = 2

// Store keeps the snapshots of all scopes.
type Store struct {
	objects jetstream.ObjectStore
	key     Key
	log     *slog.Logger
}

// StreamConfig gives the configuration of the stream behind the bucket, as
// [Open] creates it.
func StreamConfig(bucket string, replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        "OBJ_" + bucket,
		Description: "leasesvc: snapshots of the scopes' state, by sequence of the log",
		Subjects:    []string{"$O." + bucket + ".C.>", "$O." + bucket + ".M.>"},
		Storage:     jetstream.FileStorage,
		Replicas:    replicas,
		Discard:     jetstream.DiscardNew,
		AllowRollup: true,
		AllowDirect: true,
	}
}

// Open opens the bucket, and creates it with that many replicas when it is not
// there. The store's snapshots are made and believed with key.
func Open(ctx context.Context, js jetstream.JetStream, bucket string, replicas int, key Key, log *slog.Logger) (*Store, error) {
	objects, err := js.ObjectStore(ctx, bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		_, err = js.CreateStream(ctx, StreamConfig(bucket, replicas))
		if err == nil || errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			objects, err = js.ObjectStore(ctx, bucket)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("opening the bucket %s of snapshots: %w", bucket, err)
	}
	return &Store{objects: objects, key: key, log: log}, nil
}

// Key gives the key that the store's snapshots are made with.
func (s *Store) Key() Key { return s.key }

// saved is where a snapshot stands: its name is that.
type saved struct {
	scope   string
	seq     uint64
	release string
}

// seqDigits pads sequences so that names sort.
const seqDigits = 20

func (s saved) name() string { return fmt.Sprintf("%s.%0*d.%s", s.scope, seqDigits, s.seq, s.release) }

func parseName(name string) (saved, bool) {
	scope, rest, found := strings.Cut(name, ".")
	digits, release, _ := strings.Cut(rest, ".")
	seq, err := strconv.ParseUint(digits, 10, 64)
	s := saved{scope, seq, release}
	return s, found && err == nil && s.name() == name
}

// ours is where a snapshot of this release stands.
func (s *Store) ours(scope string, seq uint64) saved { return saved{scope, seq, s.key.release()} }

// Save stores what [Key.Encode] made of a scope at a sequence, and drops the
// scope's snapshots before the last two of this release, and before those of the
// last other one.
func (s *Store) Save(ctx context.Context, scope string, seq uint64, encoded []byte) error {
	if _, err := s.objects.PutBytes(ctx, s.ours(scope, seq).name(), encoded); err != nil {
		return fmt.Errorf("saving a snapshot of scope %s at sequence %d: %w", scope, seq, err)
	}
	all, err := s.all(ctx)
	if err != nil {
		return err
	}
	count, other := map[string]int{}, ""
	for _, old := range all {
		if old.scope != scope {
			continue
		}
		if old.release != s.key.release() && other == "" {
			other = old.release
		}
		count[old.release]++
		if count[old.release] <= kept && (old.release == s.key.release() || old.release == other) {
			continue
		}
		if err := s.drop(ctx, old); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) drop(ctx context.Context, old saved) error {
	if err := s.objects.Delete(ctx, old.name()); err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
		return fmt.Errorf("dropping the snapshot of scope %s at sequence %d: %w", old.scope, old.seq, err)
	}
	return nil
}

// all lists the snapshots of all releases, the highest first.
func (s *Store) all(ctx context.Context) ([]saved, error) {
	infos, err := s.objects.List(ctx)
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		return nil, fmt.Errorf("listing the snapshots: %w", err)
	}
	var out []saved
	for _, info := range infos {
		if one, ok := parseName(info.Name); ok {
			out = append(out, one)
		}
	}
	slices.SortFunc(out, func(a, b saved) int { return cmp.Compare(b.seq, a.seq) })
	return out, nil
}

// List gives the sequences of the snapshots of this release by scope, the highest
// first.
func (s *Store) List(ctx context.Context) (map[string][]uint64, error) {
	all, err := s.all(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string][]uint64{}
	for _, one := range all {
		if one.release == s.key.release() {
			out[one.scope] = append(out[one.scope], one.seq)
		}
	}
	return out, nil
}

// Last reads a scope's highest snapshot that is genuine, whatever the log says:
// for recovery. nil: there is none.
func (s *Store) Last(ctx context.Context, scope string) (*projector.Projection, error) {
	all, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, seq := range all[scope] {
		encoded, err := s.objects.GetBytes(ctx, s.ours(scope, seq).name())
		if err != nil {
			continue
		}
		if p, at, _, err := s.key.Decode(encoded); err == nil && at.Scope == scope {
			return p, nil
		}
	}
	return nil, nil
}

// Drop removes a scope's snapshots, of every release: their log is given up.
func (s *Store) Drop(ctx context.Context, scope string) error {
	all, err := s.all(ctx)
	if err != nil {
		return err
	}
	for _, one := range all {
		if one.scope == scope {
			if err := s.drop(ctx, one); err != nil {
				return err
			}
		}
	}
	return nil
}

// LostError says that a genuine snapshot is of another log than the one that is
// there, or of an event that this one does not have: the log was deleted,
// recreated or restored from before the snapshot. Nobody may lead from it.
type LostError struct {
	Scope string
	// Seq is the sequence that the snapshot ends with.
	Seq uint64
	// Saved is the creation time of the snapshot's stream, Found that of the one
	// that is there; equal, if it is the event that is not there.
	Saved, Found time.Time
}

// Error implements error.
func (e *LostError) Error() string {
	what := fmt.Sprintf("the log does not hold the event at sequence %d", e.Seq)
	if !e.Saved.Equal(e.Found) {
		what = fmt.Sprintf("the stream was created %s, that of the snapshot %s", e.Found.Format(time.RFC3339), e.Saved.Format(time.RFC3339))
	}
	return fmt.Sprintf("the snapshot of scope %s at sequence %d is of a log that is gone: %s; restore the log, or give it up with leasesvc recover", e.Scope, e.Seq, what)
}

// Log is what a snapshot is held to.
type Log interface {
	Created() time.Time
	At(ctx context.Context, scope string, seq uint64) (*journal.Message, error)
}

// tried bounds how many of a scope's snapshots a start looks at.
const tried = 8

// Restore gives the projection of the highest of a scope's snapshots ([Store.List])
// that holds; nil: there is none. What is wrong with the others is logged. The
// error is a [*LostError], what kept it from reading the bucket or the log, or
// ctx's.
func (s *Store) Restore(ctx context.Context, log Log, scope string, seqs []uint64) (*projector.Projection, []Ahead, error) {
	for _, seq := range seqs[:min(tried, len(seqs))] {
		encoded, err := s.objects.GetBytes(ctx, s.ours(scope, seq).name())
		if err == nil {
			var p *projector.Projection
			var ahead []Ahead
			if p, ahead, err = s.restore(ctx, log, scope, encoded); err == nil {
				return p, ahead, nil
			}
		}
		switch {
		case errors.Is(err, ErrForged), errors.Is(err, ErrDamaged), errors.Is(err, jetstream.ErrDigestMismatch):
			s.log.Error("a snapshot is ignored", "scope", scope, "seq", seq, "error", err)
		case errors.Is(err, ErrLayout):
			s.log.Info("a snapshot is ignored", "scope", scope, "seq", seq, "error", err)
		case errors.Is(err, jetstream.ErrObjectNotFound):
			// Dropped meanwhile.
		default:
			return nil, nil, fmt.Errorf("reading the snapshot of scope %s at sequence %d: %w", scope, seq, err)
		}
	}
	return nil, nil, nil
}

// restore decodes a snapshot and holds it to the log.
func (s *Store) restore(ctx context.Context, log Log, scope string, encoded []byte) (*projector.Projection, []Ahead, error) {
	p, at, ahead, err := s.key.Decode(encoded)
	if err != nil {
		return nil, nil, err
	}
	if at.Scope != scope {
		return nil, nil, fmt.Errorf("%w: it is of scope %s", ErrForged, at.Scope)
	}
	lost := &LostError{Scope: scope, Seq: at.Applied, Saved: at.StreamCreated, Found: log.Created()}
	if !lost.Saved.Equal(lost.Found) {
		return nil, nil, lost
	}
	m, err := log.At(ctx, scope, at.Applied)
	if err != nil {
		return nil, nil, err
	}
	if m == nil || !strings.HasSuffix(string(m.Payload), `"`+at.Last+`"}`) {
		return nil, nil, lost
	}
	return p, ahead, nil
}
