package service

import (
	"log/slog"

	"github.com/leasesvc/leasesvc/events"
)

// levelOf gives the level of an event's line in the log: a warning for what went
// wrong and is tried again or worked around, an error for what a person should
// look at, since nothing of ours will put it right. All that happened is told at
// info; none is below, so that the log has one line an event.
func levelOf(e *events.Event) slog.Level {
	switch d := e.Data.(type) {
	case *events.Orphaned:
		return slog.LevelError // it may be alive in Vault, and nobody knows it
	case *events.Paused, *events.AcquireFailed, *events.VerifyFailed, *events.RenewFailed, *events.RevokeFailed,
		*events.RollbackStarted, *events.Expired, *events.Rejected:
		return slog.LevelWarn
	case *events.RolledBack:
		if !d.Safe {
			return slog.LevelWarn
		}
	case *events.Retired:
		if len(d.CutOff) > 0 {
			return slog.LevelWarn
		}
	case *events.Left:
		if d.Reason == events.LeftSilent {
			return slog.LevelWarn
		}
	}
	return slog.LevelInfo
}
