package service

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/projector"
	"github.com/leasesvc/leasesvc/snapshot"
)

// savePace says when a holder saves its state. Saving takes some microseconds a
// name, so it waits for as many events as make it worth that, and takes a small
// part of the time at most.
type savePace struct {
	every  uint64        // events, or a quarter of the names if that is more
	pause  time.Duration // between two, at least
	share  int           // and this many times what the last one took
	atStop uint64        // events since the last one, when the scope is given back
}

var defaultSavePace = savePace{every: 10_000, pause: time.Minute, share: 100, atStop: 1_000}

const (
	saveWithin = 30 * time.Second
	// restoreWithin bounds how long a start waits for snapshots before it reads
	// the log instead, restoreAtOnce how many are read at a time.
	restoreWithin = 20 * time.Second
	restoreAtOnce = 4
)

// openSnapshots opens the bucket of snapshots. Without it everything works, and
// reads its log from the beginning.
func (s *Service) openSnapshots(ctx context.Context) {
	key, err := snapshotKey(s.keys, s.opts.Version)
	if err == nil {
		s.snapshots, err = snapshot.Open(ctx, s.js, snapshot.Bucket, s.cfg.NATS.Replicas, key, s.log)
	}
	if err != nil {
		s.log.Warn("no snapshots: a start reads the whole log", "error", err)
	}
}

// snapshotKey has snapshots made under the current key, and believed under each
// that the instance has.
func snapshotKey(keys *handover.Keyring, version string) (snapshot.Key, error) {
	all := newScopeKeys(keys, nil)
	return snapshot.NewKeyUnder(all.mac, version, all.macKeys()...)
}

// restoreFollowers has the followers begin where their snapshots end, and gives
// the sequence from which the log is to be followed.
func (s *Service) restoreFollowers(ctx context.Context) uint64 {
	s.listSnapshots(ctx)
	var restoring errgroup.Group
	restoring.SetLimit(restoreAtOnce)
	var mu sync.Mutex
	next := ^uint64(0)
	for _, sc := range s.scopes {
		restoring.Go(func() error {
			from := sc.follower.begin(sc.restored(ctx))
			mu.Lock()
			defer mu.Unlock()
			next = min(next, from)
			return nil
		})
	}
	_ = restoring.Wait() // none gives an error
	return next
}

// listSnapshots finds out where the scopes' snapshots stand.
func (s *Service) listSnapshots(ctx context.Context) {
	if s.snapshots == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, restoreWithin)
	defer cancel()
	saved, err := s.snapshots.List(ctx)
	if err != nil {
		s.log.Warn("the snapshots can't be listed: reading the log from its beginning", "error", err)
	}
	for _, sc := range s.scopes {
		sc.saved = saved[sc.name]
	}
}

// noteSaved notes a snapshot of ours.
func (sc *scope) noteSaved(seq uint64) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.saved = append([]uint64{seq}, sc.saved[:min(1, len(sc.saved))]...)
	sc.savedAt.Store(time.Now().UnixNano())
}

// restored gives the projection of a scope's snapshot, or one that begins with
// the log. One that contradicts the log is a projection that is stopped.
func (sc *scope) restored(ctx context.Context) (*projector.Projection, skews) {
	keys := sc.keys.Load()
	s, fresh := sc.svc, projector.NewUnder(sc.name, keys.mac)
	fresh.Trust(sc.trusted)
	sc.mu.Lock()
	seqs := sc.saved
	sc.mu.Unlock()
	if len(seqs) == 0 {
		return fresh, skews{}
	}
	ctx, cancel := context.WithTimeout(ctx, restoreWithin)
	defer cancel()
	began := time.Now()
	p, ahead, err := s.snapshots.Restore(ctx, s.journal, sc.name, seqs)
	var lost *snapshot.LostError
	switch {
	case errors.As(err, &lost):
		return projector.Refuse(sc.name, nil, err), skews{}
	case err != nil:
		sc.log.Warn("no snapshot can be read: reading the log from its beginning", "error", err)
		return fresh, skews{}
	case p == nil:
		return fresh, skews{}
	}
	p.Rering(keys.mac)
	sc.log.Info("restored from a snapshot", "seq", p.LastSeq(), "names", p.State().Len(), "took", time.Since(began).String())
	out := skews{}
	for _, a := range ahead {
		out[skewed{a.Name, a.Lease}] = a.By
	}
	return p, out
}

