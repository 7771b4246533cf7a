package service_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/leasesvc/leasesvc/epochkv"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/handover/wire"
	"github.com/leasesvc/leasesvc/service"
)

// Who answers reads, and what the answers may promise (docs/adr/0006).

// asker asks for a name and repeats nothing.
type asker struct {
	t    *testing.T
	nc   *nats.Conn
	pair nkeys.KeyPair
	xkey string

	within time.Duration // how long an answer is waited for
}

func (r *rig) asker() *asker {
	r.t.Helper()
	pair, err := nkeys.CreateCurveKeys()
	if err != nil {
		r.t.Fatal(err)
	}
	xkey, err := pair.PublicKey()
	if err != nil {
		r.t.Fatal(err)
	}
	return &asker{t: r.t, nc: r.nats.Conn(r.t), pair: pair, xkey: xkey, within: 5 * time.Second}
}

// given is an answer and until when it may be relied on.
type given struct {
	wire.Got
	asked, good time.Time
}

// get asks once.
func (a *asker) get(svc *service.Service, name string) (given, error) {
	body, err := wire.Encode(wire.Get{XKey: a.xkey, Nonce: wire.NewNonce()})
	if err != nil {
		return given{}, err
	}
	g := given{asked: time.Now()}
	m, err := a.nc.Request(wire.Subject(wire.OpGet, "prod", name), body, a.within)
	if err != nil {
		return g, err
	}
	if !wire.IsSealed(m.Data) {
		refusal, err := wire.Decode[wire.Refusal](m.Data)
		return g, errors.Join(refusal, err)
	}
	plain, err := wire.Open(a.pair, svc.ServiceKey(), m.Data)
	if err == nil {
		g.Got, err = wire.Decode[wire.Got](plain)
	}
	g.good = g.asked.Add(g.GoodFor.Duration())
	return g, err
}

// Who gave the scope back answers as a standby while nobody leads it.
func TestStandby_AnswersReads(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.definitions(1, otherDefinition)
	svc, _ := r.start("state-a")
	r.await("a lease", func() bool { return r.active("other") != 0 })
	a := r.asker()
	before, err := a.get(svc, "other")
	if err != nil {
		t.Fatal(err)
	}
	r.done(r.api().StepDown(aBit(t), "prod"))
	r.await("an answer of the standby", func() bool {
		g, err := a.get(svc, "other")
		if err != nil && !strings.Contains(err.Error(), string(wire.CodeNotLeader)) {
			t.Fatal(err)
		}
		standby, _ := service.StandbyReads(svc, "prod")
		if err == nil && (g.Lease != before.Lease || g.Epoch != before.Epoch || string(g.Values) != string(before.Values) || g.GoodFor > before.GoodFor) {
			t.Fatalf("%+v, before %+v", g.Got, before.Got)
		}
		return standby > 0
	})
	if _, err := a.get(svc, "nobody"); err == nil || !strings.Contains(err.Error(), string(wire.CodeUnknownName)) {
		t.Errorf("of a name that is not there: %v", err)
	}
	m, err := a.nc.Request(wire.KeySubject("prod"), nil, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if k, err := wire.Decode[wire.Key](m.Data); err != nil || k.XKey != svc.ServiceKey() || k.Epoch != before.Epoch {
		t.Errorf("%+v, %v", k, err)
	}
	if n := len(r.events(events.TypeOpened)); n != 1 {
		t.Errorf("%d epochs", n)
	}
}

// No read is lost when a scope is handed over, or its holder's process ends: each is
// answered in the end. How long that takes says something of the machine only.
func TestStandby_NoReadIsLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.heartbeat = "500ms" // a slow machine is late by more than a quiet window of 600 ms
	r.before = func(s *service.Service) { service.RefuseReadsAfter(s, 20*time.Second) }
	r.definitions(1, otherDefinition)
	svc, stopA := r.start("state-a")
	r.await("a lease", func() bool { return r.active("other") != 0 })
	b, stopB := r.start("state-b")
	r.await("a standby", func() bool { return strings.Contains(r.out.String(), "standing by") })

	ctx, cancel := context.WithCancel(context.Background())
	var asking sync.WaitGroup
	var asked, failed atomic.Int64
	for range 4 {
		a := r.asker()
		a.within = 40 * time.Second
		asking.Go(func() {
			for ctx.Err() == nil {
				if g, err := a.get(svc, "other"); err != nil || g.Lease == 0 {
					failed.Add(1)
					t.Errorf("lost: %v", err)
				}
				asked.Add(1)
				<-time.After(2 * time.Millisecond)
			}
		})
	}
	opened := func(n int) func() bool {
		return func() bool { return r.count(events.TypeOpened) == n }
	}
	some := func() {
		from := asked.Load()
		r.await("reads", func() bool { return asked.Load() > from+50 })
	}
	some()
	r.done(r.api().StepDown(aBit(t), "prod")) // a to b
	r.await("the successor", opened(2))
	some()
	r.await("a standby again", func() bool { return strings.Count(r.out.String(), "standing by") >= 2 })
	if err := stopB(); err != nil { // b to a, as SIGTERM does
		t.Error(err)
	}
	r.await("the successor", opened(3))
	some()
	c, _ := r.start("state-c")
	r.await("a standby", func() bool { return strings.Count(r.out.String(), "standing by") >= 3 })
	some()
	service.CutOff(svc) // as kill -9 does
	r.await("the successor", opened(4))
	some()
	cancel()
	asking.Wait()
	_ = stopA() // it can't release
	standby := int64(0)
	for _, s := range []*service.Service{svc, b, c} {
		n, _ := service.StandbyReads(s, "prod")
		standby += n
	}
	if standby == 0 {
		t.Error("no standby was needed")
	}
	t.Logf("%d reads, %d of them answered by standbys, %d lost", asked.Load(), standby, failed.Load())
}

