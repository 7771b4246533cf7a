package service

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/handover/wire"
	"github.com/leasesvc/leasesvc/leasecore"
)

// TracingOff goes through everything that a hand-over's spans cost where nothing
// is traced.
func TracingOff(ctx context.Context, e *events.Event, f leasecore.Effect, owed []leasecore.Effect) {
	var h *handovers
	was := h.before(e)
	h.after(e, was)
	h.appends()
	h.settled(f.Name, owed)
	_, span := h.effect(ctx, f)
	span.done(request{}, true)
	span.answered(handover.Answer{})
	span.unanswered(ctx, nil)
	_ = span.header()
}

// Answered ends a span as one of asking, with the header of the answer.
func Answered(span trace.Span, header string) {
	(&effectSpan{span: span}).answered(handover.Answer{Verdict: wire.Yes, Traceparent: header})
}
