package vault

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Circuit tells how the connection is.
func (c *Client) Circuit() Circuit {
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	return c.gate.status()
}

// call sends rq when its turn comes, and gives a 2xx answer, or an [Error],
// with the answer if it was a definite refusal. While the circuit is out, one
// call at a time finds out whether the server is back: it asks for the node's
// health, and is sent itself when that is good.
func (c *Client) call(ctx context.Context, rq request) (answer, error) {
	if rq.token.IsZero() && !rq.open {
		return answer{}, c.notLoggedIn(rq)
	}
	if rq.node {
		got, err := c.attempt(ctx, rq)
		c.stats.ended(rq, err)
		return got, err
	}
	now := time.Now()
	a := ask{mount: rq.mountName(), urgency: urgencyOf(ctx, now), vital: rq.vital}
	if !rq.until.IsZero() && rq.until.Before(a.urgency) {
		a.urgency = rq.until
	}
	p := c.gate.enter(ctx, a)
	if p.denied != nil {
		c.stats.count(func(is *Stats) { is.Held++ })
		return answer{}, c.denied(rq, p.denied)
	}
	if p.probe {
		c.stats.count(func(is *Stats) { is.Probes++ })
		if err := c.probe(ctx, rq); err != nil {
			c.stats.count(func(is *Stats) { is.Held++ })
			o := outcomeOf(ctx, rq, answer{}, err)
			if o.verdict != saysNothing {
				o.verdict = saysOut
			}
			c.gate.leave(p, o)
			return answer{}, err
		}
	}
	got, err := c.attempt(ctx, rq)
	c.stats.ended(rq, err)
	c.gate.leave(p, outcomeOf(ctx, rq, got, err))
	return got, err
}

// notLoggedIn says why we are not: it is of the kind of what the login met.
func (c *Client) notLoggedIn(rq request) *Error {
	c.mu.Lock()
	last := c.token.lastError
	c.mu.Unlock()
	e := &Error{Op: rq.op, Conn: c.cfg.Name, Path: rq.path, Kind: KindPermission, NotSent: true, Err: ErrNotLoggedIn}
	var why *Error
	if errors.As(last, &why) {
		e.Kind, e.RetryAfter, e.Err = why.Kind, why.RetryAfter, fmt.Errorf("%w: %w", ErrNotLoggedIn, last)
	}
	return e
}

// probe asks for the node's health. A node that can't be asked (a proxy that
// does not let the question through) is no node that is out: the call itself
// will tell.
func (c *Client) probe(ctx context.Context, rq request) error {
	h, err := c.Health(ctx)
	e := &Error{Op: rq.op, Conn: c.cfg.Name, Path: rq.path, NotSent: true, Err: err}
	switch {
	case err == nil && h.Serves():
		return nil
	case err == nil:
		e.Kind, e.Err = h.State, nil
	default:
		e.Kind = KindOf(err)
		switch e.Kind {
		case KindUnreachable, KindTimeout, KindCanceled, KindTransient, KindStandby, KindSealed, KindUninitialised:
		default:
			return nil
		}
	}
	return e
}

// denied makes the error of a call that the gate did not let through.
func (c *Client) denied(rq request, r *refusal) *Error {
	e := &Error{Op: rq.op, Conn: c.cfg.Name, Path: rq.path, Kind: r.kind, NotSent: true, RetryAfter: r.wait}
	switch {
	case errors.Is(r.ctx, context.DeadlineExceeded):
		e.Kind, e.Err = KindTimeout, errors.New("the deadline passed before its turn came")
	case r.ctx != nil:
		e.Kind, e.Err = KindCanceled, r.ctx
	case !r.since.IsZero():
		e.Err = errors.New("the server is out since " + r.since.UTC().Format(time.RFC3339))
	case r.kind == KindQuota:
		e.Err = errors.New("the server asked for a pause, or too many calls wait")
	}
	return e
}

// outcomeOf tells what the end of a call says of the server.
func outcomeOf(ctx context.Context, rq request, got answer, err error) outcome {
	o := outcome{verdict: saysAlive, mount: rq.mountName()}
	var e *Error
	if !errors.As(err, &e) {
		if got.foreign() {
			o.verdict, o.kind = saysDoubt, KindMalformed
		}
		return o
	}
	o.kind = e.Kind
	switch e.Kind {
	case KindCanceled, KindInvalid, KindRedirect:
		o.verdict = saysNothing
	case KindNone, KindNotFound, KindPermission, KindConflict, KindRefused: // it answered for itself
	case KindSealed, KindStandby, KindUninitialised:
		o.verdict = saysOut
	case KindQuota:
		o.retryAfter = e.RetryAfter
	case KindMalformed:
		o.verdict = saysDoubt
	case KindTransient:
		o.verdict = saysDoubt
		if e.OutcomeUnknown && e.Status != http.StatusInternalServerError {
			o.verdict = saysOut // a gateway without a server behind it
		}
	case KindUnreachable, KindTimeout:
		switch {
		case ctx.Err() != nil:
			o.verdict = saysNothing // the caller's own deadline
		case e.OutcomeUnknown:
			o.verdict = saysDoubt
		default:
			o.verdict = saysOut
		}
	}
	return o
}

// mountName tells what of the server a request is about, for [Limits].PerMount.
func (rq request) mountName() string {
	if rq.vital {
		return ""
	}
	path := rq.path
	if rq.mount != "" {
		path = rq.mount
	}
	first, _, _ := strings.Cut(path, "/")
	return first
}

// circuitMoved says and passes on that the circuit changed.
func (c *Client) circuitMoved(s Circuit) {
	if s.Out {
		c.stats.count(func(is *Stats) { is.Outages++ })
		c.cfg.Logger.Warn("the server is out; calls fail without a request until a probe succeeds", "vault", c.cfg.Name, "kind", s.Kind.String(), "waiting", s.Waiting)
	} else {
		c.cfg.Logger.Info("the server is back; calls go by urgency and at a growing rate", "vault", c.cfg.Name, "waiting", s.Waiting)
	}
	if c.cfg.OnCircuit != nil {
		c.cfg.OnCircuit(s)
	}
}
