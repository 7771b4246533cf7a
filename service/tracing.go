package service

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/handover/wire"
	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/tracing"
)

const tracerName = "github.com/leasesvc/leasesvc/service"

// handovers makes the spans of a term's hand-overs. Its ids follow from the log
// (package tracing), so that what one holder began another one goes on with: the
// span above all others is made when the log says how the hand-over came out, by
// who leads then. Its fields belong to the scope's goroutine. A nil *handovers
// makes none.
type handovers struct {
	term   *term
	tracer trace.Tracer
	// began is when a candidate was requested, as far as this term saw it.
	began map[candidate]time.Time
	// open are the hand-overs that are decided, while somebody is still told.
	open map[string]decision
	// failed has the last hand-over of a name where that came to nothing.
	failed map[string]trace.SpanContext
	// appending is when the append began whose events are being applied.
	appending time.Time
}

// candidate is a lease on its way in.
type candidate struct {
	name  string
	lease uint64
}

// decision is a hand-over that was committed, or is being rolled back.
type decision struct {
	trace  tracing.Trace
	n      uint64
	revert bool
	began  time.Time
}

// newHandovers gives the spans of a term; nil where nothing is traced.
func newHandovers(t *term) *handovers {
	p := t.svc.opts.TracerProvider
	if p == nil {
		return nil
	}
	h := &handovers{
		term: t, tracer: p.Tracer(tracerName, trace.WithInstrumentationVersion(t.svc.opts.Version)),
		began: map[candidate]time.Time{}, open: map[string]decision{}, failed: map[string]trace.SpanContext{},
	}
	for n := range t.projection.State().Names() {
		h.inherit(n)
	}
	return h
}

// inherit finds what a holder before has decided and not told everybody: its roll
// back, or its commit where the lease before waits for confirmations. Nothing else
// that is told after a takeover belongs to a hand-over.
func (h *handovers) inherit(n *leasecore.Name) {
	if over := n.Handover; over != nil && over.RollingBack {
		if l := n.Lease(over.Lease); l != nil {
			h.open[n.Name] = decision{trace: h.of(n.Name, l), n: n.N, revert: true, began: h.machine(over.RollbackAt)}
		}
		return
	}
	active := n.Lease(n.Active)
	if active == nil || n.Reverted {
		return
	}
	for i := range n.Leases {
		if l := &n.Leases[i]; l.State == leasecore.Grace && l.GateN == n.N {
			h.open[n.Name] = decision{trace: h.of(n.Name, active), n: n.N}
			return
		}
	}
}

func (h *handovers) of(name string, l *leasecore.Lease) tracing.Trace {
	return tracing.Of(h.term.svc.journal.Created(), h.term.name, name, l.No, l.Epoch)
}

// machine puts a time of the holder's clock on the machine's, which all other
// spans have.
func (h *handovers) machine(at time.Time) time.Time {
	return time.Now().Add(at.Sub(h.term.svc.clock.Now()))
}

func (h *handovers) about(name string, lease uint64) []attribute.KeyValue {
	return []attribute.KeyValue{
		tracing.ScopeKey.String(h.term.name), tracing.NameKey.String(name), tracing.Lease(lease), tracing.Epoch(h.term.epoch),
	}
}

// effectSpan is the span of one run of an effect. A nil one is none.
type effectSpan struct {
	span  trace.Span
	ended bool
}

// effect begins the span of an effect that belongs to a hand-over. Called on the
// scope's goroutine.
func (h *handovers) effect(ctx context.Context, e leasecore.Effect) (context.Context, *effectSpan) {
	if h == nil {
		return ctx, nil
	}
	n := h.term.projection.State().Name(e.Name)
	var above trace.SpanContext
	name, kind := e.Kind.String(), trace.SpanKindInternal
	switch e.Kind {
	case leasecore.Acquire, leasecore.Extend, leasecore.Verify, leasecore.Prepare:
		l := n.Lease(e.Lease)
		if l == nil {
			return ctx, nil
		}
		above = h.of(e.Name, l).Root()
	case leasecore.Tell:
		d, ok := h.open[e.Name]
		if !ok || d.n != e.N {
			return ctx, nil // somebody who came later, or a holder that asks again
		}
		name, above = "follow", d.trace.Root()
		if d.revert {
			name, above = "revert", d.trace.Part("rollback", d.n)
		}
	default:
		return ctx, nil
	}
	about := h.about(e.Name, e.Lease)
	if in := n.Incarnation(e.Incarnation); in != nil {
		kind = trace.SpanKindClient
		about = append(about, tracing.N(e.N), tracing.ConsumerKey.String(in.Consumer), tracing.InstanceKey.String(in.Instance))
	}
	ctx, span := h.tracer.Start(trace.ContextWithRemoteSpanContext(ctx, above), name, trace.WithSpanKind(kind), trace.WithAttributes(about...))
	return ctx, &effectSpan{span: span}
}

// end ends the span, unless it has ended.
func (s *effectSpan) end(o tracing.Outcome, more ...attribute.KeyValue) {
	if s == nil || s.ended {
		return
	}
	s.ended = true
	tracing.End(s.span, o, more...)
}

// done ends the span with the outcome of the effect.
func (s *effectSpan) done(r request, ok bool) {
	if s == nil {
		return
	}
	if !ok {
		s.end(tracing.Ended)
		return
	}
	var failed *leasecore.Failed
	switch c := r.command.(type) {
	case leasecore.AcquireDone:
		failed = c.Err
	case leasecore.ExtendDone:
		failed = c.Err
	case leasecore.VerifyDone:
		failed = c.Err
	case leasecore.Answered: // not asked, since the documents can't hold the candidate
		s.end(tracing.No)
		return
	default:
		s.end(tracing.Failed)
		return
	}
	if failed != nil {
		s.end(tracing.Failed, tracing.Failure(failed.Kind))
		return
	}
	s.end(tracing.OK)
}

// answered ends the span of a message with what the incarnation said.
func (s *effectSpan) answered(a handover.Answer) {
	if s == nil || s.ended {
		return
	}
	o := verdicts[a.Verdict]
	if a.Vague {
		o = tracing.Vague
	}
	if theirs := tracing.SpanContext(a.Traceparent); theirs.IsValid() && theirs.TraceID() != s.span.SpanContext().TraceID() {
		s.span.AddLink(tracing.Link(theirs, tracing.Answer))
	}
	s.end(o)
}

// verdicts are those of incarnations in a span's words.
var verdicts = map[wire.Verdict]tracing.Outcome{
	wire.Yes: tracing.Yes, wire.No: tracing.No, wire.Confirmed: tracing.Confirmed, wire.Stale: tracing.Stale,
}

// unanswered ends the span of a message that nobody answered while asking lasted.
func (s *effectSpan) unanswered(asking context.Context, err error) {
	if s == nil {
		return
	}
	var none *handover.NoAnswerError
	deadline, bounded := asking.Deadline()
	switch {
	case errors.As(err, &none) && none.Absent > 0:
		s.end(tracing.Absent)
	case bounded && !time.Now().Before(deadline):
		s.end(tracing.NoAnswer)
	default:
		s.end(tracing.Ended)
	}
}

// header gives what carries the span to the incarnation; empty: there is none.
func (s *effectSpan) header() string {
	if s == nil {
		return ""
	}
	return tracing.Traceparent(trace.ContextWithSpan(context.Background(), s.span))
}
