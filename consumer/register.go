package consumer

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leasesvc/leasesvc/handover/wire"
)

// register sends one registration (P9) and returns the holder's answer to it.
func (c *Client) register(ctx context.Context, name string, i *incarnation, replaces string) (wire.Answer, error) {
	c.meetAgain(ctx)
	serviceKeys, err := c.serviceKeys(ctx)
	if err != nil {
		return wire.Answer{}, err
	}
	nonce := wire.NewNonce()
	request, err := c.signed(wire.OpRegister, name, wire.Registration{
		Consumer: c.opts.Consumer, Instance: c.instance, Incarnation: i.id, Replaces: replaces,
		Key: c.signerKey, XKey: i.xkey, Subject: i.subject,
		Protocol: wire.Version, Time: time.Now().UTC(), Nonce: nonce, ServiceKeys: c.trust.pinned,
	})
	if err != nil {
		return wire.Answer{}, err
	}
	var answer wire.Answer
	err = c.ask(ctx, request, func(data []byte) (err error) {
		answer, err = open[wire.Answer](i.open, serviceKeys, data)
		if err == nil && (answer.Nonce != nonce || answer.Incarnation != i.id || answer.Scope != c.opts.Scope || answer.Name != name) {
			err = errors.New("an answer to another registration")
		}
		return err
	})
	return answer, err
}

// leave deregisters, twice if need be: who does not get through is taken for
// gone after leave_after.
func (c *Client) leave(ctx context.Context, name string, i *incarnation) error {
	again := pace{first: 200 * time.Millisecond, last: time.Second}
	for try := 1; ; try++ {
		request, err := c.signed(wire.OpLeave, name, wire.Leave{
			Consumer: c.opts.Consumer, Instance: c.instance, Incarnation: i.id,
			Key: c.signerKey, Time: time.Now().UTC(), Nonce: wire.NewNonce(),
		})
		if err != nil {
			return err
		}
		err = c.ask(ctx, request, func(data []byte) error {
			left, err := wire.Decode[wire.Left](data)
			if err == nil && left.Incarnation != i.id {
				err = errors.New("an answer to another leave")
			}
			return err
		})
		if err == nil || try == 2 || !errors.Is(err, ErrUnavailable) || !sleep(ctx, again.next()) {
			return err
		}
	}
}

// signed makes a request on a name's subject, signed if there is a key.
func (c *Client) signed(op wire.Operation, name string, body wire.Body) (*nats.Msg, error) {
	data, err := wire.Encode(body)
	if err != nil {
		return nil, err
	}
	m := nats.NewMsg(wire.Subject(op, c.opts.Scope, name))
	m.Data = data
	return m, c.sign(m, body.Type(), name)
}

func (c *Client) sign(m *nats.Msg, typ, name string) error {
	if c.signer == nil {
		return nil
	}
	sig, err := wire.Sign(c.signer, typ, c.opts.Scope, name, m.Data)
	if err != nil {
		return err
	}
	m.Header.Set(wire.SignatureHeader, sig)
	return nil
}
