package vault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// patient gives limits of a test: probes come soon.
func patient(cfg *Config) {
	cfg.Limits = Limits{ProbeFirst: 100 * time.Millisecond, ProbeLast: 100 * time.Millisecond}
}

const healthy = `{"initialized":true,"sealed":false,"standby":false,"version":"2.5.0","server_time_utc":1700000000}`

// outage is a server that is out until told otherwise.
type outage struct {
	mu     sync.Mutex
	status int // 0: it serves
	body   string
}

func (o *outage) set(status int, body string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.status, o.body = status, body
}

func (o *outage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.status != 0:
		says(o.status, o.body)(w, r)
	case r.URL.Path == "/v1/sys/health":
		says(200, healthy)(w, r)
	default:
		says(200, `{"lease_id":"l","lease_duration":60,"renewable":true,"data":{"k":1}}`)(w, r)
	}
}

func renewMany(t *testing.T, c *Client, n int) (errs []error) {
	t.Helper()
	var wg sync.WaitGroup
	errs = make([]error, n)
	for i := range n {
		wg.Go(func() {
			_, errs[i] = c.RenewLease(t.Context(), fmt.Sprintf("db/creds/app/%d", i), time.Hour)
		})
	}
	wg.Wait()
	return errs
}

func TestC13_AnOutageCostsOneProbeNotOneRequestPerLease(t *testing.T) {
	for name, out := range map[string]struct {
		status int
		body   string
		kind   Kind
	}{
		"sealed":           {503, `{"errors":["Vault is sealed"]}`, KindSealed},
		"standby":          {500, `{"errors":["local node not active but active cluster node not found"]}`, KindStandby},
		"uninitialised":    {501, `{"errors":["not initialized"]}`, KindUninitialised},
		"a gateway's page": {502, `<html>bad gateway</html>`, KindTransient},
	} {
		t.Run(name, func(t *testing.T) {
			o := &outage{}
			f := newFake(t, o.ServeHTTP)
			moved := make(chan Circuit, 16)
			c := f.client(t, patient, func(cfg *Config) { cfg.OnCircuit = func(s Circuit) { moved <- s } })
			o.set(out.status, out.body)
			_, err := c.RenewLease(t.Context(), "db/creds/app/first", time.Hour)
			wantKind(t, err, out.kind)
			before := len(f.requests(""))
			var probes int
			started := time.Now()
			for range 20 {
				for _, err := range renewMany(t, c, 20) {
					var e *Error
					if !errors.As(err, &e) || e.OutcomeUnknown {
						t.Fatalf("got %v", err)
					}
					// The call that probes may hear another word for it from health.
					if e.NotSent && e.RetryAfter == 0 && e.Kind == KindNone {
						t.Fatalf("no kind: %v", err)
					}
					if !e.NotSent && e.Kind != out.kind {
						t.Fatalf("a call that was sent: %v", err)
					}
				}
			}
			probes = len(f.requests("")) - before
			// A probe each 80 to 120 ms, of at most a health question and a call.
			if most := 2 * (1 + int(time.Since(started)/(80*time.Millisecond))); probes > most {
				t.Errorf("400 renewals during the outage made %d requests in %s, at most %d were to be", probes, time.Since(started), most)
			}
			if s := c.Circuit(); !s.Out || s.Kind == KindNone || s.Since.IsZero() {
				t.Errorf("status %+v", s)
			}
			o.set(0, "")
			eventually(t, "it is found back", func() bool {
				_, err := c.RenewLease(t.Context(), "db/creds/app/first", time.Hour)
				return err == nil
			})
			if s := c.Circuit(); s.Out {
				t.Errorf("status %+v", s)
			}
			if len(moved) != 2 || !(<-moved).Out || (<-moved).Out {
				t.Error("not told that it went out and came back")
			}
		})
	}
}

