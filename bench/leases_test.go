package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/bench/instance"
	"github.com/leasesvc/leasesvc/bench/table"
	"github.com/leasesvc/leasesvc/epochkv"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/handover/wire"
)

// leases measures an instance that holds many leases: what each takes of memory,
// what all take of a core while nothing but their renewals happens, and how many
// renewals a second it makes of a Vault that needs 2 ms for one.
func leases(t *testing.T, tb *table.Table) {
	var idle []float64
	alone := instanceAlone(t, tb)
	counts := sized([]int{200}, []int{10_000}, []int{1_000, 10_000, 100_000})
	for _, n := range counts {
		holds(t, tb, n, alone, &idle)
	}
	if len(idle) > 1 {
		a, b := idle[0], idle[len(idle)-1]
		tb.Figure(t, "idle: growth with leases", "%/10^5", (b-a)/(float64(counts[len(counts)-1]-counts[0])/1e5), "what 100,000 more leases add, in percent of a core")
	}
	if *size != "short" {
		t.Run("renewing", func(t *testing.T) { renewing(t, tb, sized(200, 0, 20_000)) })
	}
}

// prefill writes the log of a scope with n leases, granted when at says.
func (r *rig) prefill(scope string, n int, at func(i int) time.Time) {
	r.t.Helper()
	key, keyID = r.keys.MACKey(), r.keys.ID()
	w := r.place.writer(r.t, scope, 1)
	r.giveBack(scope, 1)
	must(r.t, w, []events.Event{{
		ID: newID(), Scope: scope, Name: events.DefinitionsName, Epoch: 1, Time: began, Actor: oneActor,
		Data: &events.Applied{Revision: 5, Digest: "prefilled"},
	}})
	fillLog(r.t, w, scope, n, 0, n*lifeEvents, func(int) time.Time { return at(0) })
	r.storeValues(scope, n)
	evs := make([]events.Event, 0, 1000)
	for i := range n { // the last renewal of each
		e := history(scope, n, n*lifeEvents+i, func(i int) time.Time { return at(i) })
		e.Data.(*events.Renewed).GuardTTL = guardLeft(i)
		if evs = append(evs, e); len(evs) == cap(evs) || i == n-1 {
			must(r.t, w, evs)
			evs = evs[:0]
		}
	}
}

// guardEvery is how many renewals of a lease for an hour there are to one that extends
// its guard.
const guardEvery = 3

// guardLeft gives what is left of a lease's guard after a renewal: of each three the
// next one extends it.
func guardLeft(lease int) events.Seconds {
	return events.WholeSeconds([guardEvery]int64{7260, 5550, 3840}[lease%guardEvery])
}

// storeValues puts something in the place of the sealed values of n leases: a lease
// without is one whose values are lost, and a successor is asked for.
func (r *rig) storeValues(scope string, n int) {
	r.t.Helper()
	if _, err := handover.OpenBlobs(background(r.t), r.place.js, handover.BlobsBucket, r.place.replicas); err != nil {
		r.t.Fatal(err)
	}
	sealed := bytes.Repeat([]byte("x"), 300)
	for i := range n {
		e := history(scope, n, i*lifeEvents, func(int) time.Time { return began })
		if _, err := r.place.js.PublishAsync(fmt.Sprintf("$KV.%s.%s.%s.%d", handover.BlobsBucket, scope, e.Name, i+1), sealed); err != nil {
			r.t.Fatal(err)
		}
	}
	select {
	case <-r.place.js.PublishAsyncComplete():
	case <-background(r.t).Done():
		r.t.Fatal("the sealed values were not stored")
	}
}

