package service

import (
	"context"
	"time"

	"github.com/leasesvc/leasesvc/events/journal"
)

const (
	// watchPace is how often the stream's state is read and readiness found out
	// without anybody asking.
	watchPace = 5 * time.Second
	// logStale is how old the stream's state may be and still be shown.
	logStale = time.Minute
)

// logState is the stream as it was read at a moment.
type logState struct {
	journal.State
	at time.Time
}

// watch keeps what the metrics show and nobody is told by itself, and says it in
// the log when somebody else writes there.
func (s *Service) watch(ctx context.Context) error {
	tick := time.NewTicker(watchPace)
	defer tick.Stop()
	told := map[string]uint64{}
	for {
		s.readiness(ctx)
		for name, sc := range s.scopes {
			sc.follower.strangers.Add(uint64(sc.follower.foreign.overdue(time.Now())))
			if n := sc.follower.strangers.Load(); n > told[name] {
				sc.log.Error("messages in the log do not count: they are not ours, or of an epoch that was over; run leasesvc verify-log, and see leasesvc permissions for who may publish there",
					"new", n-told[name], "since_start", n)
				told[name] = n
			}
		}
		if n := s.strangers.Load(); n > told[""] {
			s.log.Error("messages in the log's stream are of no scope: somebody else writes there", "new", n-told[""], "since_start", n)
			told[""] = n
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
