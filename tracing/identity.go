package tracing

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// Trace is the trace of one lease's way in: from the request until it is
// committed and followed, or comes to nothing.
type Trace struct {
	id trace.TraceID
}

// Of gives the trace of a lease. stream is when the log's stream was created,
// which tells one deployment from another; epoch is the one that the lease was
// requested under. The same arguments give the same trace, in every instance.
func Of(stream time.Time, scope, name string, lease, epoch uint64) Trace {
	h := sha256.New()
	h.Write([]byte("leasesvc-trace-v1"))
	for _, text := range []string{scope, name} {
		writeUint(h, uint64(len(text)))
		h.Write([]byte(text))
	}
	for _, n := range []uint64{uint64(stream.UnixNano()), lease, epoch} {
		writeUint(h, n)
	}
	var t Trace
	copy(t.id[:], h.Sum(nil))
	return t
}

func writeUint(h interface{ Write([]byte) (int, error) }, n uint64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	_, _ = h.Write(b[:]) // a hash takes everything
}

// ID gives the trace's id.
func (t Trace) ID() trace.TraceID { return t.id }

// Root gives the ids of the span that is above all others.
func (t Trace) Root() trace.SpanContext { return t.Part("handover", 0) }

// Part gives the ids of a span that others are below of, though it may be begun
// and ended by different instances: n tells one of a kind from another.
func (t Trace) Part(kind string, n uint64) trace.SpanContext {
	h := sha256.New()
	h.Write(t.id[:])
	h.Write([]byte(kind))
	writeUint(h, n)
	var id trace.SpanID
	copy(id[:], h.Sum(nil))
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: t.id, SpanID: id, TraceFlags: trace.FlagsSampled, Remote: true})
}

type idsKey struct{}

// WithIDs has the next span that is begun with the result get the ids of sc,
// where the tracer provider makes its ids by [IDs]. No other context may be made
// of the result.
func WithIDs(ctx context.Context, sc trace.SpanContext) context.Context {
	return context.WithValue(ctx, idsKey{}, sc)
}

// IDs makes the ids of spans: those that [WithIDs] asks for, or random ones. It is
// an IDGenerator of OpenTelemetry's SDK.
type IDs struct{}

// NewIDs gives the ids of a span without a parent.
func (IDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if sc, ok := ctx.Value(idsKey{}).(trace.SpanContext); ok {
		return sc.TraceID(), sc.SpanID()
	}
	var id trace.TraceID
	_, _ = rand.Read(id[:]) // never fails (crypto/rand)
	return id, newSpanID()
}

// NewSpanID gives the id of a span with a parent.
func (IDs) NewSpanID(ctx context.Context, of trace.TraceID) trace.SpanID {
	if sc, ok := ctx.Value(idsKey{}).(trace.SpanContext); ok && sc.TraceID() == of {
		return sc.SpanID()
	}
	return newSpanID()
}

func newSpanID() (id trace.SpanID) {
	_, _ = rand.Read(id[:])
	return id
}
