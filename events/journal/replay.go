package journal

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasesvc/leasesvc/events"
)

// Message is one message of the log as it is stored.
type Message struct {
	// Seq is its sequence in the stream, Stored the time at which the server
	// stored it, by the server's clock.
	Seq    uint64
	Stored time.Time
	// Subject is where it stands, Payload what it is.
	Subject string
	// Payload is the reader's to keep.
	Payload []byte
}

// Replay calls fn with each message of a scope (empty: of all scopes) from
// sequence from to sequence to, both included, in the order of the log, nothing
// twice and nothing left out. It ends at to, or at the last message of the scope
// below it, as the stream's leader tells it at the beginning.
//
// It ends with the error of fn when that gives one, with [ErrStalled] when the
// next message does not come for [Config.Stall], or with ctx. fn runs on the
// caller's goroutine.
func (l *Log) Replay(ctx context.Context, scope string, from, to uint64, fn func(Message) error) error {
	from = max(from, 1)
	last, err := l.lastOf(ctx, scope)
	if err != nil {
		return fmt.Errorf("replaying %s: %w", named(scope), err)
	}
	if to = min(to, last); from > to {
		return nil
	}
	err = l.pull(ctx, scope, from, l.cfg.Stall, func(m Message) (bool, error) {
		if m.Seq > to {
			return true, nil
		}
		return m.Seq == to, fn(m)
	})
	if err != nil {
		return fmt.Errorf("replaying %s from sequence %d to %d: %w", named(scope), from, to, err)
	}
	return nil
}

// Follow calls fn with each message of a scope (empty: of all scopes) from
// sequence from on, as [Log.Replay] does, and goes on with what is appended,
// over lost connections and servers, until ctx ends (whose error it gives) or fn
// gives an error, or the stream is gone ([ErrNoStream]). A message that is lost
// on the way while the connection stays up shows by the next one, and both are
// given then: what Follow has given is complete, how recent it is, it can't tell.
func (l *Log) Follow(ctx context.Context, scope string, from uint64, fn func(Message) error) error {
	err := l.pull(ctx, scope, max(from, 1), 0, func(m Message) (bool, error) {
		return false, fn(m)
	})
	return fmt.Errorf("following %s: %w", named(scope), err)
}

func named(scope string) string {
	if scope == "" {
		return "all scopes"
	}
	return "scope " + scope
}

func filter(scope string) string {
	if scope == "" {
		return events.SubjectRoot + ".>"
	}
	return events.ScopeFilter(scope)
}

// At reads the message at a sequence, as the stream's leader has it; nil: there
// is none, or it is not of the scope.
func (l *Log) At(ctx context.Context, scope string, seq uint64) (*Message, error) {
	m, err := l.insist(ctx, func(ctx context.Context) (*jetstream.RawStreamMsg, error) { return l.read.GetMsg(ctx, seq) })
	if err != nil {
		return nil, fmt.Errorf("reading sequence %d of %s: %w", seq, named(scope), err)
	}
	if m == nil {
		return nil, nil
	}
	if scope != "" && !strings.HasPrefix(m.Subject, events.SubjectRoot+"."+scope+".") {
		return nil, nil
	}
	return &Message{Seq: m.Sequence, Stored: m.Time, Subject: m.Subject, Payload: m.Data}, nil
}

// Last reads the sequence of a scope's last message from the stream's leader; 0:
// there is none. It asks once, and waits no longer than a read may.
func (l *Log) Last(ctx context.Context, scope string) (uint64, error) {
	m, err := l.get(ctx, func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
		return l.read.GetLastMsgForSubject(ctx, filter(scope))
	})
	switch {
	case err != nil:
		return 0, fmt.Errorf("reading the last message of %s: %w", named(scope), err)
	case m == nil:
		return 0, nil
	}
	return m.Sequence, nil
}

// lastOf reads the sequence of a scope's last message; 0: none.
func (l *Log) lastOf(ctx context.Context, scope string) (uint64, error) {
	m, err := l.insist(ctx, func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
		return l.read.GetLastMsgForSubject(ctx, filter(scope))
	})
	if m == nil {
		return 0, err
	}
	return m.Sequence, nil
}

// insist reads one message of the stream, again for [Config.Stall] while it can't
// be asked; nil: there is none.
func (l *Log) insist(ctx context.Context, read func(context.Context) (*jetstream.RawStreamMsg, error)) (*jetstream.RawStreamMsg, error) {
	until := time.Now().Add(l.cfg.Stall)
	for p := (pace{}); ; {
		m, err := l.get(ctx, read)
		if err == nil || over(err) || time.Now().After(until) {
			return m, err
		}
		if err := p.wait(ctx); err != nil {
			return nil, err
		}
	}
}
