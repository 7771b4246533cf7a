package service_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/projector"
	"github.com/leasesvc/leasesvc/secret"
	"github.com/leasesvc/leasesvc/service/api"
	"github.com/leasesvc/leasesvc/snapshot"
)

// The seal keys of a rig, by name of their files.
const (
	oldAlone = "{file: seal.key}"
	oldFirst = "{file: seal.key, previous: [{file: new.key}]}"
	newFirst = "{file: new.key, previous: [{file: seal.key}]}"
	newAlone = "{file: new.key}"
)

// newKey gives a rig another seal key, and both.
func (r *rig) newKey(file string) *handover.Keys {
	r.t.Helper()
	seed, err := handover.NewSeed()
	if err != nil {
		r.t.Fatal(err)
	}
	r.write(file, seed.Reveal())
	return r.keysOf(seed)
}

func (r *rig) keysOf(seed secret.String) *handover.Keys {
	r.t.Helper()
	k, err := handover.NewKeys(seed)
	if err != nil {
		r.t.Fatal(err)
	}
	return k
}

// under runs an instance with these seal keys.
func (r *rig) under(sealKey, state string) (stop func() error) {
	r.t.Helper()
	r.sealKey = sealKey
	return r.run(state)
}

func (r *rig) stopped(stop func() error) {
	r.t.Helper()
	if err := stop(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) status() (api.Status, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	st, err := r.api().Status(ctx, "prod")
	return st, err == nil
}

// inForce waits until an epoch is led under a key.
func (r *rig) inForce(k *handover.Keys) {
	r.t.Helper()
	r.await("the seal key "+k.ID()+" to be in force", func() bool {
		st, ok := r.status()
		return ok && st.SealKey == k.ID()
	})
}

// removable waits until the holder says that a key is needed no more.
func (r *rig) removable(k *handover.Keys) {
	r.t.Helper()
	last := ""
	r.await("the seal key "+k.ID()+" to be removable", func() bool {
		st, ok := r.status()
		for _, o := range st.OtherKeys {
			if o.ID == k.ID() && o.Says != last {
				last = o.Says
				r.t.Log(last)
			}
			if ok && o.ID == k.ID() && o.Removable {
				return true
			}
		}
		return false
	})
}

// folded folds the whole log under some keys.
func (r *rig) folded(keys ...*handover.Keys) *projector.Projection {
	r.t.Helper()
	ring := events.NewKeyring()
	for _, k := range keys {
		ring.Add(k.ID(), k.MACKey())
	}
	p := projector.NewUnder("prod", ring)
	log, err := journal.Open(context.Background(), r.nats.JS(r.t), journal.Config{ReadOnly: true})
	if err != nil {
		r.t.Fatal(err)
	}
	defer log.Close()
	info, err := log.Info(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	_ = log.Replay(context.Background(), "prod", 1, info.LastSeq, func(m journal.Message) error {
		_, err := p.Apply(m.Seq, m.Payload)
		return err
	})
	return p
}

// getting reads a name again and again with what it pins.
type getting struct {
	client       *consumer.Client
	good, failed atomic.Int64
	last         atomic.Pointer[error]
	stop         func()
}

func (r *rig) getting(name string, pinned ...string) *getting {
	r.t.Helper()
	c, err := consumer.Connect(context.Background(), consumer.Options{
		URL: r.nats.URL(), Scope: "prod", Consumer: "reader", Insecure: true, ServiceKeys: pinned,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	g := &getting{client: c}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			within, done := context.WithTimeout(ctx, 30*time.Second)
			_, err := c.Get(within, name)
			done()
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				g.failed.Add(1)
				g.last.Store(&err)
			} else {
				g.good.Add(1)
			}
		}
	})
	var once sync.Once
	g.stop = func() { once.Do(func() { cancel(); running.Wait(); c.Close() }) }
	r.t.Cleanup(g.stop)
	return g
}

