package epochkv

import (
	"errors"
	"time"
)

// request is a kind of request whose permission is granted apart.
type request int

const (
	read request = iota
	write
)

// PausedSince tells since when the server refuses our credentials (E12); false
// when it does not. The first refusal wins; the first success of the kind of
// request that was refused clears it.
func (c *Cells) PausedSince() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	since := c.paused[write]
	if r := c.paused[read]; since.IsZero() || (!r.IsZero() && r.Before(since)) {
		since = r
	}
	return since, !since.IsZero()
}

// noteAuthorization looks at the outcome of a request.
func (c *Cells) noteAuthorization(err error, kind request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	since := &c.paused[kind]
	switch {
	case errors.Is(err, ErrNotAuthorized):
		if since.IsZero() {
			*since = c.cfg.now()
			c.cfg.Logger.Warn("the server refuses our credentials: serving on, trying on", "error", err)
		}
	case answered(err) && !since.IsZero():
		c.cfg.Logger.Info("credentials are accepted again", "paused_since", *since)
		*since = time.Time{}
	}
}

// answered tells whether the server looked at the request at all.
func answered(err error) bool {
	return err == nil || errors.Is(err, errNotFound) || errors.Is(err, errRefused) || errors.Is(err, ErrInFlight)
}