// giveBack writes the cell of a scope whose epoch was given back, and the probe of
// its sealed values: a log without them is one that lost its buckets, and nobody
// leads it.
func (r *rig) giveBack(scope string, epoch uint64) {
	r.t.Helper()
	st, err := r.place.js.CreateOrUpdateStream(background(r.t), epochkv.StreamConfig(epochkv.DefaultBucket, r.place.replicas))
	if err != nil {
		r.t.Fatal(err)
	}
	cell, err := json.Marshal(epochkv.ScopeCell{Product: "leasesvc", Holder: holder, Incarnation: holder, Released: true, Epoch: epoch, ClaimedAt: began})
	if err != nil {
		r.t.Fatal(err)
	}
	ack, err := r.place.js.Publish(background(r.t), "$KV."+epochkv.DefaultBucket+".scope."+scope, cell)
	if err != nil || ack.Sequence < epoch {
		r.t.Fatalf("the cell of %s in %s: %v, %v", scope, st.CachedInfo().Config.Name, ack, err)
	}
	blobs, err := handover.OpenBlobs(background(r.t), r.place.js, handover.BlobsBucket, r.place.replicas)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := blobs.Probe(background(r.t), r.keys, scope); err != nil {
		r.t.Fatal(err)
	}
}

func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// stateAlone gives what a projection takes for each lease, and what it takes when each
// has a consumer with one instance.
func (r *rig) stateAlone(n int) (each, registered float64) {
	before := inUse()
	p := r.place.fold(r.t, nil, "prod", ^uint64(0))
	each = float64(inUse()-before) / float64(n)
	for i := range n {
		name, incarnation := fmt.Sprintf("app-%06d", i), newID()
		if err := p.State().Apply(&events.Event{
			ID: newID(), Scope: "prod", Name: name, Epoch: 1, Seq: p.LastSeq() + 1 + uint64(i), Time: began, Actor: oneActor,
			Data: &events.Registered{
				Consumer: "shop", Instance: fmt.Sprintf("shop-7d9c5b6f4-%05d", i), Incarnation: incarnation,
				XKey: fmt.Sprintf("X%055d", i), Subject: wire.ConsumerSubject("prod", name, incarnation),
			},
		}); err != nil {
			r.t.Fatal(err)
		}
		p.State().Confirm(name, incarnation, p.State().Name(name).N)
	}
	registered = float64(inUse()-before) / float64(n)
	runtime.KeepAlive(p)
	return each, registered
}

// instanceAlone measures what an instance without leases takes of the heap.
func instanceAlone(t *testing.T, tb *table.Table) float64 {
	t.Helper()
	r := newRig(t).on(1, false)
	in := r.apart("{prod: {definitions: none.yaml}}")
	r.leads(in, 1)
	r.settle(in, 0)
	took := in.Heap()
	in.Stop()
	tb.Figure(t, "memory, an instance without leases", "MiB", took/(1<<20), "the heap after a collection of a process that is an instance which leads a scope")
	return took
}

func holds(t *testing.T, tb *table.Table, n int, alone float64, idle *[]float64) {
	t.Run(fmt.Sprint(n), func(t *testing.T) {
		r := newRig(t).on(1, false)
		now := time.Now().UTC()
		// Renewed over the last half hour, so that the next ones come as they do
		// after a while, some at once: they are due after 27 to 30 minutes.
		r.prefill("prod", n, func(i int) time.Time { return now.Add(-time.Duration(i) * 30 * time.Minute / time.Duration(n)) })
		r.renewable()
		stateOnly, registered := r.stateAlone(n)
		begin := time.Now()
		in := r.apart("{prod: {definitions: none.yaml}}")
		r.leads(in, 1)
		starting := time.Since(begin)
		r.settle(in, n)
		each := (in.Heap() - alone) / float64(n)
		if n >= 10_000 || *size == "tiny" {
			tb.AtMost(t, fmt.Sprintf("memory, %d leases in one process", n), "B/lease", each, 2048, "the heap after a collection of a process that is an instance which leads them, less that of one without leases; values not held")
		} else {
			tb.Figure(t, fmt.Sprintf("memory, %d leases in one process", n), "B/lease", each, "the same")
		}
		tb.Figure(t, fmt.Sprintf("memory, %d leases, the state alone", n), "B/lease", stateOnly, "the projection alone")
		tb.Figure(t, fmt.Sprintf("memory, %d leases with a consumer each, the state alone", n), "B/lease", registered, "the projection alone, with an instance of a consumer registered for each lease")
		if *size != "short" {
			d := sized(200*time.Millisecond, 0, 15*time.Second)
			renewed := in.Figures().Events[events.TypeRenewed]
			used := in.Busy(d)
			perSecond := table.Rate(in.Figures().Events[events.TypeRenewed]-renewed, d)
			*idle = append(*idle, used)
			how := fmt.Sprintf("of the instance's process over %s; TTL 1 h, %.0f renewals a second meanwhile, each recorded; NATS and Vault in another process", d, perSecond)
			name := fmt.Sprintf("idle, %d leases", n)
			if n < 100_000 {
				tb.Figure(t, name, "% of a core", used, how)
			} else {
				tb.AtMost(t, name, "% of a core", used, 3, how)
			}
			tb.Figure(t, fmt.Sprintf("start until it leads, %d leases, no snapshot", n), "ms", table.MS(starting), fmt.Sprintf("a whole instance: a process, connect, follow %d events, claim, open", n*(lifeEvents+1)))
		}
		in.Stop()
	})
}

