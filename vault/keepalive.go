package vault

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// pace is how fast Run may go.
type pace struct {
	// first and last bound the back-off between attempts that failed.
	first, last time.Duration
	// step is the least time between two renewals, and two looks after a 403.
	step, refusal time.Duration
	// source is how often the token's source, or the files of a certificate, are
	// looked at for others.
	source time.Duration
	// again is the least time between two logins with an auth method while the
	// token before is good and only a path is forbidden: the role's policies may
	// have been changed, and only a new token has them.
	again time.Duration
}

var defaultPace = pace{first: time.Second, last: time.Minute, step: time.Second, refusal: 5 * time.Second, source: time.Minute, again: 10 * time.Minute}

// Run keeps our token alive until ctx ends, then returns nil; there is nothing
// else that ends it. It logs in if [Client.Login] has not yet; renews the token
// at half of its life; takes another one from the token's source as soon as
// there is one, looking each minute, before each renewal and after a call was
// answered by a 403 (C3, C23, C24). With an auth method it logs in again when
// the token is refused, when a renewal is cut short because max TTL is near,
// when the token can't be renewed, and when the client certificate changed.
// Leases under guards live on; the token before is left to its end. Failures are
// retried with back-off, 1 s to 1 min with a spread of 10 %, once as the last
// quarter of the token's life begins, and at once when the circuit closes;
// [Client.Token] shows them. While the circuit is out, Run
// probes when a probe is due, so that the server is found back without a call.
func (c *Client) Run(ctx context.Context) error {
	var (
		failures int
		due      = time.Now()
		looked   time.Time // when a refusal was last looked at
		fruit    int       // refusals in a row that a new login did not end
		asked    time.Time // when a probe was last tried: a try may end without one
	)
	if c.Token().LoggedIn {
		due = c.nextStep(time.Now())
	}
	for {
		now := time.Now()
		wake, refusals := due, c.forbidden
		if free := looked.Add(min(c.pace.refusal<<min(fruit, 16), max(c.pace.last, c.pace.refusal))); now.Before(free) {
			// A policy that forbids one path must not make us look without end.
			refusals = nil
			if free.Before(wake) {
				wake = free
			}
		}
		circuit := c.Circuit()
		probe := circuit.NextProbe
		if free := asked.Add(c.pace.step); probe.Before(free) {
			probe = free
		}
		if circuit.Out && probe.Before(wake) {
			wake = probe
		}
		timer := time.NewTimer(time.Until(wake))
		var err error
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-c.gate.news:
			timer.Stop()
			if failures == 0 || c.Circuit().Out {
				continue
			}
			err = c.keep(ctx)
		case <-refusals:
			timer.Stop()
			looked = time.Now()
			if err = c.afterRefusal(ctx, &fruit); err == nil {
				due = c.nextStep(time.Now())
				failures = 0
				continue
			}
		case <-timer.C:
			switch now := time.Now(); {
			case !now.Before(due):
				err = c.keep(ctx)
			case circuit.Out && !now.Before(probe):
				asked = now
				c.askBack(ctx)
				continue
			default:
				continue
			}
		}
		select {
		case <-ctx.Done():
			return nil
		default:
		}
		if err == nil {
			failures, due = 0, c.nextStep(time.Now())
			continue
		}
		failures++
		now = time.Now()
		due = now.Add(c.backOff(failures))
		if late := c.lateFrom(); late.After(now) && late.Before(due) {
			due = late // where a token of little time goes on with a new login
		}
		wait := due.Sub(now)
		c.cfg.Logger.Warn("the token could not be kept alive; it is tried again", "vault", c.cfg.Name, "wait_ms", wait.Milliseconds(), "error", err)
	}
}

// askBack sends a look-up of our own token, for the gate to probe with.
func (c *Client) askBack(ctx context.Context) {
	var err error
	if value := c.ownToken(); !value.IsZero() {
		_, err = c.call(ctx, request{op: "probe", method: http.MethodGet, path: "auth/token/lookup-self", token: value, vital: true})
	} else {
		err = c.Login(ctx)
	}
	if err != nil {
		c.cfg.Logger.Debug("a probe did not find the server back", "vault", c.cfg.Name, "error", err)
	}
}

