package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	mathrand "math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasesvc/leasesvc/epochkv"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/itest/clustertest"
)

var runs = flag.Int("cluster.runs", 2, "seeded runs of TestCellsAreLinearizable")

const (
	claimants   = 6
	beat        = 25 * time.Millisecond
	killsPerRun = 2
	// requestsPerRun are waited for after the kills.
	requestsPerRun = 400
	patience       = 200 * time.Millisecond // for one answer
)

// faults counts what happened to the claimants, over all runs.
type faults struct {
	crashes, strangers, pauses, releases, deposals, fenced, kills, claims, appended atomic.Int64
}

// TestCellsAreLinearizable has instances claim, renew, release, depose each
// other, crash and pause, while answers and requests are lost and servers are
// killed. Each cell must have behaved as one compare-and-set register
// (porcupine), no epoch may have been given twice, and the log, which is opened
// and appended to under the epochs, must hold what was acknowledged and keep I1.
func TestCellsAreLinearizable(t *testing.T) {
	c := clustertest.Start(t)
	w := &witness{}
	w.begin("none", mathrand.New(mathrand.NewPCG(0, 0)))
	var urls []string
	for i := range clustertest.Servers {
		p := clustertest.NewProxy(t, c.URLOf(i), func(f clustertest.Frame) clustertest.Verdict { return w.decide(i, f) }, func(conn int) { w.gone(i, conn) })
		urls = append(urls, p.URL())
	}
	var all faults
	total, lost, open := 0, 0, 0
	// few gives what happened too seldom for the runs to prove anything.
	few := func() (out []string) {
		for what, n := range map[string]int64{
			"requests": int64(total), "lost answers": int64(lost), "crashes": all.crashes.Load(), "pauses": all.pauses.Load(),
			"releases": all.releases.Load(), "deposals": all.deposals.Load(), "servers killed": all.kills.Load(),
		} {
			least := min(int64(*runs)*5/3, 50) // 50 of each in 30 runs
			if what == "requests" {
				least = min(int64(*runs)*334, 10_000)
			}
			if n < least {
				out = append(out, fmt.Sprintf("%s: %d of %d", what, n, least))
			}
		}
		return out
	}
	// A slow machine sees fewer of the faults in a run: it makes more runs.
	done := 0
	for ; done < *runs || done < 3**runs && len(few()) > 0 && !t.Failed(); done++ {
		at := *seed + uint64(done)
		t.Run(fmt.Sprintf("seed-%d", at), func(t *testing.T) {
			r := &lifes{t: t, c: c, seed: at, url: strings.Join(urls, ","), w: w, counts: &all, root: t.TempDir()}
			total += r.run()
			lost += w.lost
			open += w.unknown
		})
	}
	t.Logf("%d runs, %d requests: %d answers lost, %d requests left open, %d crashes, %d pauses, %d releases, %d deposals, %d times fenced, %d servers killed; %d claims, %d events appended",
		done, total, lost, open, all.crashes.Load(), all.pauses.Load(), all.releases.Load(), all.deposals.Load(), all.fenced.Load(), all.kills.Load(), all.claims.Load(), all.appended.Load())
	if short := few(); len(short) > 0 {
		t.Errorf("too few for this to prove anything: %s", strings.Join(short, ", "))
	}
}

// lifes is one run.
type lifes struct {
	t      *testing.T
	c      *clustertest.Cluster
	seed   uint64
	url    string
	w      *witness
	counts *faults
	root   string
	bucket string
	scopes []string
	dirs   atomic.Int64

	mu     sync.Mutex
	epochs map[string]string   // scope/epoch: claimant
	landed map[string][]string // scope: ids that were acknowledged
}

func (r *lifes) run() (ops int) {
	t := r.t
	r.bucket = fmt.Sprintf("linear%d", r.seed)
	r.scopes = []string{fmt.Sprintf("r%d-a", r.seed), fmt.Sprintf("r%d-b", r.seed)}
	r.epochs, r.landed = map[string]string{}, map[string][]string{}
	admin := r.c.JS(t)
	clustertest.Await(t, time.Minute, "the bucket to be made", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_, err := admin.CreateStream(ctx, epochkv.StreamConfig(r.bucket, 3))
		return err == nil
	})
	log := openLog(t, r.c.URL(), journal.Config{Replicas: 3})
	r.c.AwaitReady()
	r.w.begin(r.bucket, mathrand.New(mathrand.NewPCG(r.seed, 0)))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var living sync.WaitGroup
	for i := range claimants {
		living.Go(func() { r.claimant(ctx, i) })
	}
	rnd := mathrand.New(mathrand.NewPCG(r.seed, 99))
	for range killsPerRun {
		<-time.After(time.Duration(1000+rnd.IntN(1500)) * time.Millisecond)
		victim := rnd.IntN(clustertest.Servers)
		if rnd.IntN(2) == 0 {
			victim = r.c.AwaitStreamLeader("KV_" + r.bucket)
		}
		r.c.Kill(victim)
		r.counts.kills.Add(1)
		<-time.After(time.Duration(rnd.IntN(1000)) * time.Millisecond)
		r.c.Restart(victim)
		r.c.AwaitReady()
	}
	clustertest.Await(t, time.Minute, "requests", func() bool { return r.w.count() >= requestsPerRun })
	cancel()
	living.Wait()
	r.c.AwaitReady()
	r.w.lose(false)
	r.readAll()
	ops, violations := r.w.check()
	for _, v := range violations {
		t.Error(v)
	}
	opened, events := 0, 0
	for _, scope := range r.scopes {
		at, openings := contents(t, log, scope)
		opened, events = opened+len(openings), events+len(at)-len(openings)
		for _, id := range r.landed[scope] {
			if at[id] == 0 {
				t.Errorf("scope %s: %s was acknowledged and is lost", scope, id)
			}
		}
	}
	if opened == 0 {
		t.Error("no epoch was opened")
	}
	t.Logf("%d requests, %d answers lost, %d requests never sent, %d left open; %d epochs opened, %d events", ops, r.w.lost, r.w.unsent, r.w.unknown, opened, events)
	clustertest.Await(t, time.Minute, "the bucket to be deleted", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		err := admin.DeleteStream(ctx, "KV_"+r.bucket)
		return err == nil || errors.Is(err, jetstream.ErrStreamNotFound)
	})
	return ops
}

