package vault

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

// What the client has to do with the timing of renewals is to tell the truth
// exactly: what was granted, since when, and whether asking again can help.

func TestC1_GarbageForEverIsNeverRepeatedHere(t *testing.T) {
	for status, body := range map[int]string{500: `{"errors":["internal error"]}`, 200: `<html>`, 502: `bad gateway`, 204: ``} {
		f := newFake(t, says(status, body))
		c := f.client(t)
		if _, err := c.RenewLease(t.Context(), "l", time.Hour); err == nil {
			t.Errorf("%d: no error", status)
		}
		if n := len(f.requests("renew")); n != 1 {
			t.Errorf("%d: one call made %d requests", status, n)
		}
	}
}

func TestC4_AMinuteWithoutVaultIsNoRefusal(t *testing.T) {
	o := &outage{}
	f := newFake(t, o.ServeHTTP)
	c := f.client(t, patient)
	for _, out := range []struct {
		status int
		body   string
	}{{503, `{"errors":["Vault is sealed"]}`}, {500, `{"errors":["node not active but active cluster node not found"]}`}, {502, `x`}, {500, `{"errors":["x"]}`}, {429, `{"errors":["x"]}`}} {
		o.set(out.status, out.body)
		for range 10 {
			_, err := c.RenewLease(t.Context(), "l", time.Hour)
			if err == nil || KindOf(err) == KindNone || KindOf(err).Refusal() {
				t.Fatalf("%d: %v would give the lease up", out.status, err)
			}
		}
		o.set(0, "")
		eventually(t, "renewed after the outage", func() bool {
			_, err := c.RenewLease(t.Context(), "l", time.Hour)
			return err == nil
		})
	}
}

func TestC5_TheMostUrgentOfThoseThatWaitIsServedFirst(t *testing.T) {
	held := make(chan struct{})
	var mu sync.Mutex
	var order []any
	f := newFake(t, nil)
	f.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.note(r)
		if r.URL.Path == lookupSelf {
			says(200, selfAnswer(3600, 0))(w, r)
			return
		}
		f.mu.Lock()
		id := f.seen[len(f.seen)-1].body["lease_id"]
		f.mu.Unlock()
		mu.Lock()
		order = append(order, id)
		first := len(order) == 1
		mu.Unlock()
		if first {
			<-held
		}
		says(200, `{"lease_duration":60,"renewable":true}`)(w, r)
	})
	c := f.client(t, func(cfg *Config) { cfg.Limits = Limits{InFlight: 1} })
	now := time.Now()
	var wg sync.WaitGroup
	renew := func(id string, left time.Duration) {
		ctx := t.Context()
		if left > 0 {
			ctx = WithUrgency(ctx, now.Add(left))
		}
		wg.Go(func() {
			if _, err := c.RenewLease(ctx, "db/"+id, time.Hour); err != nil {
				t.Error(err)
			}
		})
	}
	renew("the one in flight", time.Hour)
	eventually(t, "one is in flight", func() bool { return c.Circuit().InFlight == 1 })
	for i, w := range []struct {
		id   string
		left time.Duration
	}{{"an hour left", time.Hour}, {"two seconds left", 2 * time.Second}, {"not said", 0}, {"half a minute left", 30 * time.Second}} {
		renew(w.id, w.left)
		eventually(t, "it waits", func() bool { return c.Circuit().Waiting == i+1 })
	}
	close(held)
	wg.Wait()
	if got := fmt.Sprint(order); got != "[db/the one in flight db/two seconds left db/half a minute left db/not said db/an hour left]" {
		t.Errorf("served in the order %s", got)
	}
}

func TestC8_C9_ShortGrantsAreToldExactly(t *testing.T) {
	for answered, want := range map[string]time.Duration{`743`: 743 * time.Second, `0.25`: 250 * time.Millisecond, `0.001`: time.Millisecond, `1e-3`: time.Millisecond, `185`: 185 * time.Second} {
		f := newFake(t, says(200, `{"lease_id":"l","lease_duration":`+answered+`,"renewable":true,"warnings":["TTL of \"1h\" exceeded the effective max_ttl"]}`))
		r, err := f.client(t).RenewLease(t.Context(), "l", time.Hour)
		if err != nil || r.TTL.Std() != want || r.Suspect != "" || len(r.Warnings) != 1 {
			t.Errorf("%s: %s, %q, %q, %v", answered, r.TTL, r.Suspect, r.Warnings, err)
		}
	}
}

func TestC11_TheSameAnswerAgainCountsFromItsOwnRequest(t *testing.T) {
	answer := says(200, `{"lease_id":"l","lease_duration":60,"renewable":true}`)
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) { answer(w, r) })
	c := f.client(t)
	var last time.Time
	for range 3 {
		before := time.Now()
		r, err := c.RenewLease(t.Context(), "l", time.Hour)
		if err != nil || r.SentAt.Before(before) || !r.SentAt.After(last) {
			t.Errorf("sent at %s, called at %s, %v", r.SentAt, before, err)
		}
		last = r.SentAt
	}
	answer = says(400, `{"errors":["lease expired"]}`)
	_, err := c.RenewLease(t.Context(), "l", time.Hour)
	wantKind(t, err, KindNotFound)
	if !KindOf(err).Refusal() {
		t.Error("C14: not worth a fresh acquisition")
	}
}

func TestC12_SpreadStaysInItsWindow(t *testing.T) {
	low, high := time.Hour, time.Duration(0)
	for range 10_000 {
		d := spread(time.Second)
		low, high = min(low, d), max(high, d)
	}
	if low < 900*time.Millisecond || high > 1100*time.Millisecond || high-low < 150*time.Millisecond {
		t.Errorf("a second was spread from %s to %s", low, high)
	}
	if spread(0) != 0 {
		t.Error("nothing was spread")
	}
}

func TestNotSentIsSaid(t *testing.T) {
	e := &Error{Op: "renew lease", Conn: "main", Path: "sys/leases/renew", Kind: KindSealed, NotSent: true, RetryAfter: 1234567 * time.Microsecond, Err: errors.New("the server is out since 2026-01-02T03:04:05Z")}
	const want = "vault main: renew lease sys/leases/renew: sealed: the server is out since 2026-01-02T03:04:05Z; no request was sent; retry after 1.235s; unseal it"
	if e.Error() != want {
		t.Errorf("got %s", e)
	}
}
