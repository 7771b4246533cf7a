package journal

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/leasesvc/leasesvc/events"
)

// sealer makes the messages of one append, each when it is asked for the first
// time: while a batch is still being sealed, the server works on its beginning.
// The chain is a copy; it becomes the writer's when the append has come true.
type sealer struct {
	evs   []events.Event
	chain events.Chain
	fence uint64
	msgs  []*nats.Msg
	size  int
}

// sealer checks what can be checked before anything is sent.
func (w *Writer) sealer(evs []events.Event) (*sealer, error) {
	if len(evs) > MaxBatch {
		return nil, fmt.Errorf("appending %d events: at most %d at once: %w", len(evs), MaxBatch, ErrTooLarge)
	}
	for i := range evs {
		e := &evs[i]
		if e.Scope != w.term.Scope || e.Epoch != w.term.Epoch || e.Type() == events.TypeOpened {
			return nil, fmt.Errorf("appending to scope %s in epoch %d: a %s event of scope %s in epoch %d: %w",
				w.term.Scope, w.term.Epoch, e.Type(), e.Scope, e.Epoch, ErrRefused)
		}
	}
	s := &sealer{evs: evs, chain: w.term.Chain, fence: w.term.Fence, msgs: make([]*nats.Msg, 0, len(evs))}
	if _, err := s.message(0); err != nil {
		return nil, err
	}
	return s, nil
}

// message gives the i-th message; they are asked for in order. The first one
// carries the fence.
func (s *sealer) message(i int) (*nats.Msg, error) {
	if i < len(s.msgs) {
		return s.msgs[i], nil
	}
	e := &s.evs[i]
	payload, err := s.chain.Seal(e)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	if s.size += len(payload); s.size > MaxBatchBytes {
		return nil, fmt.Errorf("appending %d events of more than %d bytes: %w", len(s.evs), MaxBatchBytes, ErrTooLarge)
	}
	m := &nats.Msg{Subject: e.Subject(), Data: payload}
	if i == 0 {
		m.Header = fenceHeader(events.OpenedSubject(e.Scope), s.fence, 3)
	}
	s.msgs = append(s.msgs, m)
	return m, nil
}

// publishOne appends a single event.
func (l *Log) publishOne(ctx context.Context, s *sealer) outcome {
	m, err := s.message(0)
	if err != nil {
		return outcome{kind: refused, err: err}
	}
	return l.publish(ctx, s.evs[0].Scope, m)
}
