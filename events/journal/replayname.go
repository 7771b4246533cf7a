package journal

import (
	"context"
	"fmt"

	"github.com/leasesvc/leasesvc/events"
)

// ReplayName calls fn with the events of one name of a scope, which the server
// finds without reading the others, from sequence from to sequence to, where one
// of them must stand; else it ends with [ErrStalled] after [Config.Stall]. They
// are no chain: who judges them has read them before, in their places.
func (l *Log) ReplayName(ctx context.Context, scope, name string, from, to uint64, fn func(Message) error) error {
	subject := events.SubjectRoot + "." + scope + "." + name + ".>"
	err := l.pullUnder(ctx, subject, max(from, 1), l.cfg.Stall, func(m Message) (bool, error) {
		if m.Seq > to {
			return true, nil
		}
		return m.Seq == to, fn(m)
	})
	if err != nil {
		return fmt.Errorf("replaying %s of scope %s from sequence %d to %d: %w", name, scope, from, to, err)
	}
	return nil
}