// leads waits until an instance leads so many scopes.
func (r *rig) leads(in *instance.Instance, scopes int) {
	r.t.Helper()
	r.await("the holder", func() bool { return in.Figures().Led == scopes })
}

// settle waits until a start is over: every name looked at, and what became due
// while the log was written renewed.
func (r *rig) settle(in *instance.Instance, n int) {
	look := sized(50*time.Millisecond, 2*time.Second, 2*time.Second)
	usual := 2*float64(n)/(30*60) + 5
	for range 60 {
		was := in.Figures()
		<-time.After(look)
		is := in.Figures()
		if table.Rate(is.Events[events.TypeRenewed]-was.Events[events.TypeRenewed], look) <= usual && is.CPU-was.CPU < look/20 {
			return
		}
	}
}

// renewing measures how many renewals a second are made when all are due.
func renewing(t *testing.T, tb *table.Table, n int) {
	r := newRig(t).on(1, false)
	due := time.Now().UTC().Add(-31 * time.Minute)
	r.prefill("prod", n, func(int) time.Time { return due })
	r.renewable()
	raw := r.renewByHand(sized(200, 0, 10_000))
	in := r.apart("{prod: {definitions: none.yaml}}")
	renewed := func() int { return in.Figures().Events[events.TypeRenewed] }
	r.await("the first renewal", func() bool { return renewed() > 0 })
	begin, first := time.Now(), renewed()
	r.await("the renewals", func() bool { return renewed() >= n })
	ours := table.Rate(renewed()-first, time.Since(begin))
	in.Stop()
	how := fmt.Sprintf("%d leases due at once, each a renewal of the lease, every third one of its guard as well, 2 ms each, 64 in flight, recorded in the log; raw: the same requests by a plain HTTP client, nothing recorded", n)
	tb.Beside(t, "renewals against a Vault that answers in 2 ms", "renewals/s", ours, raw, false, 0, how)
}

// byHand gives a function that makes the requests of a renewal with a plain
// client.
func (r *rig) byHand() (renew, end func()) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, MaxConnsPerHost: 64}}
	ask := func(path string) {
		q, err := http.NewRequestWithContext(background(r.t), http.MethodPost, r.vault.URL()+"/v1/"+path, bytes.NewReader([]byte(`{"lease_id":"x","accessor":"x","increment":3600}`)))
		if err != nil {
			r.t.Error(err)
			return
		}
		q.Header.Set("X-Vault-Token", r.vault.RootToken().Reveal())
		a, err := client.Do(q)
		if err != nil {
			r.t.Error(err)
			return
		}
		_, _ = io.Copy(io.Discard, a.Body)
		_ = a.Body.Close()
		if a.StatusCode != http.StatusOK {
			r.t.Error(a.Status)
		}
	}
	var made atomic.Int64
	return func() {
		ask("sys/leases/renew")
		if made.Add(1)%guardEvery == 0 {
			ask("auth/token/renew-accessor")
		}
	}, client.CloseIdleConnections
}

// renewByHand makes the requests of so many renewals as fast as it can.
func (r *rig) renewByHand(n int) (perSecond float64) {
	renew, end := r.byHand()
	defer end()
	var wg sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(n))
	begin := time.Now()
	for range 64 {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				renew()
			}
		})
	}
	wg.Wait()
	return table.Rate(n, time.Since(begin))
}
