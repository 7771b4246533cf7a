package consumer

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/leasesvc/leasesvc/handover/wire"
	"github.com/leasesvc/leasesvc/tracing"
)

const tracerName = "github.com/leasesvc/leasesvc/consumer"

// outcomes are the verdicts in a span's words.
var outcomes = map[wire.Verdict]tracing.Outcome{
	wire.Yes: tracing.Yes, wire.No: tracing.No, wire.Confirmed: tracing.Confirmed, wire.Stale: tracing.Superseded,
}

// startSpan begins the span of a task, below the one that its message names. A
// task that came with the answer to a registration has a trace of its own.
func (s *serving) startSpan(ctx context.Context, t *task) context.Context {
	if s.c.tracer == nil {
		return ctx
	}
	ctx = tracing.Remote(ctx, t.traceparent)
	ctx, t.span = s.c.tracer.Start(ctx, string(t.kind), trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		tracing.ScopeKey.String(s.c.opts.Scope), tracing.NameKey.String(s.name), tracing.Lease(t.cred.Lease),
		tracing.Epoch(t.cred.Epoch), tracing.N(t.n),
		tracing.ConsumerKey.String(s.c.opts.Consumer), tracing.InstanceKey.String(s.c.instance)))
	return ctx
}

func (t *task) endSpan(o tracing.Outcome) {
	if t.span != nil {
		tracing.End(t.span, o)
	}
}

// spanHeader gives the header that names the task's span; empty: it has none.
func (t *task) spanHeader() string {
	if t.span == nil {
		return ""
	}
	return tracing.Traceparent(trace.ContextWithSpan(context.Background(), t.span))
}
