package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leasesvc/leasesvc/handover/wire"
)

// getAttempt is how long one request waits: a cluster may lose one on its way to
// a holder that is just leaving, and nobody is told. Asking again costs little.
const getAttempt = 500 * time.Millisecond

// getTimeout bounds a Get whose context has no deadline.
const getTimeout = 10 * time.Second

// Get asks for the committed credential of a name, or only for some of its
// keys. While nobody answers who holds the scope it asks again, until ctx ends
// or, without a deadline in ctx, for 10 s. Errors: [ErrNone], [ErrExpired],
// [ErrUnknownName], [ErrUnknownKey], [ErrUnavailable], [ErrRefused].
//
// The answer may be relied on until its GoodUntil.
func (c *Client) Get(ctx context.Context, name string, keys ...string) (Credential, error) {
	if err := wire.CheckToken("name", name); err != nil {
		return Credential{}, err
	}
	ctx, done, err := c.begin(ctx)
	if err != nil {
		return Credential{}, err
	}
	defer done()
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, getTimeout)
		defer cancel()
	}
	again := pace{first: 100 * time.Millisecond, last: time.Second}
	for {
		attempt, cancel := context.WithTimeout(ctx, getAttempt)
		cred, err := c.getOnce(attempt, name, keys)
		cancel()
		if err == nil || !errors.Is(err, ErrUnavailable) {
			return cred, err
		}
		if !sleep(ctx, again.next()) {
			return Credential{}, err
		}
	}
}

func (c *Client) getOnce(ctx context.Context, name string, keys []string) (Credential, error) {
	fail := func(err error) (Credential, error) {
		return Credential{}, fmt.Errorf("getting %s/%s: %w", c.opts.Scope, name, err)
	}
	serviceKeys, err := c.serviceKeys(ctx)
	if err != nil {
		return fail(err)
	}
	nonce := wire.NewNonce()
	data, err := wire.Encode(wire.Get{XKey: c.xkey, Keys: keys, Nonce: nonce, ServiceKeys: c.trust.pinned})
	if err != nil {
		return fail(err)
	}
	request := nats.NewMsg(wire.Subject(wire.OpGet, c.opts.Scope, name))
	request.Data = data
	asked := time.Now() // what is left counts from before the request was sent
	var got wire.Got
	err = c.ask(ctx, request, func(data []byte) (err error) {
		got, err = open[wire.Got](c.box.Open, serviceKeys, data)
		if err == nil && (got.Nonce != nonce || got.Scope != c.opts.Scope || got.Name != name) {
			err = errors.New("an answer to something else")
		}
		return err
	})
	if err != nil {
		return fail(err)
	}
	if !c.latest.admit(name, got.Epoch, got.N) {
		return fail(fmt.Errorf("%w: an answer from before what is known (epoch %d, n %d)", ErrUnavailable, got.Epoch, got.N))
	}
	cred, err := newCredential(got.Scope, got.Name, got.Values)
	if err != nil {
		return fail(err)
	}
	cred.Lease, cred.Epoch, cred.N, cred.Public = got.Lease, got.Epoch, got.N, got.Public
	cred.ExpiresAt = expiry(asked, got.ExpiresIn)
	cred.GoodUntil = asked.Add(got.GoodFor.Duration())
	return cred, nil
}