func TestC52_RefusedConnectionFailsAtOnceAndIsFoundBack(t *testing.T) {
	o := &outage{}
	f := newFake(t, o.ServeHTTP)
	c := f.client(t, patient)
	address := f.Listener.Addr().String()
	f.CloseClientConnections()
	f.Config.SetKeepAlivesEnabled(false)
	if err := f.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	for _, idle := range c.transports {
		idle.CloseIdleConnections()
	}
	_, err := c.RenewLease(t.Context(), "l", time.Hour)
	wantKind(t, err, KindUnreachable)
	var e *Error
	_, err = c.CreateGuard(t.Context(), GuardOptions{})
	if !errors.As(err, &e) || e.Kind != KindUnreachable || !e.NotSent || e.OutcomeUnknown || e.RetryAfter <= 0 || e.RetryAfter > 120*time.Millisecond {
		t.Errorf("while it is out: %v", err)
	}
	second := &http.Server{Handler: http.HandlerFunc(o.ServeHTTP)}
	listener := listenAgain(t, address)
	done := make(chan struct{})
	go func() { defer close(done); _ = second.Serve(listener) }()
	t.Cleanup(func() { _ = second.Close(); <-done })
	eventually(t, "it is found back", func() bool {
		_, err := c.RenewLease(t.Context(), "l", time.Hour)
		return err == nil
	})
}

func listenAgain(t *testing.T, address string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestC45_OnePathThatFailsDoesNotPutTheServerOut(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"500":     says(500, `{"errors":["connection refused"]}`),
		"garbage": says(200, `garbage`),
		"a drop":  func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v1/db/creds/broken" {
					answer(w, r)
					return
				}
				says(200, `{"lease_id":"l","lease_duration":60,"data":{"k":1}}`)(w, r)
			})
			c := f.client(t)
			for range 3 * doubtsOut {
				if _, err := c.Read(t.Context(), "db/creds/broken", testGuard(), ReadOptions{}); err == nil {
					t.Fatal("no error")
				}
			}
			if n := len(f.requests("broken")); n != 3*doubtsOut {
				t.Errorf("%d reads arrived, %d were to", n, 3*doubtsOut)
			}
			if _, err := c.Read(t.Context(), "db/creds/app", testGuard(), ReadOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestC45_AMountThatHangsLeavesRoomForOthers(t *testing.T) {
	held := make(chan struct{})
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/slow/creds/app" {
			select {
			case <-held:
			case <-r.Context().Done():
			}
		}
		_, _ = io.WriteString(w, `{"lease_id":"l","lease_duration":60,"data":{"k":1}}`)
	})
	c := f.client(t, func(cfg *Config) { cfg.Limits = Limits{InFlight: 4, PerMount: 2} })
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if _, err := c.Read(t.Context(), "slow/creds/app", testGuard(), ReadOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	eventually(t, "two hang and eight wait", func() bool {
		s := c.Circuit()
		return len(f.requests("slow")) == 2 && s.InFlight == 2 && s.Waiting == 8
	})
	if _, err := c.Read(t.Context(), "fast/creds/app", testGuard(), ReadOptions{}); err != nil {
		t.Error(err)
	}
	if n := len(f.requests("slow")); n != 2 {
		t.Errorf("%d requests are at the slow mount", n)
	}
	close(held)
	wg.Wait()
}

func TestC53_QuotaPausesTheConnection(t *testing.T) {
	quota := true
	var mu sync.Mutex
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if quota {
			quota = false
			w.Header().Set("Retry-After", r.URL.Query().Get("wait"))
			says(429, `{"errors":["rate limit quota exceeded"]}`)(w, r)
			return
		}
		says(200, `{"lease_id":"l","lease_duration":60,"data":{"k":1}}`)(w, r)
	})
	c := f.client(t)
	ask := func(wait string) error {
		_, err := c.Read(t.Context(), "db/creds/app", testGuard(), ReadOptions{Params: map[string]any{"wait": wait}})
		return err
	}
	var e *Error
	if err := ask("1"); !errors.As(err, &e) || e.Kind != KindQuota || e.NotSent || e.RetryAfter != time.Second {
		t.Fatalf("got %v", err)
	}
	if c.Circuit().PausedUntil.IsZero() || c.Circuit().Out {
		t.Errorf("status %+v", c.Circuit())
	}
	// Short: calls wait for its end, or for the end of their own time.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := c.Read(ctx, "db/creds/app", testGuard(), ReadOptions{})
	if !errors.As(err, &e) || e.Kind != KindTimeout || !e.NotSent {
		t.Errorf("past its own deadline: %v", err)
	}
	started := time.Now()
	if err := ask("1"); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(started); took < 700*time.Millisecond || took > 5*time.Second {
		t.Errorf("waited %s of a pause of 1 s", took)
	}
	// Long: calls fail at once and say when to come back.
	mu.Lock()
	quota = true
	mu.Unlock()
	wantKind(t, ask("30"), KindQuota)
	before := len(f.requests(""))
	if err := ask("30"); !errors.As(err, &e) || e.Kind != KindQuota || !e.NotSent || e.RetryAfter < 25*time.Second || e.RetryAfter > 30*time.Second {
		t.Errorf("in the pause: %v", err)
	}
	if n := len(f.requests("")) - before; n != 0 {
		t.Errorf("%d requests arrived in the pause", n)
	}
}

