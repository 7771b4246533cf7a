package tracing

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// carrier holds the one header of ours (W3C Trace Context). There is no
// tracestate: what others say in theirs is not ours to pass on.
type carrier struct{ traceparent string }

const header = "traceparent"

// Get implements propagation.TextMapCarrier.
func (c *carrier) Get(key string) string {
	if key == header {
		return c.traceparent
	}
	return ""
}

// Set implements propagation.TextMapCarrier.
func (c *carrier) Set(key, value string) {
	if key == header {
		c.traceparent = value
	}
}

// Keys implements propagation.TextMapCarrier.
func (c *carrier) Keys() []string { return []string{header} }

// Traceparent gives the header's value for the span that ctx carries; empty:
// there is none.
func Traceparent(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	var c carrier
	propagation.TraceContext{}.Inject(ctx, &c)
	return c.traceparent
}

// longest bounds a header that is looked at: version 00 has 55 characters, a later
// one may have more.
const longest = 256

// Remote has spans that are begun with the result be below the one that a header
// names. A header that is none changes nothing.
func Remote(ctx context.Context, traceparent string) context.Context {
	if traceparent == "" || len(traceparent) > longest {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, &carrier{traceparent})
}

// SpanContext gives what a header names; it is not valid where that is nothing.
func SpanContext(traceparent string) trace.SpanContext {
	return trace.SpanContextFromContext(Remote(context.Background(), traceparent))
}
