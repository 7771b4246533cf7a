package service

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/tracing"
)

// underway is what a name's candidate was before an event.
type underway struct {
	lease    leasecore.Lease // No 0: there was none
	active   *leasecore.Lease
	handover *leasecore.Handover
}

// before looks at a name before an event is applied.
func (h *handovers) before(e *events.Event) *underway {
	if h == nil {
		return nil
	}
	was := &underway{}
	n := h.term.projection.State().Name(e.Name)
	if n == nil {
		return was
	}
	if c := n.Lease(n.Candidate); c != nil {
		was.lease = *c
	}
	if a := n.Lease(n.Active); a != nil {
		active := *a
		was.active = &active
	}
	if over := n.Handover; over != nil {
		copied := *over
		was.handover = &copied
	}
	return was
}

// after makes the spans that an event completes, once it was applied.
func (h *handovers) after(e *events.Event, was *underway) {
	if h == nil {
		return
	}
	n := h.term.projection.State().Name(e.Name)
	if n == nil {
		delete(h.open, e.Name)
		delete(h.failed, e.Name)
	}
	now := time.Now()
	switch e.Data.(type) {
	case *events.Requested, *events.Adopted:
		h.began[candidate{e.Name, e.Lease}] = now
		return
	case *events.RollbackStarted:
		h.open[e.Name] = decision{trace: h.of(e.Name, &was.lease), n: e.Seq, revert: true, began: now}
		return
	case *events.Installed:
		of := h.of(e.Name, &was.lease)
		h.open[e.Name] = decision{trace: of, n: e.Seq}
		h.span(of.Root(), trace.SpanContext{}, "commit", h.appending, now, tracing.OK, h.about(e.Name, e.Lease), tracing.N(e.Seq))
	case *events.RolledBack:
		h.rolledBack(e, was, now)
	}
	if was.lease.No != 0 && was.lease.No == e.Lease && (n == nil || n.Candidate != e.Lease) {
		h.conclude(e, was, now)
	}
}

// rolledBack makes the span of a roll back, above those of telling everybody.
func (h *handovers) rolledBack(e *events.Event, was *underway, now time.Time) {
	d, ok := h.open[e.Name]
	if !ok || was.handover == nil {
		return
	}
	outcome := tracing.OK
	if data, ok := e.Data.(*events.RolledBack); ok && !data.Safe {
		outcome = tracing.NoAnswer
	}
	h.span(d.trace.Root(), d.trace.Part("rollback", d.n), "rollback", d.began, now, outcome,
		h.about(e.Name, e.Lease), tracing.N(d.n), tracing.Failure(was.handover.Failure.Kind))
}

// conclude makes the span of a whole hand-over, when its candidate is one no more.
func (h *handovers) conclude(e *events.Event, was *underway, now time.Time) {
	key := candidate{e.Name, e.Lease}
	began, known := h.began[key]
	delete(h.began, key)
	if !known { // a holder before requested it
		began = h.machine(was.lease.GrantedAt)
		if was.handover != nil && was.handover.Started.Before(was.lease.GrantedAt) {
			began = h.machine(was.handover.Started)
		}
	}
	outcome, more := came(e, was)
	var links []trace.Link
	if was.active != nil {
		links = append(links, tracing.Link(h.of(e.Name, was.active).Root(), tracing.Replaces))
	}
	if failed, ok := h.failed[e.Name]; ok {
		links = append(links, tracing.Link(failed, tracing.Attempt))
	}
	root := h.of(e.Name, &was.lease).Root()
	if h.failed[e.Name] = root; outcome == tracing.Committed || h.term.projection.State().Name(e.Name) == nil {
		delete(h.failed, e.Name)
	}
	about := append(h.about(e.Name, e.Lease), tracing.N(e.Seq))
	_, span := h.tracer.Start(tracing.WithIDs(context.Background(), root), "handover",
		trace.WithTimestamp(began), trace.WithAttributes(append(about, more...)...), trace.WithLinks(links...))
	tracing.SetOutcome(span, outcome)
	span.End(trace.WithTimestamp(now))
}

// came tells how a hand-over came out by the event that ended it.
func came(e *events.Event, was *underway) (tracing.Outcome, []attribute.KeyValue) {
	failure := func(kind string) []attribute.KeyValue { return []attribute.KeyValue{tracing.Failure(kind)} }
	switch d := e.Data.(type) {
	case *events.Installed:
		return tracing.Committed, nil
	case *events.RolledBack:
		outcome := tracing.Kept
		if d.Safe {
			outcome = tracing.RolledBack
		}
		if was.handover == nil {
			return outcome, nil
		}
		return outcome, failure(was.handover.Failure.Kind)
	case *events.AcquireFailed:
		return tracing.AcquireFailed, failure(d.Failure.Kind)
	case *events.VerifyFailed:
		return tracing.VerifyFailed, failure(d.Failure.Kind)
	case *events.Orphaned:
		return tracing.Orphaned, nil
	case *events.Expired:
		return tracing.Expired, nil
	default:
		return tracing.Retired, nil
	}
}

// span makes a span that is over, with the ids of is where those are valid.
func (h *handovers) span(above, is trace.SpanContext, name string, began, ended time.Time, o tracing.Outcome, about []attribute.KeyValue, more ...attribute.KeyValue) {
	ctx := trace.ContextWithRemoteSpanContext(context.Background(), above)
	if is.IsValid() {
		ctx = tracing.WithIDs(ctx, is)
	}
	_, span := h.tracer.Start(ctx, name, trace.WithTimestamp(began), trace.WithAttributes(append(about, more...)...))
	tracing.SetOutcome(span, o)
	span.End(trace.WithTimestamp(ended))
}

// appends notes when an append begins.
func (h *handovers) appends() {
	if h != nil {
		h.appending = time.Now()
	}
}

// settled closes a hand-over of which nobody need be told any more.
func (h *handovers) settled(name string, owed []leasecore.Effect) {
	if h == nil {
		return
	}
	d, ok := h.open[name]
	if !ok {
		return
	}
	for i := range owed {
		if owed[i].Kind == leasecore.Tell && owed[i].N == d.n {
			return
		}
	}
	if n := h.term.projection.State().Name(name); n != nil && n.Handover != nil && n.Handover.RollingBack {
		return // its end is still to come
	}
	delete(h.open, name)
}