// more waits until it has read some more.
func (r *rig) moreGets(g *getting) {
	r.t.Helper()
	was := g.good.Load()
	r.await("more gets", func() bool { return g.good.Load() > was+20 })
}

func (r *rig) noneFailed(all ...*getting) {
	r.t.Helper()
	for i, g := range all {
		g.stop()
		if n := g.failed.Load(); n > 0 {
			r.t.Errorf("reader %d: %d of %d gets failed, the last: %v", i, n, n+g.good.Load(), *g.last.Load())
		}
	}
}

const rotatedDefinitions = `  app:
    path: database/creds/app
    kind: postgresql
    consumers: [{name: shop}]
    prepare_timeout: 5s
    good_for: 200ms
  static:
    path: kv/static
    kind: kv
    poll: 1s
    good_for: 200ms
documents:
  settings: {db: {password: "lease://app#password"}, plain: text}
`

// TestTheSealKeyIsReplacedUnderLoad goes through the procedure of docs/operations.md
// with two instances, an application and readers.
func TestTheSealKeyIsReplacedUnderLoad(t *testing.T) {
	r := newRig(t, "1h", "2h")
	seed, err := readFile(r, "seal.key")
	if err != nil {
		t.Fatal(err)
	}
	older, newer := r.keysOf(seed), r.newKey("new.key")
	r.do("kv/static", map[string]any{"token": "s3cret"})
	r.definitions(1, rotatedDefinitions)

	stopA := r.under(oldAlone, "a")
	app := &shop{rig: r}
	r.serve(app)
	r.await("the leases", func() bool { return r.active("app") > 0 && r.active("static") > 0 })
	stopB := r.under(oldAlone, "b")
	r.await("the application to follow", func() bool { return app.lease() > 0 })
	pinsOld, pinsBoth, pinsNone := r.getting("app", older.Public()), r.getting("app", newer.Public(), older.Public()), r.getting("static")
	readers := []*getting{pinsOld, pinsBoth, pinsNone}
	r.moreGets(pinsOld)
	acquired := r.count(events.TypeAcquired)

	// 1. Each instance gets the new key, beside its own. The holder goes second.
	r.stopped(stopB)
	stopB = r.under(oldFirst, "b")
	r.stopped(stopA)
	stopA = r.under(oldFirst, "a")
	r.inForce(older)
	r.await("it to be said that the new key can be put first", func() bool {
		st, _ := r.status()
		return len(st.OtherKeys) == 1 && strings.Contains(st.OtherKeys[0].Says, "it can be put first")
	})
	// 2. Each has the new one first.
	r.stopped(stopA)
	stopA = r.under(newFirst, "a")
	r.stopped(stopB)
	r.inForce(newer)
	for _, g := range readers {
		r.moreGets(g)
	}
	stopB = r.under(newFirst, "b")
	// What pins only the old key keeps it.
	r.await("readers of the old key to be told of", func() bool {
		st, _ := r.status()
		return len(st.OtherKeys) == 1 && !st.OtherKeys[0].Removable && strings.Contains(st.OtherKeys[0].Says, "a reader who pins no other asked")
	})
	if n := r.count(events.TypeAcquired); n != acquired {
		t.Errorf("%d leases were acquired because of it", n-acquired)
	}
	if n := r.count(events.TypeChanged); n != 0 {
		t.Errorf("%d secrets count as changed because of it", n)
	}
	// Both sides still hand over.
	before := app.lease()
	r.done(r.api().Rotate(context.Background(), "prod", "app"))
	r.await("a hand-over under the new key", func() bool { return app.lease() > before })
	pinsOld.stop()

	// 3. The old one goes, when the service says so (who pinned it asks no more).
	r.stopped(stopA) // whoever comes to lead has not heard of those readers
	stopA = r.under(newFirst, "a")
	r.stopped(stopB)
	stopB = r.under(newFirst, "b")
	r.removable(older)
	r.stopped(stopA)
	stopA = r.under(newAlone, "a")
	r.stopped(stopB)
	r.inForce(newer)
	r.moreGets(pinsBoth)
	r.moreGets(pinsNone)
	r.noneFailed(readers...)

	// From the beginning of the log, without the old key and without a snapshot.
	r.stopped(stopA)
	r.deleteStream("OBJ_" + snapshot.Bucket)
	r.under(newAlone, "c")
	r.inForce(newer)
	doc, err := r.reader().Document(context.Background(), "settings")
	if err != nil || !strings.Contains(doc.JSON().Reveal(), "text") {
		t.Errorf("%v", err)
	}
	if n := r.count(events.TypeChanged); n != 0 {
		t.Errorf("%d secrets count as changed", n)
	}
	if d := r.examine(); len(d.Found) != 0 {
		t.Errorf("%+v", d)
	}
	// I6: both segments give the state that is led with.
	if p := r.folded(newer, older); p.Stopped() != nil || p.State().Name("app") == nil || p.State().Name("app").Active != r.active("app") {
		t.Errorf("stopped: %v", p.Stopped())
	}
	if n, _ := r.folded(older, newer).Skipped(); n != 0 {
		t.Errorf("%d events don't count", n)
	}
}

