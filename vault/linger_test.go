package vault

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// slow is a server that is at a read until it is told to answer, or is broken off.
type slow struct {
	*fake
	began  chan struct{}
	answer chan struct{}
	ended  chan bool // whether it came to its end
}

// newSlow makes one for a test on its own clock: a deadline passes there only once
// the read is at the server.
func newSlow(t *testing.T) *slow {
	s := &slow{began: make(chan struct{}, 9), answer: make(chan struct{}), ended: make(chan bool, 9)}
	s.fake = newPipedFake(t, func(w http.ResponseWriter, r *http.Request) {
		s.began <- struct{}{}
		select {
		case <-s.answer:
			_, _ = io.WriteString(w, `{"lease_id":"l","lease_duration":60,"data":{"k":1}}`)
			s.ended <- true
		case <-r.Context().Done():
			s.ended <- false
		}
	})
	return s
}

func guardFor(ttl time.Duration) *Guard {
	g := testGuard()
	g.SentAt, g.TTL = time.Now(), DurationOf(ttl)
	return g
}

// TestC30_AReadThatIsGivenUpGoesOn: neither a deadline nor a caller that goes
// breaks the server off in the middle of it.
func TestC30_AReadThatIsGivenUpGoesOn(t *testing.T) {
	for name, give := range map[string]func(context.Context) (context.Context, context.CancelFunc, Kind){
		"the caller's deadline": func(ctx context.Context) (context.Context, context.CancelFunc, Kind) {
			ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			return ctx, cancel, KindTimeout
		},
		"our own deadline": func(ctx context.Context) (context.Context, context.CancelFunc, Kind) {
			return ctx, func() {}, KindTimeout
		},
		"the caller goes": func(ctx context.Context) (context.Context, context.CancelFunc, Kind) {
			ctx, cancel := context.WithCancel(ctx)
			return ctx, cancel, KindCanceled
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSlow(t)
				c := s.client(t, func(cfg *Config) { cfg.OpTimeout = 300 * time.Millisecond })
				ctx, cancel, kind := give(t.Context())
				defer cancel()
				if kind == KindCanceled {
					go func() { <-s.began; cancel() }()
				}
				_, err := c.Read(ctx, "db/creds/app", guardFor(time.Minute), ReadOptions{})
				var e *Error
				if !errors.As(err, &e) || e.Kind != kind || !e.OutcomeUnknown || e.NotSent {
					t.Fatalf("got %v", err)
				}
				if c.Circuit().InFlight != 0 {
					t.Error("it holds a place that others wait for")
				}
				select {
				case <-s.ended:
					t.Fatal("the server was broken off")
				case <-time.After(200 * time.Millisecond):
				}
				close(s.answer)
				if !<-s.ended {
					t.Error("the server was broken off before it could answer")
				}
				if n := len(s.requests("creds")); n != 1 {
					t.Errorf("%d reads arrived", n)
				}
			})
		})
	}
}

// TestC30_AReadIsBrokenOffBeforeItsGuardEnds: a lease that is recorded under a
// token that is gone would live for its whole TTL. And Close ends all.
func TestC30_AReadIsBrokenOffBeforeItsGuardEnds(t *testing.T) {
	for name, try := range map[string]struct {
		guard *Guard
		close bool
	}{
		"its guard ends":  {guardFor(guardReserve + 500*time.Millisecond), false},
		"the client does": {guardFor(time.Minute), true},
		"it has no guard": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSlow(t)
				c := s.client(t, func(cfg *Config) { cfg.OpTimeout = 100 * time.Millisecond })
				if try.guard != nil {
					try.guard.SentAt = time.Now()
				}
				_, err := c.Read(t.Context(), "db/creds/app", try.guard, ReadOptions{})
				wantKind(t, err, KindTimeout)
				if try.close {
					c.Close()
				}
				if <-s.ended {
					t.Error("it went on")
				}
				if try.guard != nil && !try.close && time.Since(try.guard.SentAt) >= try.guard.TTL.Std() {
					t.Errorf("broken off %s after its guard was made, which lives for %s", time.Since(try.guard.SentAt), try.guard.TTL)
				}
			})
		})
	}
}

// TestTooManyReadsThatGoOnAreBrokenOff: they are bounded, as all else is.
func TestTooManyReadsThatGoOnAreBrokenOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlow(t)
		c := s.client(t, func(cfg *Config) { cfg.OpTimeout = 50 * time.Millisecond; cfg.Limits = Limits{InFlight: 1} })
		for range 5 {
			_, err := c.Read(t.Context(), "db/creds/app", guardFor(time.Minute), ReadOptions{})
			wantKind(t, err, KindTimeout)
		}
		synctest.Wait()
		if len(s.ended) != 3 {
			t.Fatalf("%d are broken off, not 3", len(s.ended))
		}
		close(s.answer)
		synctest.Wait()
		if len(s.ended) != 5 {
			t.Errorf("%d ended", len(s.ended))
		}
	})
}
