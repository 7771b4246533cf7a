package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasesvc/leasesvc/handover/wire"
)

// ReportRefused tells the service that a server refused a committed credential
// (C58), say because its account was dropped behind our back; cause is sent as
// a short reason without any of the values. The service asks for a successor,
// at most once in a minute; the call returns when it has begun to, or when the
// credential is not the committed one any more. A [wire.Refusal] of
// [wire.CodeWaiting] says why nothing is done now.
func (c *Client) ReportRefused(ctx context.Context, cred Credential, cause error) error {
	ctx, done, err := c.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	c.mu.Lock()
	incarnation := c.serving[cred.Name]
	c.mu.Unlock()
	if incarnation == "" { // not registered: nobody in particular
		if incarnation, err = wire.NewIncarnation(time.Now(), ""); err != nil {
			return err
		}
	}
	request, err := c.signed(wire.OpRefused, cred.Name, wire.Refused{
		Consumer: c.opts.Consumer, Instance: c.instance, Incarnation: incarnation, Key: c.signerKey, Lease: cred.Lease,
		Reason: wire.Reason(cause, cred.encoded(), cred.Public), Time: time.Now().UTC(), Nonce: wire.NewNonce(),
	})
	if err == nil {
		err = c.ask(ctx, request, func(data []byte) error {
			left, err := wire.Decode[wire.Left](data)
			if err == nil && left.Incarnation != incarnation {
				err = errors.New("an answer to another report")
			}
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("reporting that %s is refused: %w", cred, err)
	}
	return nil
}
