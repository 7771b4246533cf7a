package consumer

import (
	"context"
	"sync"
)

// Handler is how an application follows a hand-over. [Client.Serve] calls it,
// one call at a time. A call must return when its context ends; it ends when
// the time is up (Prepare), when something newer was said by the service, and
// when Serve ends.
type Handler interface {
	// Prepare proves new sessions with the candidate (a login, not just an
	// open socket) and sends new work there. What the application used before
	// is kept. Nil is the application's "yes"; an error, a panic or the end
	// of the time is "no", and the application stays where it was.
	Prepare(ctx context.Context, candidate Credential) error
	// Commit makes the credential the current one and drains all others: when
	// it returns nil, no session with any other lease is in use, and the
	// service may revoke them. The credential need not have been prepared
	// here (a start, a candidate that was committed while we were away): then
	// its sessions are proven now. On an error it is called again, later.
	Commit(ctx context.Context, current Credential) error
	// Revert is Commit for a way back: current is what was committed before,
	// or, with current.None(), that there is none, so that nothing is used.
	Revert(ctx context.Context, current Credential) error
}

// Leaver is what a [Handler] can have too: Leave is called once, after the
// last other call and before the incarnation deregisters, so that no session
// is open any more when the service may revoke what it used.
type Leaver interface {
	Leave(ctx context.Context)
}

// Stayer is what a [Handler] can have too: when Stay is true at the end of Serve,
// the incarnation does not deregister, because what it moved lives on without it
// (an application that read a file). It is waited for until the definition's
// leave_after, or until the instance's next incarnation takes its place.
type Stayer interface {
	Stay() bool
}

// Reconnect makes a [Handler] of one function that moves the application to a
// credential and returns nil when new sessions are proven open with it and no
// session with another is in use. It is called for a candidate (which is the
// question), again with the old one on the way back, and not for a commit of
// what it has moved to already. With credential.None() it stops using any.
//
// It suits an application with few long-lived sessions that are re-made in one
// go; one that must not interrupt work in flight keeps two sets of sessions
// and implements Handler.
func Reconnect(move func(ctx context.Context, c Credential) error) Handler {
	return &reconnect{move: move}
}

type reconnect struct {
	move func(context.Context, Credential) error
	mu   sync.Mutex
	// at is the lease that the application is known to be at.
	at    uint64
	known bool
}

func (r *reconnect) Prepare(ctx context.Context, c Credential) error { return r.to(ctx, c) }
func (r *reconnect) Commit(ctx context.Context, c Credential) error  { return r.to(ctx, c) }
func (r *reconnect) Revert(ctx context.Context, c Credential) error  { return r.to(ctx, c) }

func (r *reconnect) to(ctx context.Context, c Credential) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known && r.at == c.Lease {
		return nil
	}
	r.known = false // a move that stops half-way leaves it anywhere
	if err := r.move(ctx, c); err != nil {
		return err
	}
	r.at, r.known = c.Lease, true
	return nil
}
