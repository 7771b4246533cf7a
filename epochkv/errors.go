package epochkv

import (
	"errors"
	"fmt"
)

// Errors on which a caller decides.
var (
	// ErrUnknownOutcome: a write was sent and not answered. It may have been
	// applied, now or later. The next step or renewal finds out.
	ErrUnknownOutcome = errors.New("outcome unknown")

	// ErrInFlight: a conflicting write to the same cell is under way on a
	// replicated stream (code 10164). Neither a lost race nor a deposal; try
	// again at the next heartbeat.
	ErrInFlight = errors.New("another write to the cell is in flight")

	// ErrNotAuthorized: the server refuses our credentials or permissions
	// (E12). Keep serving, keep trying; see [Cells.PausedSince].
	ErrNotAuthorized = errors.New("not authorized")

	// ErrNoHolder: the call needs a live holder cell; call StartHolder first.
	ErrNoHolder = errors.New("no live holder cell")

	// ErrStale: our last successful renewal is older than the quiet window
	// (E21). Nothing irreversible may start.
	ErrStale = errors.New("renewal older than the quiet window")

	// ErrLocked: another process holds the state directory (E5).
	ErrLocked = errors.New("state directory is in use")

	// ErrForeignCell: a cell holds something this package did not write.
	ErrForeignCell = errors.New("not a cell of leasesvc")

	// ErrIgnoresCAS: the store accepted a write that it had to refuse (E20).
	ErrIgnoresCAS = errors.New("the store ignores compare-and-set")

	// ErrStaleReads: the store answered a read from before our own
	// acknowledged write (E20).
	ErrStaleReads = errors.New("the store answers reads from a stale replica")

	// ErrNoBucket: the bucket is not there and may not be created.
	ErrNoBucket = errors.New("bucket does not exist")

	errNotFound  = errors.New("no such cell")
	errRefused   = errors.New("wrong last sequence")
	errBadName   = errors.New("not a scope name: want [A-Za-z0-9][A-Za-z0-9-]{0,63}")
	errNoBacking = errors.New("JetStream did not answer: no leader, not enabled, or no such stream")
)

// Fenced reports that this holder was deposed (E11): every lease is dropped,
// all effects must stop. StartHolder begins again.
type Fenced struct {
	By    string // the holder that deposed us, empty when it could not be told
	Cause error  // what was found, or the read that could not tell
}

func (e *Fenced) Error() string {
	by := e.By
	if by == "" {
		by = "somebody who could not be told"
	}
	return fmt.Sprintf("fenced by %s: %v", by, e.Cause)
}

func (e *Fenced) Unwrap() error { return e.Cause }

// Refused reports that the bucket belongs to another project (E15). It is
// final: exit code 78, no restart.
type Refused struct {
	Cell, Owner, Project string
}

func (e *Refused) Error() string {
	return fmt.Sprintf("cell %s is claimed for project %q, this is project %q: "+
		"remove the claim if the reuse is intended", e.Cell, e.Owner, e.Project)
}

// EpochBehind reports a scope whose cell would go back behind the log (E7):
// the bucket was recreated or restored.
type EpochBehind struct {
	Scope    string
	Revision uint64 // the revision the claim has, or would have at most
	LogEpoch uint64 // the last epoch opened in the log
}

func (e *EpochBehind) Error() string {
	return fmt.Sprintf("claiming scope %s gives revision %d, not above epoch %d of the log: "+
		"the bucket was recreated or restored; run `leasesvc recover` to recreate it above the log",
		e.Scope, e.Revision, e.LogEpoch)
}

// WrongSettings reports a bucket that exists with settings that decide, other
// than they must be.
type WrongSettings struct {
	Stream string
	Diff   []string // "allow_direct is true, want false"
}

func (e *WrongSettings) Error() string {
	return fmt.Sprintf("stream %s has other settings than leasesvc needs: %v: "+
		"edit the stream, or let `leasesvc nats-setup --print` show how", e.Stream, e.Diff)
}
