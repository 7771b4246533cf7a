package epochkv

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

var (
	claimantRuns = flag.Int("claimants.runs", 4, "seeded runs of TestClaimantsAreLinearizable")
	claimantSeed = flag.Uint64("claimants.seed", 1, "seed of the first run")
	claimantTime = flag.Duration("claimants.time", 1500*time.Millisecond, "how long a run lasts")
)

// claimants is one run of several instances over the same scopes.
type claimants struct {
	t       *testing.T
	seed    uint64
	connect func(i int) jetstream.JetStream
	n       int
	scopes  []string
	cfg     Config // Heartbeat, Replicas, ...
	rate    float64

	h      *history
	counts faultCounts
	claims claims
	logs   map[string]*fencedLog
	beats  atomic.Int64
	late   sync.WaitGroup
	dirs   atomic.Int64
	root   string
}

// TestClaimantsAreLinearizable has instances claim, renew, release, depose,
// crash, pause and lose answers at random, and checks that each cell behaved as
// a compare-and-set register, that no epoch was given twice, and that epochs
// only grew in a log that is fenced as the real one is (I1).
func TestClaimantsAreLinearizable(t *testing.T) {
	srv := runServer(t)
	var all faultCounts
	for run := range *claimantRuns {
		seed := *claimantSeed + uint64(run)
		t.Run(fmt.Sprintf("seed-%d", seed), func(t *testing.T) {
			cs := &claimants{
				t: t, seed: seed, n: 4, scopes: []string{"a", "b", "c"}, rate: 1,
				cfg:     Config{Bucket: fmt.Sprintf("b%d", seed), Create: true, Heartbeat: 8 * time.Millisecond, RequestTimeout: 5 * time.Second},
				connect: func(int) jetstream.JetStream { return connect(t, srv.ClientURL()) },
			}
			cs.run(*claimantTime)
			all.crashes.Add(cs.counts.crashes.Load())
			all.pauses.Add(cs.counts.pauses.Load())
			all.lostAnswers.Add(cs.counts.lostAnswers.Load())
			all.lateWrites.Add(cs.counts.lateWrites.Load())
			all.releases.Add(cs.counts.releases.Load())
		})
	}
	if all.crashes.Load() == 0 || all.pauses.Load() == 0 || all.lostAnswers.Load() == 0 || all.lateWrites.Load() == 0 || all.releases.Load() == 0 {
		t.Errorf("some fault never happened: %s", &all)
	}
}

func (cs *claimants) run(d time.Duration) {
	cs.t.Helper()
	cs.h = &history{began: time.Now()}
	cs.claims.seen = map[string]string{}
	cs.logs = map[string]*fencedLog{}
	cs.root = cs.t.TempDir()
	for _, s := range cs.scopes {
		cs.logs[s] = &fencedLog{}
	}
	ctx, cancel := context.WithTimeout(cs.t.Context(), d)
	defer cancel()
	var wg sync.WaitGroup
	for i := range cs.n {
		js := cs.connect(i)
		wg.Go(func() { cs.instance(ctx, i, js) })
	}
	wg.Wait()
	cs.late.Wait()
	cs.readAll()
	ops, violations := cs.h.check()
	for _, v := range violations {
		cs.t.Error(v)
	}
	opened := 0
	for s, l := range cs.logs {
		opened += len(l.epochs)
		for i := 1; i < len(l.epochs); i++ {
			if l.epochs[i] <= l.epochs[i-1] {
				cs.t.Errorf("scope %s: epoch %d of %s opened after %d of %s", s, l.epochs[i], l.by[i], l.epochs[i-1], l.by[i-1])
			}
		}
	}
	if opened == 0 {
		cs.t.Error("no epoch was opened")
	}
	cs.t.Logf("seed %d: %d requests, %d epochs opened; %s", cs.seed, ops, opened, &cs.counts)
}

// readAll is the read at the end of the history that shows what was applied.
func (cs *claimants) readAll() {
	cs.t.Helper()
	st, err := cs.connect(0).Stream(cs.t.Context(), streamName(cs.cfg.Bucket))
	if err != nil {
		cs.t.Fatal(err)
	}
	info, err := st.Info(cs.t.Context(), jetstream.WithSubjectFilter(">"))
	if err != nil {
		cs.t.Fatal(err)
	}
	for subject := range info.State.Subjects {
		key := subject[len("$KV."+cs.cfg.Bucket+"."):]
		o := op{client: cs.n, key: key, get: true, call: cs.h.now()}
		m, err := st.GetLastMsgForSubject(cs.t.Context(), subject)
		if err != nil {
			cs.t.Fatal(err)
		}
		o.ret, o.rev, o.attempt = cs.h.now(), m.Sequence, attemptOf(m.Data)
		cs.h.add(o)
	}
}

