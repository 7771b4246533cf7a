package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Step is a span below another one. The zero value is none.
type Step struct{ span trace.Span }

// Start begins a step below the span that ctx carries, with the tracer provider
// of that span; where that is not recorded, neither is the step. tracer is the
// import path of who calls.
func Start(ctx context.Context, tracer, name string, about ...attribute.KeyValue) (context.Context, Step) {
	above := trace.SpanFromContext(ctx)
	if !above.IsRecording() {
		return ctx, Step{}
	}
	ctx, span := above.TracerProvider().Tracer(tracer).Start(ctx, name, trace.WithAttributes(about...))
	return ctx, Step{span}
}

// End ends the step as OK or, with an error, as failed. Nothing of the error is
// recorded: its text may hold what nobody may see.
func (s Step) End(err error) {
	if s.span == nil {
		return
	}
	o := OK
	if err != nil {
		o = Failed
	}
	End(s.span, o)
}

// End ends a span with an outcome.
func End(span trace.Span, o Outcome, more ...attribute.KeyValue) {
	span.SetAttributes(more...)
	SetOutcome(span, o)
	span.End()
}

// SetOutcome notes how a span came out.
func SetOutcome(span trace.Span, o Outcome) {
	span.SetAttributes(o.Attribute())
	if o.Bad() {
		span.SetStatus(codes.Error, "") // without a description, which would be text of an error
	}
}
