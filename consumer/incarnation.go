package consumer

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/leasesvc/leasesvc/handover/wire"
)

// incarnation is one start of an instance for a name: an id, a subject and a
// key that nobody had before.
type incarnation struct {
	id      string
	subject string
	pair    nkeys.KeyPair
	xkey    string
	sub     *nats.Subscription
}

// newIncarnation mints one, above after, and listens.
func (c *Client) newIncarnation(name, after string, inbox chan *nats.Msg) (*incarnation, error) {
	id, err := wire.NewIncarnation(time.Now(), after)
	if err != nil {
		return nil, err
	}
	i := &incarnation{id: id, subject: wire.ConsumerSubject(c.opts.Scope, name, id)}
	if i.pair, err = nkeys.CreateCurveKeys(); err != nil {
		return nil, fmt.Errorf("making a curve key: %w", err)
	}
	if i.xkey, err = i.pair.PublicKey(); err != nil {
		return nil, fmt.Errorf("making a curve key: %w", err)
	}
	if i.sub, err = c.nc.ChanSubscribe(i.subject, inbox); err != nil {
		return nil, fmt.Errorf("listening on %s: %w", i.subject, err)
	}
	return i, nil
}

func (i *incarnation) close() {
	_ = i.sub.Unsubscribe()
	i.pair.Wipe()
}

// open opens what was sealed to this incarnation.
func (i *incarnation) open(from string, sealed []byte) ([]byte, error) {
	return wire.Open(i.pair, from, sealed)
}