// instance lives, dies and comes back until ctx ends.
func (cs *claimants) instance(ctx context.Context, i int, js jetstream.JetStream) {
	rnd := rand.New(rand.NewPCG(cs.seed, uint64(i)))
	newDir := func() string { return filepath.Join(cs.root, fmt.Sprint(cs.dirs.Add(1))) }
	dir := newDir()
	for ctx.Err() == nil {
		state, err := OpenStateDir(dir)
		if err != nil {
			cs.t.Error(err)
			return
		}
		cfg := cs.cfg
		cfg.State = state
		cfg.store = func(s store) store {
			return &chaos{real: s, h: cs.h, client: i, counts: &cs.counts, late: &cs.late, rate: cs.rate,
				rnd: rand.New(rand.NewPCG(cs.seed, rnd.Uint64()))}
		}
		cells, err := Open(ctx, js, cfg)
		if err == nil {
			cs.life(ctx, cells, rnd)
			cs.counts.crashes.Add(1)
		} else if errors.Is(err, ErrIgnoresCAS) || errors.Is(err, ErrStaleReads) {
			cs.t.Error(err)
		}
		_ = state.lock.Close() // killed: nothing more is written
		if rnd.IntN(2) == 0 {
			dir = newDir()
			cs.counts.strangers.Add(1)
		}
	}
}

// life is one process: it beats until it crashes.
func (cs *claimants) life(ctx context.Context, c *Cells, rnd *rand.Rand) {
	started := false
	for ctx.Err() == nil {
		if wait(ctx, time.Duration(rnd.Int64N(int64(cs.cfg.Heartbeat*2)))) != nil {
			return
		}
		cs.beats.Add(1)
		switch r := rnd.Float64(); {
		case r < 0.01:
			return // crash
		case r < 0.02:
			cs.pause(ctx)
		}
		if !started {
			started = c.StartHolder(ctx) == nil
			continue
		}
		if err := c.Renew(ctx, []byte(`{"beat":1}`)); errors.As(err, new(*Fenced)) {
			started = false
			continue
		}
		for _, scope := range cs.scopes {
			if crash := cs.step(ctx, c, scope, rnd); crash {
				return
			}
		}
	}
}

// pause stands still while the others beat for two quiet windows.
func (cs *claimants) pause(ctx context.Context) {
	cs.counts.pauses.Add(1)
	until := cs.beats.Load() + int64((cs.n-1)*2*(DefaultQuietPolls+1))
	for cs.beats.Load() < until && wait(ctx, time.Millisecond) == nil {
	}
}

// step leads, releases or claims a scope, opening what it claimed as P1 says.
func (cs *claimants) step(ctx context.Context, c *Cells, scope string, rnd *rand.Rand) (crash bool) {
	if c.Held(scope) != 0 {
		if rnd.Float64() < 0.02 {
			cs.counts.releases.Add(1)
			_ = c.Release(ctx, scope)
		}
		return false
	}
	log := cs.logs[scope]
	m, f := log.last()
	claim, err := c.ClaimStep(ctx, scope, m)
	if err != nil {
		if errors.As(err, new(*EpochBehind)) || errors.Is(err, ErrForeignCell) {
			cs.t.Errorf("claim step: %v", err)
		}
		return false
	}
	if !claim.Claimed() {
		return false
	}
	cs.claims.add(cs.t, scope, claim.Epoch, c.HolderID())
	if rnd.Float64() < 0.05 {
		return true // between set and fence
	}
	if rnd.Float64() < 0.05 {
		cs.pause(ctx) // between set and fence
	}
	if m >= claim.Epoch || !log.open(claim.Epoch, c.HolderID(), f) {
		c.Drop(scope)
		return false
	}
	if rnd.Float64() < 0.05 {
		return true // between fence and note
	}
	_ = c.Opened(scope, claim.Epoch) // fenced meanwhile
	return false
}
