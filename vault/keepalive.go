package vault

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

// pace is how fast Run may go.
type pace struct {
	// first and last bound the back-off between attempts that failed.
	first, last time.Duration
	// step is the least time between two renewals, and two looks after a 403.
	step, refusal time.Duration
	// source is how often the token's source is looked at for another token.
	source time.Duration
}

var defaultPace = pace{first: time.Second, last: time.Minute, step: time.Second, refusal: 5 * time.Second, source: time.Minute}

// Run keeps our token alive until ctx ends, then returns nil; there is nothing
// else that ends it. It logs in if [Client.Login] has not yet; renews the token
// at half of its life; takes another one from the token's source as soon as
// there is one, looking each minute, before each renewal and after a call was
// answered by a 403 (C3, C23, C24). Failures are retried with back-off, 1 s to
// 1 min with a spread of 10 %, and shown by [Client.Token].
func (c *Client) Run(ctx context.Context) error {
	var (
		failures int
		due      = time.Now()
		looked   time.Time // when a refusal was last looked at
	)
	if c.Token().LoggedIn {
		due = c.nextStep(time.Now())
	}
	for {
		now := time.Now()
		wake, refusals := due, c.forbidden
		if free := looked.Add(c.pace.refusal); now.Before(free) {
			// A policy that forbids one path must not make us look without end.
			refusals = nil
			if free.Before(wake) {
				wake = free
			}
		}
		timer := time.NewTimer(time.Until(wake))
		refused := false
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-refusals:
			timer.Stop()
			refused = true
		case <-timer.C:
			if time.Now().Before(due) {
				continue
			}
		}
		var err error
		if refused {
			looked = time.Now()
			err = c.Login(ctx)
		} else {
			err = c.keep(ctx)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			failures, due = 0, c.nextStep(time.Now())
			continue
		}
		failures++
		wait := c.backOff(failures)
		due = time.Now().Add(wait)
		c.cfg.Logger.Warn("the token could not be kept alive; it is tried again", "vault", c.cfg.Name, "wait_ms", wait.Milliseconds(), "error", err)
	}
}

// keep does one step: another token if there is one, a renewal if it is time.
func (c *Client) keep(ctx context.Context) error {
	c.mu.Lock()
	t := c.token
	c.mu.Unlock()
	if t.value.IsZero() {
		return c.Login(ctx)
	}
	if value, _, err := c.readToken(); err == nil && value.Reveal() != t.value.Reveal() {
		if err := c.Login(ctx); err == nil {
			return nil
		}
		// The one in force may still be good: go on with it.
	}
	if t.renewAt.IsZero() || time.Now().Before(t.renewAt) {
		return nil
	}
	if !t.renewable {
		c.cfg.Logger.Warn("the token can't be renewed and nears its end; put a new one where it comes from", "vault", c.cfg.Name, "source", t.source, "expires", t.expires)
		return c.Login(ctx)
	}
	err := c.renewSelf(ctx, t)
	if KindOf(err).Refusal() {
		if again := c.Login(ctx); again == nil {
			return nil
		}
	}
	return err
}

// renewSelf asks for the TTL that the token was made with.
func (c *Client) renewSelf(ctx context.Context, t token) error {
	rq := request{op: "renew own token", method: http.MethodPost, path: "auth/token/renew-self", token: t.value, body: map[string]any{"increment": wholeSeconds(t.creation.Std())}}
	sentAt := time.Now()
	a, err := c.call(ctx, rq)
	if err == nil {
		var granted tokenGrant
		if granted, err = a.tokenGrant(t.value); err != nil {
			err = c.malformed(rq, a, err)
		} else if granted.ttl.IsZero() {
			err = c.malformed(rq, a, fmt.Errorf("the renewal grants no time: %s", join("lease_duration 0", granted.suspect)))
		} else {
			c.noteRenewal(t, granted, sentAt)
			return nil
		}
	}
	c.mu.Lock()
	c.token.lastError = err
	c.mu.Unlock()
	return err
}

func (c *Client) noteRenewal(t token, granted tokenGrant, sentAt time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token.value.Reveal() != t.value.Reveal() {
		return // another token came meanwhile
	}
	c.token.renewable = granted.renewable
	c.token.granted(granted.ttl, sentAt)
	c.token.lastError, c.token.refusedSince = nil, time.Time{}
	if granted.ttl.Std() < t.creation.Std()*2/3 {
		c.cfg.Logger.Warn("the token nears its max TTL; put a new one where it comes from", "vault", c.cfg.Name, "source", t.source, "ttl_s", granted.ttl.String())
	}
}

// nextStep gives when keep is due.
func (c *Client) nextStep(now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := now.Add(c.pace.source)
	if at := c.token.renewAt; !at.IsZero() && at.Before(next) {
		next = at
	}
	if least := now.Add(c.pace.step); next.Before(least) {
		next = least
	}
	return next
}

func (c *Client) backOff(failures int) time.Duration {
	wait := min(c.pace.first<<min(failures-1, 16), c.pace.last)
	return wait + time.Duration((rand.Float64()-0.5)*0.2*float64(wait))
}
