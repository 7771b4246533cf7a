package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasesvc/leasesvc/events"
)

// Opened is a scope's last opened event.
type Opened struct {
	// Seq is its sequence: the fence.
	Seq   uint64
	Event events.Event
}

// Data gives what the event says; nil when it is none (see [Log.LastOpened]).
func (o *Opened) Data() *events.Opened {
	d, _ := o.Event.Data.(*events.Opened)
	return d
}

// LastOpened reads a scope's last opened event from the stream's leader; nil
// when there is none. Its MAC is not checked: whoever wrote it, it is the fence.
// What is no event that this release can read gives its sequence with the error
// of [events.Decode].
func (l *Log) LastOpened(ctx context.Context, scope string) (*Opened, error) {
	m, err := l.get(ctx, func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
		return l.read.GetLastMsgForSubject(ctx, events.OpenedSubject(scope))
	})
	if err != nil {
		return nil, fmt.Errorf("reading the last opened event of scope %s: %w", scope, err)
	}
	if m == nil {
		return nil, nil
	}
	o := &Opened{Seq: m.Sequence}
	if o.Event, err = events.Decode(m.Data, m.Sequence); err != nil {
		return o, fmt.Errorf("reading the last opened event of scope %s: %w", scope, err)
	}
	if o.Data() == nil || o.Event.Scope != scope {
		return o, fmt.Errorf("reading the last opened event of scope %s: %w: sequence %d holds a %s of scope %s",
			scope, events.ErrEvent, m.Sequence, o.Event.Type(), o.Event.Scope)
	}
	return o, nil
}

// LastReleased gives the sequence of a scope's last released event, as the
// stream's leader has it; 0: there is none.
func (l *Log) LastReleased(ctx context.Context, scope string) (uint64, error) {
	m, err := l.get(ctx, func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
		return l.read.GetLastMsgForSubject(ctx, events.Subject(scope, events.EpochName, events.TypeReleased))
	})
	if err != nil {
		return 0, fmt.Errorf("reading the last release of scope %s: %w", scope, err)
	}
	if m == nil {
		return 0, nil
	}
	return m.Sequence, nil
}

// readWait is how long one read waits: it may be asked again, and one that was
// sent just before an election is answered by nobody.
const readWait = 500 * time.Millisecond

// get makes one read at the stream's leader, within readWait; nil: no message.
func (l *Log) get(ctx context.Context, read func(context.Context) (*jetstream.RawStreamMsg, error)) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, min(readWait, l.cfg.AckWait))
	defer cancel()
	m, err := read(ctx)
	switch {
	case err == nil:
		return m, nil
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return nil, nil
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, fmt.Errorf("stream %s: %w", l.cfg.Stream, ErrNoStream)
	default:
		return nil, unavailable(err)
	}
}

// reopenPace is how long an opened event waits for its next attempt at most: a
// scope stands still until it is in, and what is sent while the stream has no
// leader is refused at once.
const reopenPace = 100 * time.Millisecond

// AppendOpened appends a sealed opened event, on the expectation that the last
// one of its scope is at sequence expect (0: there is none), and gives its
// sequence, the new fence. Repeating it is harmless, since at most one message
// can be stored on one expectation; so an unknown outcome is looked up by the
// attempt's id and tried again, until ctx ends ([ErrUnsettled]). Somebody else's
// gives a [*Fenced], a full log [ErrFull], a missing stream [ErrNoStream].
func (l *Log) AppendOpened(ctx context.Context, payload []byte, ev events.Event, expect uint64) (uint64, error) {
	seq, err := l.appendOpened(ctx, payload, ev, expect)
	if err != nil {
		return 0, fmt.Errorf("opening epoch %d of scope %s: %w", ev.Epoch, ev.Scope, err)
	}
	return seq, nil
}