// readAll is the read at the end of the history, through a proxy.
func (r *lifes) readAll() {
	r.t.Helper()
	js, err := jetstream.New(clustertest.Connect(r.t, r.url))
	if err != nil {
		r.t.Fatal(err)
	}
	// A request may be lost where a leader has just changed: it is asked again.
	ask := func(what string, ask func(context.Context) error) {
		r.t.Helper()
		clustertest.Await(r.t, time.Minute, what, func() bool {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			return ask(ctx) == nil
		})
	}
	var st jetstream.Stream
	var info *jetstream.StreamInfo
	ask("the bucket's keys", func(ctx context.Context) (err error) {
		if st, err = js.Stream(ctx, "KV_"+r.bucket); err == nil {
			info, err = st.Info(ctx, jetstream.WithSubjectFilter(">"))
		}
		return err
	})
	for subject := range info.State.Subjects {
		ask("the last read of "+subject, func(ctx context.Context) error {
			_, err := st.GetLastMsgForSubject(ctx, subject)
			return err
		})
	}
}

// claimant lives, crashes and comes back, as itself or as a stranger, until ctx
// ends.
func (r *lifes) claimant(ctx context.Context, i int) {
	rnd := mathrand.New(mathrand.NewPCG(r.seed, uint64(i+1)))
	newDir := func() string { return filepath.Join(r.root, fmt.Sprint(r.dirs.Add(1))) }
	dir := newDir()
	for ctx.Err() == nil {
		state, err := epochkv.OpenStateDir(dir)
		if err != nil {
			r.t.Error(err)
			return
		}
		// It crashes in the middle of whatever it does.
		life, crash := context.WithTimeout(ctx, time.Duration(500+rnd.IntN(4000))*time.Millisecond)
		r.live(life, state, rnd)
		crash()
		if err := state.Close(); err != nil {
			r.t.Error(err)
		}
		if rnd.IntN(2) == 0 {
			dir = newDir()
			r.counts.strangers.Add(1)
		}
	}
}

// instance is one life of a claimant.
type instance struct {
	*lifes
	rnd     *mathrand.Rand
	cells   *epochkv.Cells
	log     *journal.Log
	writers map[string]*journal.Writer
	epoch   map[string]uint64
}

func presence(holder string) string { return "linear.presence." + holder }

func (r *lifes) live(ctx context.Context, state *epochkv.StateDir, rnd *mathrand.Rand) {
	nc, err := nats.Connect(r.url, append(journal.ConnOptions(), nats.ReconnectWait(30*time.Millisecond), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))...)
	if err != nil {
		return // no server can be reached just now
	}
	closed := nc.StatusChanged(nats.CLOSED)
	defer func() {
		nc.Close() // releases nothing and says nothing
		<-closed
	}()
	js, err := jetstream.New(nc)
	if err != nil {
		r.t.Error(err)
		return
	}
	in := &instance{lifes: r, rnd: rnd, writers: map[string]*journal.Writer{}, epoch: map[string]uint64{}}
	in.log, err = journal.Open(ctx, js, journal.Config{AckWait: patience, GiveUp: patience})
	if err != nil {
		return
	}
	defer in.log.Close()
	in.cells, err = epochkv.Open(ctx, js, epochkv.Config{
		Bucket: r.bucket, State: state, Heartbeat: beat, RequestTimeout: patience,
		Presence: func(ctx context.Context, holder string) (bool, error) {
			ctx, cancel := context.WithTimeout(ctx, beat)
			defer cancel()
			_, err := nc.RequestWithContext(ctx, presence(holder), nil)
			if errors.Is(err, nats.ErrNoResponders) {
				return true, nil
			}
			return false, err
		},
	})
	if err != nil {
		if errors.Is(err, epochkv.ErrIgnoresCAS) || errors.Is(err, epochkv.ErrStaleReads) {
			r.t.Error(err)
		}
		return
	}
	if _, err := nc.Subscribe(presence(in.cells.HolderID()), func(m *nats.Msg) { _ = m.Respond(nil) }); err != nil {
		return
	}
	in.beat(ctx)
	r.counts.crashes.Add(1)
	stats := in.cells.Stats()
	r.counts.deposals.Add(int64(stats.Deposals))
	r.counts.fenced.Add(int64(stats.Fenced))
}

