package consumer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leasesvc/leasesvc/handover/wire"
)

const (
	// attemptTimeout bounds one request.
	attemptTimeout = 3 * time.Second
	// otherVoices is how long the holder's own answer is waited for after
	// somebody else has said that they are not it.
	otherVoices = 200 * time.Millisecond
)

// ask sends one request and waits for an answer that take accepts. Answers
// that take does not accept are ignored: they may be forged, or those of an
// instance that does not lead. A refusal comes back as the error (with the
// sentinel for its code), nobody there as [ErrUnavailable].
func (c *Client) ask(ctx context.Context, request *nats.Msg, take func(data []byte) error) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	replies := make(chan *nats.Msg, 16)
	request.Reply = c.nc.NewInbox()
	sub, err := c.nc.ChanSubscribe(request.Reply, replies)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := c.nc.PublishMsg(request); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	var last error
	for {
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%w in time", ErrUnavailable), last)
		case msg := <-replies:
			if len(msg.Data) == 0 && msg.Header.Get("Status") == "503" {
				return fmt.Errorf("%w: nobody listens on %s", ErrUnavailable, request.Subject)
			}
			if refusal, ok := refusalIn(msg.Data); ok {
				if refusal.Code != wire.CodeNotLeader {
					return fmt.Errorf("%w: %w", sentinel(refusal.Code), refusal)
				}
				if last == nil {
					time.AfterFunc(otherVoices, cancel)
				}
				last = refusal
				continue
			}
			err := take(msg.Data)
			if err == nil {
				return nil
			}
			last = err
			c.log.Warn("answer ignored", "subject", request.Subject, "why", err)
			if errors.Is(err, wire.ErrSeal) && c.trust.pinned == nil {
				c.trust.forget() // an insecure client follows a service with a new key
			}
		}
	}
}

func refusalIn(data []byte) (wire.Refusal, bool) {
	if wire.IsSealed(data) {
		return wire.Refusal{}, false
	}
	r, err := wire.Decode[wire.Refusal](data)
	return r, err == nil
}

func sentinel(code wire.Code) error {
	switch code {
	case wire.CodeNone:
		return ErrNone
	case wire.CodeExpired:
		return ErrExpired
	case wire.CodeUnknownName:
		return ErrUnknownName
	case wire.CodeUnknownKey:
		return ErrUnknownKey
	case wire.CodeNotLeader, wire.CodeBusy, wire.CodeUnavailable:
		return ErrUnavailable
	default:
		return ErrRefused
	}
}

// open decodes what one of the service's keys sealed, once opened has opened it.
func open[M wire.Body](opened func(from string, sealed []byte) ([]byte, error), serviceKeys []string, data []byte) (M, error) {
	err := wire.ErrSeal
	for _, key := range serviceKeys {
		var plain []byte
		if plain, err = opened(key, data); err == nil {
			return wire.Decode[M](plain)
		}
	}
	var zero M
	return zero, err
}

// pace is a pause that doubles up to a limit, spread by a fifth.
type pace struct{ first, last, now time.Duration }

func (p *pace) next() time.Duration {
	p.now = min(max(2*p.now, p.first), p.last)
	return p.now - p.now/5 + rand.N(2*p.now/5+1)
}

func (p *pace) reset() { p.now = 0 }

// sleep waits, or returns false when ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