// A standby that was not fed what a newer holder decided on says nothing of it:
// the lease it knows may be on its way out.
func TestStandby_ThatLagsSaysNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.definitions(1, otherDefinition)
	gate := make(chan struct{})
	var shut atomic.Bool
	r.before = func(s *service.Service) {
		service.HoldFeedsBack(s, func() {
			if shut.Load() {
				<-gate
			}
		})
	}
	a, _ := r.start("state-a")
	r.await("a lease", func() bool { return r.active("other") != 0 })
	r.done(r.api().StepDown(aBit(t), "prod"))
	ask := r.asker()
	r.await("an answer of the standby", func() bool {
		_, _ = ask.get(a, "other")
		n, _ := service.StandbyReads(a, "prod")
		return n > 0
	})
	shut.Store(true)
	defer sync.OnceFunc(func() { close(gate) })()

	r.before = nil
	b, stopB := r.start("state-b")
	r.await("the successor", func() bool {
		_, err := r.api().Rotate(aBit(t), "prod", "other")
		return err == nil
	})
	r.await("the rotation", func() bool { return r.count(events.TypeInstalled) == 2 })
	rotated := r.events(events.TypeInstalled)[1].Lease
	_, before := service.StandbyReads(a, "prod")
	service.CutOff(b)
	r.await("the standby to have been asked", func() bool {
		g, err := ask.get(a, "other")
		if err == nil && g.Lease != rotated {
			t.Fatalf("lease %d was given, which was replaced before it was asked for", g.Lease)
		}
		_, unable := service.StandbyReads(a, "prod")
		return unable > before || r.count(events.TypeOpened) > 2
	})
	if _, unable := service.StandbyReads(a, "prod"); unable == before {
		t.Error("the standby was not asked, or could answer")
	}
	_ = stopB() // it can't release
}

