package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leasesvc/leasesvc/handover/wire"
)

const (
	// watchLeast and watchMost bound how often a watched name is asked for
	// without a hint: at half its good-for time.
	watchLeast, watchMost = time.Second, time.Minute
)

// Watch gives the committed credential of a name, and again whenever another
// lease is committed, until ctx ends; then the channel is closed. It asks on
// the hint of a rotation and at half of each answer's good-for time. The
// channel holds one: who reads late finds the newest only. Errors are logged
// and asked past; an expired or missing credential is simply not sent.
//
// A watcher is told after the commit: it is not asked whether it can follow.
// For that there is [Client.Serve].
func (c *Client) Watch(ctx context.Context, name string) (<-chan Credential, error) {
	if err := wire.CheckToken("name", name); err != nil {
		return nil, err
	}
	ctx, done, err := c.begin(ctx)
	if err != nil {
		return nil, err
	}
	hints := make(chan *nats.Msg, 1) // one that is waiting says as much as many
	sub, err := c.nc.Subscribe(wire.RotationSubject(c.opts.Scope, name), func(m *nats.Msg) {
		select {
		case hints <- m:
		default:
		}
	})
	if err != nil {
		done()
		return nil, fmt.Errorf("watching %s/%s: %w", c.opts.Scope, name, err)
	}
	out := make(chan Credential, 1)
	go func() {
		defer done()
		defer close(out)
		defer func() { _ = sub.Unsubscribe() }()
		c.watch(ctx, name, hints, out)
	}()
	return out, nil
}

func (c *Client) watch(ctx context.Context, name string, hints <-chan *nats.Msg, out chan Credential) {
	again := pace{first: watchLeast, last: watchMost}
	var last uint64
	for {
		wait := again.next()
		cred, err := c.Get(ctx, name)
		switch {
		case err == nil:
			again.reset()
			wait = min(max(time.Until(cred.GoodUntil)/2, watchLeast), watchMost)
			if cred.Lease != last {
				last = cred.Lease
				replace(out, cred)
			}
		case ctx.Err() == nil && !errors.Is(err, ErrClosed):
			c.log.Warn("watched credential not read", "name", name, "why", err)
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-hints:
			t.Stop()
		case <-t.C:
		}
	}
}

// replace puts cred into the channel in place of one that was not read. Only
// one goroutine sends.
func replace(out chan Credential, cred Credential) {
	select {
	case <-out:
	default:
	}
	out <- cred
}
