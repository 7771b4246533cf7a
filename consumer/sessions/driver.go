package sessions

import (
	"context"
	"time"

	"github.com/leasesvc/leasesvc/consumer"
)

// Driver is how a set opens, proves and closes sessions; S is what holds those
// of one lease, such as a pool.
type Driver[S any] struct {
	// Open opens sessions with a credential and proves them by a login: it
	// returns nil only when the server has said that a new session belongs to
	// the credential's user. [Prove] repeats a login that is refused. What is
	// opened calls refused when a server refuses a later login: if the
	// credential is the committed one, the service is told (C58).
	Open func(ctx context.Context, c consumer.Credential, refused func(error)) (S, error)
	// Prove proves by a fresh login that sessions which were kept can still be
	// had, before new work goes back to them.
	Prove func(ctx context.Context, s S) error
	// Close closes sessions nobody works in any more and waits until the last
	// is closed. It is called once.
	Close func(s S)
	// Current and Replaced may be nil. Current is called just before new work
	// goes to sessions, for the first time or again, Replaced just after it
	// goes to others, or to none. They must not wait for work.
	Current, Replaced func(s S)
	// Refused tells a login that the server refuses from a server that is not
	// there.
	Refused func(err error) bool
}

// provePause is the time between two tries of a login.
const provePause = 200 * time.Millisecond

// Prove tries a login until it works, or fails in another way than by being
// refused, or budget and ctx are over: a new account can take time to reach every
// server (C48). It returns the last refusal rather than that time is up.
func Prove(ctx context.Context, budget time.Duration, refused func(error) bool, login func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	var last error
	for {
		err := login(ctx)
		switch {
		case err == nil:
			return nil
		case refused(err):
			last = err
		case last == nil || ctx.Err() == nil:
			return err
		}
		wait := time.NewTimer(provePause)
		select {
		case <-ctx.Done():
			wait.Stop()
			return last
		case <-wait.C:
		}
	}
}