// afterRefusal finds out whether it is our token that is refused, or only what
// was asked for. A token that is given is read and looked up again; with an auth
// method the one in force is looked up first, so that a forbidden path does not
// make a token every few seconds. fruitless counts new tokens that did not help.
func (c *Client) afterRefusal(ctx context.Context, fruitless *int) error {
	if c.method == nil {
		return c.Login(ctx)
	}
	c.mu.Lock()
	t := c.token
	c.mu.Unlock()
	if !t.value.IsZero() {
		_, err := c.call(ctx, request{op: "look up own token", method: http.MethodGet, path: "auth/token/lookup-self", token: t.value, look: true, vital: true})
		switch {
		case err == nil:
			*fruitless = 0
			if time.Since(t.loggedIn) < c.pace.again {
				return nil
			}
		case KindOf(err) != KindPermission:
			return err
		default:
			c.noteRefusal()
			if time.Since(t.loggedIn) < 2*c.pace.last {
				*fruitless++ // it is new, and is refused as the one before was
			} else {
				*fruitless = 0
			}
		}
	}
	return c.Login(ctx)
}

func (c *Client) noteRefusal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token.refusedSince.IsZero() {
		c.token.refusedSince = time.Now()
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
	if c.method != nil {
		return c.keepLogin(ctx, t)
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

// keepLogin is keep for a token of an auth method, of which there can be another
// at any time.
func (c *Client) keepLogin(ctx context.Context, t token) error {
	if t.ending {
		return c.Login(ctx)
	}
	var err error
	if _, isCert := c.method.(Cert); isCert && c.tls.changed() {
		if err = c.Login(ctx); err == nil {
			return nil
		}
		// The token in force may still be good: go on with it.
	}
	if t.renewAt.IsZero() || time.Now().Before(t.renewAt) {
		return err
	}
	if !t.renewable {
		return c.Login(ctx)
	}
	err = c.renewSelf(ctx, t)
	c.mu.Lock()
	ending := c.token.ending
	c.mu.Unlock()
	switch {
	case err == nil && !ending:
		return nil
	case err == nil, KindOf(err).Refusal(), !time.Now().Before(t.lateFrom()) && KindOf(err) == KindTransient:
		// Some servers answer 500 to a renewal that the login's proof no longer
		// allows: late in the token's life a new login is tried for that too.
		return c.Login(ctx)
	}
	return err
}

// renewSelf asks for the TTL that the token was made with.
func (c *Client) renewSelf(ctx context.Context, t token) error {
	rq := request{op: "renew own token", method: http.MethodPost, path: "auth/token/renew-self", token: t.value, vital: true, body: map[string]any{"increment": wholeSeconds(t.creation.Std())}}
	sentAt := time.Now()
	a, err := c.call(ctx, rq)
	if err == nil {
		var granted tokenGrant
		if granted, err = a.tokenGrant(t.value); err != nil {
			err = c.unusable(rq, a, err)
		} else if granted.ttl.IsZero() {
			err = c.unusable(rq, a, fmt.Errorf("the renewal grants no time: %s", join("lease_duration 0", granted.suspect)))
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
	c.token.ending = granted.ttl.Std() < t.creation.Std()*2/3
	if c.token.ending && c.method == nil {
		c.cfg.Logger.Warn("the token nears its max TTL; put a new one where it comes from", "vault", c.cfg.Name, "source", t.source, "ttl_s", granted.ttl.String())
	}
}

// lateFrom gives when the last quarter of the token's life begins; zero where it
// has no end.
func (t token) lateFrom() time.Time {
	if t.expires.IsZero() {
		return time.Time{}
	}
	return t.expires.Add(-t.creation.Std() / 4)
}

func (c *Client) lateFrom() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.token.lateFrom()
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
	return spread(min(c.pace.first<<min(failures-1, 16), c.pace.last))
}
