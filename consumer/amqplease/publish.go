package amqplease

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// publisher is a channel in confirm mode. One message is on its way on it at a
// time, so that what comes back is its.
type publisher struct {
	ch       *amqp.Channel
	returned chan amqp.Return
}

// Publish publishes a message and returns nil when the broker has confirmed it:
// it is then in every queue it was routed to. With mandatory, one that reaches no
// queue is [ErrReturned]. Errors: also [ErrNacked], [ErrUnconfirmed], [ErrNone].
// At most Config.Channels messages are on their way; more wait their turn.
func (c *Conn) Publish(ctx context.Context, exchange, key string, mandatory bool, msg amqp.Publishing) error {
	held, err := c.set.Enter(ctx)
	if err != nil {
		return err
	}
	defer held.Leave()
	l := held.Sessions
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
	case <-ctx.Done():
		return fmt.Errorf("publishing to %q: %w", exchange, context.Cause(ctx))
	}
	for {
		p, fresh, err := l.publisher(ctx)
		if err != nil {
			return fmt.Errorf("publishing to %q: %w", exchange, err)
		}
		confirm, err := p.ch.PublishWithDeferredConfirmWithContext(ctx, exchange, key, mandatory, false, msg)
		if err != nil && errors.Is(err, amqp.ErrClosed) && !fresh {
			continue // it had ended while it rested, so nothing was sent
		}
		switch {
		case err == nil:
			err = p.await(ctx, confirm)
		case !errors.Is(err, amqp.ErrClosed) && ctx.Err() == nil:
			err = errors.Join(ErrUnconfirmed, err) // part of it may have gone out
		}
		if !p.ch.IsClosed() && (err == nil || errors.Is(err, ErrReturned) || errors.Is(err, ErrNacked)) {
			l.publishers <- p // it has room: as many as there are slots
		} else {
			_ = p.ch.Close() // what is on its way there must not be taken for another's
		}
		if err != nil {
			return fmt.Errorf("publishing to %q: %w", exchange, err)
		}
		return nil
	}
}

// publisher gives a channel at rest, or a fresh one.
func (l *leased) publisher(ctx context.Context) (p *publisher, fresh bool, err error) {
	for {
		select {
		case p = <-l.publishers:
			if p.ch.IsClosed() {
				continue
			}
			return p, false, nil
		default:
		}
		ch, err := l.channel(ctx)
		if err != nil {
			return nil, false, err
		}
		if err := ch.Confirm(false); err != nil {
			_ = ch.Close()
			return nil, false, fmt.Errorf("asking for confirms: %w", err)
		}
		return &publisher{ch: ch, returned: ch.NotifyReturn(make(chan amqp.Return, 1))}, true, nil
	}
}

// await waits for the broker's word on the one message that is on its way.
func (p *publisher) await(ctx context.Context, confirm *amqp.DeferredConfirmation) error {
	acked, err := confirm.WaitContext(ctx)
	switch {
	case err != nil:
		return errors.Join(ErrUnconfirmed, err)
	case !acked && p.ch.IsClosed():
		return ErrUnconfirmed // the end of a channel settles what was open on it
	case !acked:
		return ErrNacked
	}
	select {
	case <-p.returned: // it comes before the confirm
		return ErrReturned
	default:
		return nil
	}
}
