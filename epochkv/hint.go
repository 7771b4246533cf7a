package epochkv

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
)

// hintPrefix and a scope is a subject that says: its cell changed, step now.
const hintPrefix = "leasesvc.hint."

// allScopes in a scope's place: a holder was deposed, whatever it led.
const allScopes = "_all"

// hintQueue bounds the hints nobody took yet; more are dropped, as any hint
// may be.
const hintQueue = 256

// Hints delivers the names of scopes whose cell was released, and "" when a
// holder was deposed: the next claim step of that scope, or of all, should
// come now. Hints may be lost, repeated or invented; they decide nothing. The
// subscription ends with ctx; the channel is never closed.
func (c *Cells) Hints(ctx context.Context) (<-chan string, error) {
	hints := make(chan string, hintQueue)
	sub, err := c.js.Conn().Subscribe(hintPrefix+"*", func(m *nats.Msg) {
		c.refresh()
		scope := strings.TrimPrefix(m.Subject, hintPrefix)
		if scope == allScopes {
			scope = ""
		}
		select {
		case hints <- scope:
		default:
		}
	})
	if err != nil {
		return nil, fmt.Errorf("subscribing to hints: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = sub.Unsubscribe() }) // fails only on a connection that is closed anyway
	return hints, nil
}

func (c *Cells) hint(scope string) {
	if err := c.js.Conn().Publish(hintPrefix+scope, nil); err != nil {
		c.cfg.Logger.Debug("hint not published: the others step at their heartbeat", "scope", scope, "error", err)
	}
}
