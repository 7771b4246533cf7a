package web

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/leasesvc/leasesvc/events/journal"
)

// Follower reads the log into a history.
type Follower struct {
	source  Source
	history *History
	live    Live
	log     *slog.Logger
}

// NewFollower makes a follower; it starts nothing. Without live (nil) nothing is
// known of who is alive.
func NewFollower(source Source, history *History, live Live, log *slog.Logger) *Follower {
	return &Follower{source: source, history: history, live: live, log: log}
}

// retry is the pace at which the log is asked again after an error.
const retry = time.Second

// Run reads the log from its beginning and goes on with what is appended until
// ctx ends, whose error it gives. What stops it for a while is logged.
func (f *Follower) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	if f.live != nil {
		g.Go(func() error { return f.history.presence.run(ctx, f.live) })
	}
	g.Go(func() error { return f.follow(ctx) })
	return g.Wait()
}

func (f *Follower) follow(ctx context.Context) error {
	add := func(m journal.Message) error { f.history.Add(m); return nil }
	for {
		err := f.source.Replay(ctx, "", f.history.next(), math.MaxUint64, add)
		if err == nil {
			f.history.caughtUp()
			err = f.source.Follow(ctx, "", f.history.next(), add)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !errors.Is(err, context.Canceled) {
			f.log.Warn("the page does not follow the log", "error", err)
		}
		if !wait(ctx, retry, nil) {
			return ctx.Err()
		}
	}
}

// next gives the sequence to go on with.
func (h *History) next() uint64 {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.seq + 1
}