// Whoever answers, and whatever ends the terms: no lease is revoked before the
// last promise that was made of it.
func TestStandby_PromisesAreKept(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.definitions(1, otherDefinition)
	a, stopA := r.start("state-a")
	r.await("a lease", func() bool { return r.active("other") != 0 })
	b, stopB := r.start("state-b")
	ctx, cancel := context.WithCancel(context.Background())
	var working sync.WaitGroup
	var mu sync.Mutex
	var answers []given
	for range 3 {
		ask := r.asker()
		working.Go(func() {
			for ctx.Err() == nil {
				if g, err := ask.get(a, "other"); err == nil {
					mu.Lock()
					answers = append(answers, g)
					mu.Unlock()
				}
			}
		})
	}
	client := r.api()
	working.Go(func() { // rotations all the time
		for ctx.Err() == nil {
			call, done := context.WithTimeout(ctx, time.Second)
			_, _ = client.Rotate(call, "prod", "other") // nobody may lead
			done()
			<-time.After(20 * time.Millisecond)
		}
	})
	opened := func() int { return r.count(events.TypeOpened) }
	rotated := func(n int) {
		from := r.count(events.TypeInstalled)
		r.await("rotations", func() bool { return r.count(events.TypeInstalled) >= from+n })
	}
	for range 3 {
		rotated(5)
		n := opened()
		call, done := context.WithTimeout(ctx, 5*time.Second)
		_, err := client.StepDown(call, "prod")
		done()
		if err != nil {
			t.Log(err)
		}
		r.await("a successor", func() bool { return opened() > n })
	}
	rotated(5)
	n := opened()
	service.CutOff(a)
	c, _ := r.start("state-c")
	rotated(5) // by b, at once or after it took over
	if opened() == n {
		service.CutOff(b)
		r.await("a successor", func() bool { return opened() > n })
		rotated(5)
	}
	cancel()
	working.Wait()
	_, _ = stopA(), stopB() // who was cut off can't release
	revoked := map[uint64]time.Time{}
	for _, e := range r.events(events.TypeRevoking) {
		if _, before := revoked[e.Lease]; !before {
			revoked[e.Lease] = e.Time
		}
	}
	broken := 0
	for _, g := range answers {
		if at, ok := revoked[g.Lease]; ok && g.good.After(at) {
			broken++
			t.Errorf("lease %d of epoch %d was promised until %v, asked %v, and revoked at %v", g.Lease, g.Epoch, g.good, g.asked, at)
		}
	}
	standby := int64(0)
	for _, s := range []*service.Service{a, b, c} {
		k, _ := service.StandbyReads(s, "prod")
		standby += k
	}
	if len(revoked) < 10 || standby == 0 {
		t.Errorf("%d leases were revoked, %d reads answered by standbys", len(revoked), standby)
	}
	t.Logf("%d answers, %d by standbys, %d leases revoked, %d promises broken", len(answers), standby, len(revoked), broken)
}

// TestE21_GetsGoOnWithLessAndLess: while renewals don't get through a holder
// can't know whether it was deposed. Its answers promise less and less, and then
// nothing; nothing of it is irreversible.
func TestE21_GetsGoOnWithLessAndLess(t *testing.T) {
	t.Parallel()
	r := newRig(t, "1h", "2h")
	r.heartbeat = "500ms"
	r.definitions(1, strings.Replace(otherDefinition, "200ms", "3s", 1))
	svc, _ := r.start("state-a")
	r.await("a lease", func() bool { return r.active("other") != 0 })
	js, err := jetstream.New(r.nats.Conn(t))
	if err != nil {
		t.Fatal(err)
	}
	// Not by the bucket's size: what replaces something longer fits into a full one.
	bucket := func(most int32) {
		t.Helper()
		sc := epochkv.StreamConfig(epochkv.DefaultBucket, 1)
		sc.MaxMsgSize = most
		if _, err := js.UpdateStream(aBit(t), sc); err != nil {
			t.Fatal(err)
		}
	}
	a := r.asker()
	full, err := a.get(svc, "other")
	if err != nil || full.GoodFor.Duration() != 3*time.Second {
		t.Fatalf("%+v, %v", full.Got, err)
	}
	bucket(1) // nothing fits any more
	// The last renewal was sent before; six heartbeats later the promise shrinks.
	end := time.Now().Add(3*time.Second + full.GoodFor.Duration())
	last, less := full, 0
	r.await("the promise to end", func() bool {
		g, err := a.get(svc, "other")
		if err != nil {
			if !strings.Contains(err.Error(), string(wire.CodeNotLeader)) {
				t.Fatal(err)
			}
			return true
		}
		if g.GoodFor > last.GoodFor || g.Lease != full.Lease || g.good.After(end) {
			t.Fatalf("%+v after %+v: promised until %v, of at most %v", g.Got, last.Got, g.good, end)
		}
		if g.GoodFor < last.GoodFor {
			less++
		}
		last = g
		return false
	})
	if less < 5 {
		t.Errorf("%d answers promised less than the one before", less)
	}
	bucket(-1)
	r.await("the whole promise again", func() bool {
		g, err := a.get(svc, "other")
		return err == nil && g.GoodFor == full.GoodFor
	})
	if n := r.count(events.TypeOpened); n != 1 {
		t.Errorf("%d epochs", n)
	}
}