func readFile(r *rig, name string) (secret.String, error) {
	b, err := os.ReadFile(filepath.Join(r.dir, name))
	return secret.New(strings.TrimSpace(string(b))), err
}

// servePinned runs another instance of the application, which pins these keys.
func (r *rig) servePinned(s *shop, instance string, pinned ...string) (stop func()) {
	r.t.Helper()
	client, err := consumer.Connect(context.Background(), consumer.Options{
		URL: r.nats.URL(), Scope: "prod", Consumer: "shop", Instance: instance, Insecure: true, ServiceKeys: pinned,
		RegisterEvery: 200 * time.Millisecond,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := client.Serve(ctx, "app", s); err != nil {
			r.t.Errorf("%s ended with: %v", instance, err)
		}
	})
	var once sync.Once
	stop = func() { once.Do(func() { cancel(); serving.Wait(); client.Close() }) }
	r.t.Cleanup(stop)
	return stop
}

// TestAConsumerThatPinsNoOtherKeyIsNamed: it follows like the others, under the key
// that it pins, until it pins the new one.
func TestAConsumerThatPinsNoOtherKeyIsNamed(t *testing.T) {
	r := newRig(t, "1h", "2h")
	seed, err := readFile(r, "seal.key")
	if err != nil {
		t.Fatal(err)
	}
	older, newer := r.keysOf(seed), r.newKey("new.key")
	r.definitions(1, appDefinition)
	late, both, new := &shop{rig: r}, &shop{rig: r}, &shop{rig: r}
	stop := r.under(oldFirst, "a")
	stopLate := r.servePinned(late, "late", older.Public())
	r.servePinned(both, "both", older.Public(), newer.Public())
	r.servePinned(new, "new", newer.Public()) // before the key is in force
	all := func(above uint64) func() bool {
		return func() bool { return late.lease() > above && both.lease() > above && new.lease() > above }
	}
	r.await("all to follow under the old key", all(0))
	r.stopped(stop)
	r.under(newFirst, "a")
	r.inForce(newer)
	was := r.active("app")
	r.done(r.api().Rotate(context.Background(), "prod", "app"))
	r.await("all to follow a rotation", all(was))
	if n := r.count(events.TypeRolledBack); n != 0 {
		t.Errorf("%d hand-overs were rolled back", n)
	}
	r.await("the late one to be named", func() bool {
		st, _ := r.status()
		return len(st.OtherKeys) == 1 && !st.OtherKeys[0].Removable && len(st.OtherKeys[0].Consumers) == 1 && st.OtherKeys[0].Consumers[0] == "shop/late"
	})
	stopLate()
	back := &shop{rig: r}
	r.servePinned(back, "late", older.Public(), newer.Public())
	r.await("it to be back", func() bool { return back.lease() > 0 })
	r.removable(older)
}
