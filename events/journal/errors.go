package journal

import (
	"errors"
	"fmt"
)

// The ways in which the log says no. Unless it says otherwise, the events of an
// append that ends with one of them are not in the log and never will be.
var (
	// ErrFenced is what every [*Fenced] is.
	ErrFenced = errors.New("fenced")
	// ErrUnavailable: nobody took the append: no connection, no stream, or a
	// stream without a leader. Try again later.
	ErrUnavailable = errors.New("the log is not available")
	// ErrNoStream: there is no such stream (or not any more).
	ErrNoStream = errors.New("the stream does not exist")
	// ErrReplaced: there is a stream of this name, but it is another one than
	// the one that was opened. It must not be led from.
	ErrReplaced = errors.New("the stream was deleted and made anew, or restored")
	// ErrFull: the stream, the account or the server has no more room.
	ErrFull = errors.New("the log is full")
	// ErrTooLarge: too many or too large events for one append.
	ErrTooLarge = errors.New("too large for one append")
	// ErrForbidden: this user may not publish to the subject. The writer is of
	// no more use.
	ErrForbidden = errors.New("publishing is not allowed")
	// ErrRefused: the server refused the append for another reason.
	ErrRefused = errors.New("refused by the stream")
	// ErrUnsettled: the context ended before the outcome of an append could be
	// found out. The events may or may not be in the log, or get there; the
	// writer is of no more use, and only a new opened event decides.
	ErrUnsettled = errors.New("the outcome of an append is not known")
	// ErrStalled: a replay got no message for too long.
	ErrStalled = errors.New("the replay stalled")
	// ErrSettings is what every [*SettingsError] is.
	ErrSettings = errors.New("the stream has other settings")
)

// Fenced says that an epoch was opened by somebody else: the scope is not ours.
type Fenced struct {
	Scope string
	// Epoch, Holder and How are those of the opened event; empty when it could
	// not be read or is not one.
	Epoch  uint64
	Holder string
	How    string
	// Seq is the sequence of the opened event.
	Seq uint64
}

// Error implements error.
func (f *Fenced) Error() string {
	if f.Holder == "" {
		return fmt.Sprintf("fenced from scope %s by the opened event at sequence %d, which could not be read", f.Scope, f.Seq)
	}
	return fmt.Sprintf("fenced from scope %s by epoch %d of %s (%s, sequence %d)", f.Scope, f.Epoch, f.Holder, f.How, f.Seq)
}

// Is makes every Fenced an [ErrFenced].
func (f *Fenced) Is(target error) bool { return target == ErrFenced }