func (l *Log) appendOpened(ctx context.Context, payload []byte, ev events.Event, expect uint64) (uint64, error) {
	ours, ok := ev.Data.(*events.Opened)
	if !ok || ours.Attempt == "" {
		return 0, fmt.Errorf("%w: it takes an opened event with an attempt id", ErrRefused)
	}
	subject := events.OpenedSubject(ev.Scope)
	maybe := false // whether an attempt may be stored
	p := pace{most: reopenPace}
	check := time.Now().Add(l.cfg.GiveUp)
	for {
		o := l.publish(ctx, ev.Scope, &nats.Msg{Subject: subject, Data: payload, Header: fenceHeader(subject, expect, 0)})
		switch o.kind {
		case stored:
			return o.seq, nil
		case moved:
			seq, err := l.whoMoved(ctx, ev.Scope, ours.Attempt, expect, o.actual)
			if seq > 0 || err != nil {
				return seq, err
			}
		case refused, denied:
			if !maybe {
				return 0, o.err
			}
			return 0, fmt.Errorf("%w: %w", ErrUnsettled, o.err)
		case unknown:
			maybe = true
			if seq, err := l.lookForAttempt(ctx, ev.Scope, ours.Attempt, expect); seq > 0 || err != nil {
				return seq, err
			}
		case untaken:
			// Without a leader nobody answers what the stream is, and asking
			// would only delay the next attempt: the stream may be gone when
			// this has lasted.
			if !time.Now().Before(check) {
				if err := l.same(ctx); err != nil {
					return 0, err
				}
				check = time.Now().Add(l.cfg.GiveUp)
			}
		}
		if p.wait(ctx) != nil {
			if !maybe {
				return 0, fmt.Errorf("%w: %w", ErrUnavailable, o.err)
			}
			return 0, fmt.Errorf("%w: %w", ErrUnsettled, o.err)
		}
	}
}

// whoMoved tells who opened the epoch at actual: seq when it was our attempt,
// Fenced when it was somebody else; neither when it can't be told yet.
func (l *Log) whoMoved(ctx context.Context, scope, attempt string, expect, actual uint64) (seq uint64, err error) {
	if actual < expect {
		// Nothing takes an opened event back: a leader that has just been
		// replaced says so, or this is not the stream it was.
		return 0, l.standsAt(ctx, expect)
	}
	last, err := l.LastOpened(ctx, scope)
	if errors.Is(err, ErrNoStream) {
		return 0, err
	}
	if last == nil || last.Seq < actual {
		return 0, nil
	}
	if d := last.Data(); d != nil && d.Attempt == attempt {
		return last.Seq, nil
	}
	return 0, fencedBy(scope, last)
}

// lookForAttempt looks whether an attempt whose outcome is unknown is the last
// opened event, or somebody else's is. Finding neither decides nothing.
func (l *Log) lookForAttempt(ctx context.Context, scope, attempt string, expect uint64) (seq uint64, err error) {
	last, err := l.LastOpened(ctx, scope)
	if errors.Is(err, ErrNoStream) {
		return 0, err
	}
	if last == nil || last.Seq <= expect {
		return 0, nil
	}
	if d := last.Data(); d != nil && d.Attempt == attempt {
		return last.Seq, nil
	}
	return 0, fencedBy(scope, last)
}

func fencedBy(scope string, o *Opened) *Fenced {
	f := &Fenced{Scope: scope, Seq: o.Seq}
	if d := o.Data(); d != nil {
		f.Epoch, f.Holder, f.How = o.Event.Epoch, d.Holder, d.How
	}
	return f
}

// standsAt gives an error when the stream is gone, is another one, or is a single
// one that no longer holds the sequence: an older copy was put in its place.
func (l *Log) standsAt(ctx context.Context, seq uint64) error {
	ctx, cancel := context.WithTimeout(ctx, min(readWait, l.cfg.AckWait))
	defer cancel()
	state, err := l.Info(ctx)
	if errors.Is(err, ErrNoStream) || errors.Is(err, ErrReplaced) {
		return err
	}
	if err == nil && state.Replicas == 1 && state.LastSeq < seq {
		return fmt.Errorf("stream %s ends at sequence %d, it held %d: %w", l.cfg.Stream, state.LastSeq, seq, ErrReplaced)
	}
	return nil
}

// same gives an error when the stream is gone or is another one, as far as that
// is told within readWait.
func (l *Log) same(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, min(readWait, l.cfg.AckWait))
	defer cancel()
	_, err := l.Info(ctx)
	if errors.Is(err, ErrNoStream) || errors.Is(err, ErrReplaced) {
		return err
	}
	return nil
}
