// Package tracing is what service and consumers agree on to make one trace of
// each hand-over: its ids, the names and attributes of its spans, and the header
// that carries it through NATS.
//
// Which function to call: [Of] gives the trace of a lease's way in, [WithIDs] has
// a span begun with given ids, [Traceparent] and [Remote] write and read the
// header, [Start] begins a step below the span that a context carries.
//
// Guarantees. The ids follow from what the log says of a lease, so that a holder
// that takes over goes on with its predecessor's trace, and nothing of a trace
// stands in the log. Attributes come from a closed set (docs/tracing.md): names
// and numbers of ours and words of our enumerations, never an error's text, a user
// name, a lease id, or a value. A context without a span that is recorded costs no
// allocation. A header that is malformed is ignored, and nothing is ever decided
// on one: it is not signed.
//
// It knows the API of OpenTelemetry only; where spans go is package otlp's, below
// it. It has no state, and its functions are safe for concurrent use.
package tracing
