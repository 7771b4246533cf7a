package journal

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasesvc/leasesvc/events"
)

// settle finds out whether evs are in the log (P4). Nothing else is decided
// until it is known.
func (w *Writer) settle(ctx context.Context, evs []events.Event, cause error) (Result, error) {
	// Look once. Found decides, and the fence may stay where it is.
	before := w.term
	if found, err := w.look(ctx); err == nil && holds(found, evs) {
		return Result{Events: found, Landed: true}, nil
	} else if over(err) {
		return Result{}, w.end(err)
	}
	w.term = before
	// Not found decides nothing: move the fence. What does not stand below the
	// new one will never be stored.
	fence, err := w.reopen(ctx, cause)
	if err != nil {
		return Result{}, w.end(err)
	}
	for p := (pace{most: reopenPace}); ; {
		found, err := w.read(ctx, fence)
		if err == nil {
			w.term.Fence, w.doubt = fence, false
			return Result{Events: found, Landed: holds(found, evs)}, nil
		}
		if over(err) {
			return Result{}, w.end(err)
		}
		if p.wait(ctx) != nil {
			return Result{}, w.end(fmt.Errorf("reading scope %s up to the fence at sequence %d: %w: %w", w.term.Scope, fence, ErrUnsettled, err))
		}
	}
}

// reopen appends an opened event of the same epoch by compare-and-set on the
// fence and gives its sequence.
func (w *Writer) reopen(ctx context.Context, cause error) (uint64, error) {
	ev := events.Event{
		ID: w.term.NewID(), Scope: w.term.Scope, Name: events.EpochName, Version: w.term.OpenedVersion, Epoch: w.term.Epoch,
		Time: w.term.Now(), Actor: events.Service(w.term.Holder),
		Data: &events.Opened{
			Holder: w.term.Holder, How: events.HowReopened, Attempt: w.term.NewID(),
			SealKey: w.term.SealKey, StreamCreated: w.log.created.UTC(),
		},
	}
	// An opened event begins a segment: it is sealed the same, whatever of ours
	// stands before it.
	chain := w.term.Chain
	payload, err := chain.Seal(&ev)
	if err != nil {
		return 0, err
	}
	for p := (pace{most: reopenPace}); ; {
		fence, err := w.log.appendOpened(ctx, payload, ev, w.term.Fence)
		if err == nil {
			return fence, nil
		}
		// What is full or out of reach now may not be later; the term's context
		// bounds how long that is tried.
		later := !over(err) || errors.Is(err, ErrUnsettled) && !errors.Is(err, ErrForbidden)
		if later && p.wait(ctx) == nil {
			continue
		}
		if errors.Is(err, ErrFenced) || errors.Is(err, ErrUnsettled) {
			return 0, fmt.Errorf("settling an append to scope %s (%w): %w", w.term.Scope, cause, err)
		}
		return 0, fmt.Errorf("settling an append to scope %s (%w): %w: %w", w.term.Scope, cause, ErrUnsettled, err)
	}
}

// over tells the errors after which a writer can't go on.
func over(err error) bool {
	return errors.Is(err, ErrFenced) || errors.Is(err, ErrUnsettled) || errors.Is(err, ErrForbidden) ||
		errors.Is(err, ErrNoStream) || errors.Is(err, ErrReplaced) || errors.Is(err, events.ErrBroken) || future(err)
}

func future(err error) bool {
	var f *events.FutureError
	return errors.As(err, &f)
}

// holds tells whether all of want are among found. An append is in the log as a
// whole or not at all, so its last event tells.
func holds(found, want []events.Event) bool {
	id := want[len(want)-1].ID
	for i := range found {
		if found[i].ID == id {
			return true
		}
	}
	return false
}

// look reads what of the scope is behind the tail, as far as the leader shows it.
func (w *Writer) look(ctx context.Context) ([]events.Event, error) { return w.read(ctx, 0) }

// read admits what of the scope is behind the tail, up to the fence at to or, if
// that is 0, as far as the leader shows it. The writer moves on by what it read,
// or not at all.
func (w *Writer) read(ctx context.Context, to uint64) ([]events.Event, error) {
	chain, tail := w.term.Chain, w.term.Tail
	var found []events.Event
	for to == 0 || tail < to {
		m, err := w.log.next(ctx, w.term.Scope, tail+1)
		if err != nil {
			return nil, err
		}
		if m == nil || to > 0 && m.Sequence > to {
			if to > 0 {
				return nil, errUnread // a leader that has just been replaced
			}
			break
		}
		e, err := chain.Admit(m.Data, m.Sequence)
		var unknown *events.UnknownKeyError
		switch {
		case errors.As(err, &unknown): // by who has another seal key
			return nil, fencedBy(w.term.Scope, &Opened{Seq: m.Sequence, Event: e})
		case err == nil && to == 0 && e.Type() == events.TypeOpened:
			return nil, fencedBy(w.term.Scope, &Opened{Seq: m.Sequence, Event: e})
		case err == nil:
			found = append(found, e)
		case errors.Is(err, events.ErrForged), errors.Is(err, events.ErrEvent):
			w.log.skipped.Add(1)
		default:
			return nil, fmt.Errorf("reading scope %s: %w", w.term.Scope, err)
		}
		tail = m.Sequence
	}
	w.term.Chain, w.term.Tail = chain, tail
	return found, nil
}

// next reads a scope's first message at sequence from or behind it, from the
// stream's leader; nil: there is none.
func (l *Log) next(ctx context.Context, scope string, from uint64) (*jetstream.RawStreamMsg, error) {
	return l.get(ctx, func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
		return l.read.GetMsg(ctx, from, jetstream.WithGetMsgSubject(events.ScopeFilter(scope)))
	})
}
