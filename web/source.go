package web

import (
	"context"

	"github.com/leasesvc/leasesvc/events/journal"
)

// Source is the log as it is read here; a [*journal.Log] is one.
type Source interface {
	// Replay gives what is there, Follow what is there and what comes.
	Replay(ctx context.Context, scope string, from, to uint64, fn func(journal.Message) error) error
	Follow(ctx context.Context, scope string, from uint64, fn func(journal.Message) error) error
	// ReplayName gives the events of one name.
	ReplayName(ctx context.Context, scope, name string, from, to uint64, fn func(journal.Message) error) error
}
