package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasesvc/leasesvc/events"
)

// Term is what a holder writes under.
type Term struct {
	Scope string
	Epoch uint64
	// Fence is the sequence of the opened event; Tail that of the scope's last
	// event known, at least Fence.
	Fence, Tail uint64
	// Chain is the scope's chain after the event at Tail.
	Chain events.Chain
	// OpenedVersion is the version in which opened events may be written; 0: the
	// lowest.
	OpenedVersion int
	// Holder and SealKey go into the opened events by which outcomes are settled.
	Holder, SealKey string
	// NewID gives ids that nobody else gives; Now is the holder's clock.
	NewID func() string
	Now   func() time.Time
}

// Result is what an append came to.
type Result struct {
	// Events is everything that is new in the log, in order, with Seq set:
	// the appended events, and the opened event by which an outcome was settled.
	Events []events.Event
	// Landed tells whether the events that were to be appended are among them.
	// If not, they never will be: decide again.
	Landed bool
}

// Writer appends a scope's events under one fence. It belongs to one goroutine
// at a time.
type Writer struct {
	log  *Log
	term Term // Fence, Tail and Chain move on
	// over is why the writer is of no more use.
	over error
	// doubt: the last append was refused by a server, perhaps one that had been
	// replaced; look at the log before the next.
	doubt bool
}

// NewWriter gives the writer of a term. Its opened event must be in the log.
func (l *Log) NewWriter(term Term) *Writer {
	term.Tail = max(term.Tail, term.Fence)
	return &Writer{log: l, term: term}
}

// Fence gives the sequence that the next append is conditional on.
func (w *Writer) Fence() uint64 { return w.term.Fence }

// Tail gives the sequence of the last event known.
func (w *Writer) Tail() uint64 { return w.term.Tail }

// Append appends evs, all or none, and returns when it is known which (P3, P4).
// Only events of this term's scope and epoch are taken, and no opened ones; the
// slice is not changed.
//
// With a nil error, Result tells what is new in the log; Landed may be false.
// ErrUnavailable, ErrFull, ErrTooLarge and ErrRefused: nothing was stored, the
// writer goes on. A [*Fenced]: the scope is somebody else's. ErrForbidden,
// ErrNoStream, ErrReplaced, ErrUnsettled and what [events.Chain.Admit] says of
// our own log: nothing is decided. After these the writer is of no more use and
// says the same again.
//
// Settling an unknown outcome goes on until ctx ends: give the context of the
// term, not of a request.
func (w *Writer) Append(ctx context.Context, evs []events.Event) (Result, error) {
	if w.over != nil {
		return Result{}, w.over
	}
	if len(evs) == 0 {
		return Result{Landed: true}, nil
	}
	s, err := w.sealer(evs)
	if err != nil {
		return Result{}, err
	}
	for p := (pace{}); ; {
		if w.doubt {
			found, err := w.look(ctx)
			if over(err) {
				return Result{}, w.end(err)
			}
			if err != nil {
				return Result{}, fmt.Errorf("appending to scope %s: looking at its end: %w", w.term.Scope, err)
			}
			w.doubt = false
			if len(found) > 0 {
				return Result{Events: found, Landed: holds(found, evs)}, nil
			}
		}
		o, err := w.publish(ctx, s)
		if err != nil {
			return Result{}, err
		}
		switch o.kind {
		case stored:
			return w.landed(evs, s.chain, o.seq), nil
		case crowded: // until there is a place
			w.doubt = true
			if p.wait(ctx) != nil {
				return Result{}, fmt.Errorf("appending to scope %s: %w: %w: %w", w.term.Scope, ErrUnavailable, ctx.Err(), o.err)
			}
			continue
		case refused:
			w.doubt = true
			return Result{}, fmt.Errorf("appending %d events of scope %s: %w", len(evs), w.term.Scope, o.err)
		case denied:
			return Result{}, w.end(fmt.Errorf("appending to scope %s: %w", w.term.Scope, o.err))
		case moved:
			if o.actual > w.term.Fence {
				return Result{}, w.end(w.fenced(ctx, o.actual))
			}
		}
		return w.settle(ctx, evs, o.err)
	}
}

// publish sends the append, again while it is certain that nobody took it, for
// GiveUp.
func (w *Writer) publish(ctx context.Context, s *sealer) (outcome, error) {
	until := time.Now().Add(w.log.cfg.GiveUp)
	var p pace
	for {
		var o outcome
		if len(s.evs) == 1 {
			o = w.log.publishOne(ctx, s)
		} else {
			o = w.log.publishBatch(ctx, w.term.Scope, w.term.NewID(), len(s.evs), s.message)
		}
		if o.kind != untaken {
			return o, nil
		}
		if !time.Now().Before(until) {
			if err := w.log.same(ctx); err != nil {
				return o, w.end(fmt.Errorf("appending to scope %s: %w", w.term.Scope, err))
			}
			return o, fmt.Errorf("appending to scope %s: %w: %w", w.term.Scope, ErrUnavailable, o.err)
		}
		if p.wait(ctx) != nil {
			return o, fmt.Errorf("appending to scope %s: %w: %w: %w", w.term.Scope, ErrUnavailable, ctx.Err(), o.err)
		}
	}
}

// landed moves the writer on. The server gives the events of one append
// sequences in a row.
func (w *Writer) landed(evs []events.Event, chain events.Chain, last uint64) Result {
	out := make([]events.Event, len(evs))
	copy(out, evs)
	for i := range out {
		out[i].Seq = last - uint64(len(out)-1-i)
	}
	w.term.Chain, w.term.Tail = chain, last
	return Result{Events: out, Landed: true}
}

// end makes the writer of no more use.
func (w *Writer) end(err error) error {
	w.over = err
	return err
}

// fenced says by whom.
func (w *Writer) fenced(ctx context.Context, seq uint64) error {
	f := &Fenced{Scope: w.term.Scope, Seq: seq}
	if last, _ := w.log.LastOpened(ctx, w.term.Scope); last != nil && last.Seq >= seq {
		return fencedBy(w.term.Scope, last)
	}
	return f
}

// errUnread: the log could not be read up to where it must be.
var errUnread = errors.New("the log does not show yet what it holds")