// saver saves a term's state. Its fields belong to the scope's goroutine.
type saver struct {
	term    *term
	at      time.Time     // when the last one was taken
	cost    atomic.Int64  // what encoding the last one took, as a time.Duration
	encoded chan struct{} // closed once the state may be thawed; nil: it is
	saving  chan struct{} // has room for one
	pending sync.WaitGroup
}

func newSaver(t *term) *saver { return &saver{term: t, at: time.Now(), saving: make(chan struct{}, 1)} }

// consider saves the state when that is due. The scope's goroutine freezes it,
// another one makes the bytes and stores them.
func (v *saver) consider(ctx context.Context) {
	v.thaw()
	p, pace := v.term.projection, v.term.svc.savePace
	if p.Unsaved() < max(pace.every, uint64(p.State().Len())/4) || time.Since(v.at) < max(pace.pause, time.Duration(pace.share)*time.Duration(v.cost.Load())) {
		return
	}
	select {
	case v.saving <- struct{}{}:
		v.save(ctx)
	default: // the last one is still on its way
	}
}

// thaw lets the state be changed in place again, once nobody reads it elsewhere.
func (v *saver) thaw() {
	select {
	case <-v.encoded: // never, of nil
		v.encoded = nil
		v.term.projection.State().Thaw()
	default:
	}
}

// last waits until what was taken is stored, after taking another one of a scope
// that was given back. No successor waits for it: the scope is released by then.
func (v *saver) last(ctx context.Context, givenBack bool) {
	if givenBack && v.term.projection.Unsaved() >= v.term.svc.savePace.atStop {
		select {
		case v.saving <- struct{}{}:
			v.save(ctx)
		case <-ctx.Done():
		}
	}
	v.pending.Wait()
	v.thaw()
}

// save takes a snapshot and stores it; saving is taken.
func (v *saver) save(ctx context.Context) {
	t := v.term
	p := t.projection
	ahead, known := t.follower.clockAhead()
	if !known || t.svc.snapshots == nil || t.writer.Tail() != p.LastSeq() {
		<-v.saving
		return
	}
	p.SetChain(t.writer.Chain())
	v.at = time.Now()
	seq, names, taken := p.LastSeq(), p.State().Len(), snapshot.Take(p, t.svc.journal.Created(), ahead)
	still := time.Since(v.at)
	p.Saved()
	done := make(chan struct{})
	v.encoded = done
	v.pending.Go(func() {
		defer func() { <-v.saving }()
		began := time.Now()
		encoded := t.svc.snapshots.Key().Encode(taken)
		v.cost.Store(int64(time.Since(began)))
		taken = snapshot.Taken{}
		close(done)
		ctx, cancel := context.WithTimeout(ctx, saveWithin)
		defer cancel()
		err := t.svc.snapshots.Save(ctx, t.name, seq, encoded)
		t.svc.metrics.Snapshot(t.name, err)
		if err != nil {
			t.log.Warn("the snapshot was not saved; the one before it is used", "error", err)
			return
		}
		t.noteSaved(seq)
		t.log.Info("saved a snapshot", "seq", seq, "names", names, "bytes", len(encoded), "stood_still", still.String())
	})
}

// clockAhead gives what a snapshot must say of the clocks that stamped the leases.
// Of the term that is running that is not noted lease by lease: while our clock is
// ahead of the server's (known is false then) nothing is saved, so that who reads
// the log finds it there.
func (f *follower) clockAhead() (ahead []snapshot.Ahead, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e, err := events.Decode(f.last.Payload, f.last.Seq)
	if err != nil || e.Time.Sub(f.last.Stored) > tolerated {
		return nil, false
	}
	for lease, by := range f.ahead {
		ahead = append(ahead, snapshot.Ahead{Name: lease.name, Lease: lease.lease, By: by})
	}
	return ahead, true
}
