package amqplease

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/leasesvc/leasesvc/consumer/sessions"
)

// ConsumeOptions are those of a consumer.
type ConsumeOptions struct {
	// Prefetch bounds what is handed out and not acknowledged; 1 by default. All
	// of it is handled before a hand-over is confirmed.
	Prefetch int
	// Exclusive lets no other consumer have the queue. While it moves there is a
	// moment without.
	Exclusive bool
	// Args are passed to the broker.
	Args amqp.Table
}

// The rests between tries to consume again after a connection broke.
const firstPause, lastPause = 50 * time.Millisecond, 5 * time.Second

// Consume hands each delivery of a queue to handle, one at a time, until ctx
// ends or the Conn is closed; then it returns nil. handle acknowledges (d.Ack,
// d.Nack), before it returns; its context ends with ctx. A delivery that it leaves
// open comes again when the consumer has moved. The error is why consuming could
// not be begun at all; later ones are logged, and it is begun again. Call it
// several times for more at a time.
func (c *Conn) Consume(ctx context.Context, queue string, opts ConsumeOptions, handle func(ctx context.Context, d amqp.Delivery)) error {
	began, pause := false, firstPause
	for {
		held, err := c.set.Enter(ctx)
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, ErrClosed) {
				return nil
			}
			return err
		}
		did, err := c.consume(ctx, held, queue, opts, handle)
		held.Leave()
		began = began || did
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !began:
			return fmt.Errorf("consuming %q: %w", queue, err)
		case err == nil:
			pause = firstPause
			continue
		}
		c.log.Warn("consuming was interrupted, and is begun again", "queue", queue, "why", err)
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil
		}
		pause = min(2*pause, lastPause)
		if did {
			pause = firstPause
		}
	}
}

// consume consumes on one lease until new work goes elsewhere (nil), ctx ends, or
// the channel breaks. did tells that it was begun.
func (c *Conn) consume(ctx context.Context, held *sessions.Held[*leased], queue string, opts ConsumeOptions, handle func(context.Context, amqp.Delivery)) (did bool, err error) {
	ch, err := held.Sessions.channel(ctx)
	if err != nil {
		return false, err
	}
	defer func() { _ = ch.Close() }() // what is not acknowledged goes back
	ended := ch.NotifyClose(make(chan *amqp.Error, 1))
	if err := ch.Qos(max(opts.Prefetch, 1), 0, false); err != nil {
		return false, err
	}
	deliveries, err := ch.Consume(queue, consumerTag, false, opts.Exclusive, false, false, opts.Args)
	if err != nil {
		return false, err
	}
	replaced := held.Replaced()
	for {
		select {
		case <-ctx.Done():
			return true, nil
		case <-replaced:
			replaced = nil
			// The rest of what was handed out comes, then the channel closes.
			if err := ch.Cancel(consumerTag, false); err != nil {
				return true, err
			}
		case d, open := <-deliveries:
			switch {
			case open:
				handle(ctx, d)
			case replaced == nil:
				return true, nil
			default:
				return true, brokenBy(ended)
			}
		}
	}
}

// consumerTag names the consumer on its channel, where it is the only one.
const consumerTag = "leasesvc"

// brokenBy gives why a channel ended.
func brokenBy(ended <-chan *amqp.Error) error {
	select {
	case err := <-ended:
		if err != nil {
			return err
		}
	default:
	}
	return errors.New("the broker has cancelled the consumer")
}