func (in *instance) beat(ctx context.Context) {
	started := false
	for ctx.Err() == nil {
		in.wait(ctx, time.Duration(in.rnd.Int64N(int64(2*beat))))
		if in.rnd.Float64() < 0.01 {
			in.pause(ctx)
		}
		if !started {
			started = in.cells.StartHolder(ctx) == nil
			continue
		}
		if err := in.cells.Renew(ctx, []byte(`{"beat":1}`)); errors.As(err, new(*epochkv.Fenced)) || errors.Is(err, epochkv.ErrNoHolder) {
			started = false
			continue // its writers go on: the fence must hold them
		}
		for _, scope := range in.scopes {
			in.lead(ctx, scope)
			if in.cells.Held(scope) == 0 {
				in.claim(ctx, scope)
			} else if in.rnd.Float64() < 0.1 {
				in.counts.releases.Add(1)
				_ = in.cells.Release(ctx, scope) // unanswered: a successor waits
			}
		}
	}
}

func (in *instance) wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// pause stands still for longer than the quiet window.
func (in *instance) pause(ctx context.Context) {
	in.counts.pauses.Add(1)
	in.wait(ctx, beat*time.Duration(epochkv.DefaultQuietPolls)*time.Duration(2+in.rnd.IntN(3)))
}

// lead appends under the last epoch that was opened here, still held or not.
func (in *instance) lead(ctx context.Context, scope string) {
	w := in.writers[scope]
	if w == nil {
		return
	}
	evs := retired(scope, in.epoch[scope], 1+in.rnd.IntN(3))
	res, err := w.Append(ctx, evs)
	switch {
	case err == nil && res.Landed:
		in.counts.appended.Add(int64(len(evs)))
		in.mu.Lock()
		for _, e := range evs {
			in.landed[scope] = append(in.landed[scope], e.ID)
		}
		in.mu.Unlock()
	case err == nil, errors.Is(err, journal.ErrUnavailable), errors.Is(err, journal.ErrRefused):
	default: // fenced, or unsettled as the life ended
		delete(in.writers, scope)
		in.cells.Drop(scope)
	}
}

// claim makes one step and opens what it claimed, as P1 says.
func (in *instance) claim(ctx context.Context, scope string) {
	last, err := in.log.LastOpened(ctx, scope)
	if err != nil {
		return
	}
	var seq, epoch uint64
	if last != nil {
		seq, epoch = last.Seq, last.Event.Epoch
	}
	claim, err := in.cells.ClaimStep(ctx, scope, epoch)
	if err != nil {
		if errors.As(err, new(*epochkv.EpochBehind)) || errors.Is(err, epochkv.ErrForeignCell) {
			in.t.Errorf("claim step: %v", err)
		}
		return
	}
	if !claim.Claimed() {
		return
	}
	in.counts.claims.Add(1)
	in.once(scope, claim.Epoch)
	if in.rnd.Float64() < 0.1 {
		in.pause(ctx) // between set and fence
	}
	fence, err := openEpoch(ctx, in.log, scope, in.cells.HolderID(), claim.Epoch, seq)
	if err != nil {
		in.cells.Drop(scope)
		return
	}
	term := journal.Term{
		Scope: scope, Epoch: claim.Epoch, Fence: fence, Tail: fence, Chain: events.NewChain(macKey), Holder: in.cells.HolderID(), NewID: rand.Text, Now: time.Now,
	}
	err = in.log.Replay(ctx, scope, 1, fence, func(m journal.Message) error {
		seq, payload := m.Seq, m.Payload
		_, err := term.Chain.Admit(payload, seq)
		return err
	})
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, journal.ErrStalled) && !errors.Is(err, journal.ErrUnavailable) {
			in.t.Errorf("folding scope %s up to %d: %v", scope, fence, err)
		}
		in.cells.Drop(scope)
		return
	}
	in.writers[scope], in.epoch[scope] = in.log.NewWriter(term), claim.Epoch
	_ = in.cells.Opened(scope, claim.Epoch) // fenced meanwhile
}

// once checks that an epoch was given to one claimant only.
func (in *instance) once(scope string, epoch uint64) {
	key := fmt.Sprintf("%s/%d", scope, epoch)
	in.mu.Lock()
	defer in.mu.Unlock()
	if other, given := in.epochs[key]; given {
		in.t.Errorf("%s was claimed by %s and by %s", key, other, in.cells.HolderID())
	}
	in.epochs[key] = in.cells.HolderID()
}