// TestC13_RecoveryGoesByUrgencyAndAtAGrowingRate lets 10,000 calls wait for one
// probe, on a clock of its own.
func TestC13_RecoveryGoesByUrgencyAndAtAGrowingRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls = 10_000
		limits := Limits{}
		if err := limits.fill(); err != nil {
			t.Fatal(err)
		}
		g := newGate(limits, func(Circuit) {})
		defer g.stop()
		first := g.enter(t.Context(), ask{mount: "db"})
		g.leave(first, outcome{verdict: saysOut, kind: KindSealed})
		time.Sleep(limits.ProbeLast) // on the test's own clock
		probe := g.enter(t.Context(), ask{mount: "db"})
		if !probe.probe {
			t.Fatal("the first call after the back-off does not probe")
		}
		type gone struct {
			order int
			at    time.Duration
		}
		var (
			mu    sync.Mutex
			went  []gone
			wg    sync.WaitGroup
			start = time.Now()
			most  int
		)
		for i := range calls {
			order := (i * 7919) % calls // every one once, in no order
			wg.Go(func() {
				p := g.enter(t.Context(), ask{mount: fmt.Sprint("m", order%7), urgency: start.Add(time.Hour + time.Duration(order)*time.Second)})
				if p.denied != nil {
					t.Errorf("denied: %+v", p.denied)
					return
				}
				mu.Lock()
				went = append(went, gone{order, time.Since(start)})
				g.mu.Lock()
				most = max(most, g.inFlight)
				g.mu.Unlock()
				mu.Unlock()
				time.Sleep(5 * time.Millisecond)
				g.leave(p, outcome{verdict: saysAlive})
			})
		}
		synctest.Wait()
		if n := len(went); n != 0 {
			t.Fatalf("%d calls went before the probe was answered", n)
		}
		start = time.Now()
		g.leave(probe, outcome{verdict: saysAlive})
		wg.Wait()
		if len(went) != calls {
			t.Fatalf("%d calls went", len(went))
		}
		inSecond := map[int]int{}
		for i, w := range went {
			inSecond[int(w.at/time.Second)]++
			// Those that are in flight together may be noted in any order.
			if d := w.order - i; d > 2*limits.InFlight || d < -2*limits.InFlight {
				t.Fatalf("the call with urgency %d went as number %d", w.order, i)
			}
		}
		if inSecond[0] > 60 || inSecond[4] > 60 || inSecond[6] > 120 {
			t.Errorf("not at the recovery's rate: %v", inSecond)
		}
		if took := went[calls-1].at; took < 25*time.Second || took > 45*time.Second {
			t.Errorf("10,000 calls took %s: %v", took, inSecond)
		}
		if most > limits.InFlight {
			t.Errorf("%d in flight, the bound is %d", most, limits.InFlight)
		}
	})
}

func TestGateKeepsItsRateAndItsBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := Limits{Rate: 10, Waiting: 20}
		if err := limits.fill(); err != nil {
			t.Fatal(err)
		}
		g := newGate(limits, func(Circuit) {})
		defer g.stop()
		start := time.Now()
		var wg sync.WaitGroup
		for range 21 {
			wg.Go(func() { g.leave(g.enter(t.Context(), ask{mount: "a"}), outcome{verdict: saysAlive}) })
		}
		synctest.Wait()
		if p := g.enter(t.Context(), ask{mount: "a"}); p.denied == nil || p.denied.kind != KindQuota {
			t.Errorf("the 21st that waits: %+v", p)
		}
		// What keeps the token alive waits for no rate.
		vital := make(chan time.Duration, 1)
		g.mu.Lock()
		g.limits.Waiting++
		g.mu.Unlock()
		go func() {
			g.leave(g.enter(t.Context(), ask{vital: true}), outcome{verdict: saysAlive})
			vital <- time.Since(start)
		}()
		if took := <-vital; took > 0 {
			t.Errorf("a vital call waited %s", took)
		}
		// One whose caller goes leaves no trace.
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if p := g.enter(ctx, ask{mount: "b"}); p.denied == nil || !errors.Is(p.denied.ctx, context.DeadlineExceeded) {
			t.Errorf("a caller that went: %+v", p)
		}
		wg.Wait()
		if took := time.Since(start); took < 1900*time.Millisecond || took > 2200*time.Millisecond {
			t.Errorf("21 calls at 10/s took %s", took)
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.inFlight != 0 || g.queue.size != 0 || len(g.queue.lanes) != 0 {
			t.Errorf("left behind: %d in flight, %d waiting, %d lanes", g.inFlight, g.queue.size, len(g.queue.lanes))
		}
	})
}

func TestProbeWhoseCallerGoesIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := Limits{}
		if err := limits.fill(); err != nil {
			t.Fatal(err)
		}
		g := newGate(limits, func(Circuit) {})
		defer g.stop()
		g.leave(g.enter(t.Context(), ask{}), outcome{verdict: saysOut, kind: KindUnreachable})
		if p := g.enter(t.Context(), ask{}); p.denied == nil || p.denied.kind != KindUnreachable || p.denied.wait <= 0 {
			t.Fatalf("right after: %+v", p)
		}
		time.Sleep(limits.ProbeLast)
		probe := g.enter(t.Context(), ask{})
		next := make(chan pass)
		go func() { next <- g.enter(t.Context(), ask{}) }()
		synctest.Wait()
		g.leave(probe, outcome{}) // says nothing
		p := <-next
		if !p.probe {
			t.Fatalf("the next one: %+v", p)
		}
		go func() { next <- g.enter(t.Context(), ask{}) }()
		synctest.Wait()
		g.leave(p, outcome{verdict: saysOut, kind: KindSealed})
		if p := <-next; p.denied == nil || p.denied.kind != KindSealed {
			t.Fatalf("after a probe that failed: %+v", p)
		}
		// Back-off grows: 0.5, 1, 2, ... 10 s, each within a fifth.
		want := time.Second
		for range 8 {
			g.mu.Lock()
			wait := time.Until(g.nextProbe)
			g.mu.Unlock()
			if wait < want*8/10 || wait > want*12/10 {
				t.Errorf("the next probe is due in %s, want about %s", wait, want)
			}
			want = min(2*want, limits.ProbeLast)
			time.Sleep(wait)
			g.leave(g.enter(t.Context(), ask{}), outcome{verdict: saysOut, kind: KindSealed})
		}
	})
}

func TestRunFindsTheServerBackWithoutACall(t *testing.T) {
	o := &outage{}
	f := newFake(t, o.ServeHTTP)
	c := f.client(t, patient)
	running(t, c)
	o.set(503, `{"errors":["Vault is sealed"]}`)
	_, err := c.RenewLease(t.Context(), "l", time.Hour)
	wantKind(t, err, KindSealed)
	eventually(t, "Run probes", func() bool { return c.Circuit().Probes >= 2 })
	o.set(0, "")
	eventually(t, "Run found it back", func() bool { return !c.Circuit().Out })
}

func TestLimitsThatCannotBe(t *testing.T) {
	for name, l := range map[string]Limits{
		"in flight": {InFlight: -1}, "per mount": {InFlight: 2, PerMount: 3}, "waiting": {Waiting: -1},
		"rate": {Rate: -1}, "recovery": {RecoveryRate: 1e9}, "probes": {ProbeFirst: time.Minute, ProbeLast: time.Second},
	} {
		if _, err := New(Config{Address: "http://127.0.0.1:1", Limits: l}); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if _, err := New(Config{Address: "http://127.0.0.1:1", Retries: 11}); err == nil {
		t.Error("11 retries: taken")
	}
}
