package devvault

import (
	"context"
	"time"
)

const (
	// maxDrops bounds how many accounts the expiry goroutine works on at a time.
	maxDrops = 16
	// maxDropAttempts is how often a drop is tried before its lease is given
	// up as irrevocable.
	maxDropAttempts = 6
	// dropTimeout bounds one drop.
	dropTimeout = 90 * time.Second
	// clockPoll is how often an injected clock is looked at. The system clock
	// is waited for with a timer instead.
	clockPoll = 10 * time.Millisecond
)

// noteDue tells the expiry goroutine that something is due at t, zero for
// never. The caller holds s.mu.
func (s *Server) noteDue(t time.Time) {
	if t.IsZero() || !s.nextDue.IsZero() && !t.Before(s.nextDue) {
		return
	}
	s.nextDue = t
	select {
	case s.wake <- struct{}{}:
	default: // it is awake already
	}
}

// expire is the expiry goroutine: it revokes tokens and leases when their
// time has come, until the server's life ends.
func (s *Server) expire() {
	defer s.running.Done()
	for {
		wait := s.expireDue()
		timer := time.NewTimer(wait)
		select {
		case <-s.life.Done():
			timer.Stop()
			return
		case <-s.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// expireDue starts what is due and returns how long nothing else will be.
func (s *Server) expireDue() time.Duration {
	ctx := s.life // jobs outlive whoever asks for them, and end with the server
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if s.closed || s.sealed {
		return time.Hour // Unseal wakes the goroutine
	}
	if !s.nextDue.IsZero() && !s.nextDue.After(now) {
		s.nextDue = time.Time{}
		for id, t := range s.tokens {
			if t.expires.IsZero() {
				continue
			}
			if !t.expires.After(now) {
				s.revokeTree(id)
				s.counters.TokensExpired++
			} else {
				s.noteDue(t.expires)
			}
		}
		for _, l := range s.leases {
			switch {
			case l.inFlight || l.irrevocable != "":
			case l.due.After(now):
				s.noteDue(l.due)
			case s.jobs < maxDrops:
				s.jobs++
				l.inFlight = true
				s.running.Add(1)
				go s.dropDue(ctx, l)
			default:
				s.waiting = true // a job that ends looks again
			}
		}
		for _, m := range s.mounts {
			if d, ok := m.engine.(*database); ok {
				d.startRotations(ctx, now)
			}
		}
	}
	wait := time.Hour
	if !s.nextDue.IsZero() {
		wait = max(s.nextDue.Sub(now), 0)
	}
	if s.cfg.injectedClock {
		wait = min(wait, clockPoll)
	}
	return max(wait, time.Millisecond)
}

// dropDue drops one lease that is due, and plans the next attempt when that
// fails.
func (s *Server) dropDue(ctx context.Context, l *lease) {
	defer s.running.Done()
	ctx, cancel := context.WithTimeout(ctx, dropTimeout)
	defer cancel()
	err := s.dropIfDue(ctx, l)

	s.mu.Lock()
	defer s.mu.Unlock()
	l.inFlight = false
	defer s.jobDone()
	if l.gone {
		return
	}
	if err == nil { // renewed in between
		s.noteDue(l.due)
		return
	}
	if ctx.Err() != nil && s.closed {
		return
	}
	l.attempts++
	if l.attempts >= maxDropAttempts {
		l.irrevocable = "out of retries: " + err.Error()
		s.counters.LeasesIrrevocable++
		s.log.Error("lease given up as irrevocable", "lease_id", l.id, "attempts", l.attempts, "error", err)
		return
	}
	l.due = s.now().Add(s.cfg.RevokeRetryBase << l.attempts)
	s.noteDue(l.due)
	s.log.Warn("account not dropped, will be tried again", "lease_id", l.id, "attempts", l.attempts, "next_attempt", l.due, "error", err)
}

// jobDone ends a job of the expiry goroutine. The caller holds s.mu.
func (s *Server) jobDone() {
	s.jobs--
	if s.waiting {
		s.waiting = false
		s.noteDue(s.now())
	}
	close(s.settled)
	s.settled = make(chan struct{})
}

// dropIfDue drops l unless a renewal won the race for it.
func (s *Server) dropIfDue(ctx context.Context, l *lease) error {
	s.mu.Lock()
	due := !l.due.After(s.now())
	s.mu.Unlock()
	if !due {
		return nil
	}
	return s.dropLease(ctx, l, false)
}

// Settle runs whatever is due by the clock and returns when nothing is: no
// expired token or lease is left but those that wait for their next attempt or
// are irrevocable. A test that moved its clock calls it before it looks.
func (s *Server) Settle(ctx context.Context) error {
	for {
		s.expireDue()
		s.mu.Lock()
		now := s.now()
		busy := s.jobs > 0
		due := !s.sealed && !s.nextDue.IsZero() && !s.nextDue.After(now)
		settled := s.settled
		s.mu.Unlock()
		if !busy && !due {
			return nil
		}
		if !busy {
			continue
		}
		select {
		case <-settled:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.life.Done():
			return ErrClosed
		}
	}
}
