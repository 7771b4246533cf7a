package tracing_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/leasesvc/leasesvc/tracing"
)

var created = time.Date(2026, 11, 30, 9, 0, 0, 123, time.UTC)

// The ids are the same in every instance and in every release, since two of them
// may make one trace.
func TestIDsFollowFromTheLog(t *testing.T) {
	of := tracing.Of(created, "prod", "orders-db", 12, 7)
	if got := of.ID().String(); got != wantID {
		t.Errorf("the trace's id is %s, not %s", got, wantID)
	}
	if got := of.Root().SpanID().String(); got != wantRoot {
		t.Errorf("the root's id is %s, not %s", got, wantRoot)
	}
	if of.Part("rollback", 3).Equal(of.Part("rollback", 4)) || of.Part("rollback", 0).Equal(of.Root()) || of.Root().TraceID() != of.ID() {
		t.Error("parts of a trace are not told from each other")
	}
	local := tracing.Of(created.In(time.FixedZone("x", 3600)), "prod", "orders-db", 12, 7)
	if local != of {
		t.Error("the zone of a time makes another trace")
	}
	seen := map[tracing.Trace]bool{of: true}
	for _, other := range []tracing.Trace{
		tracing.Of(created.Add(1), "prod", "orders-db", 12, 7), tracing.Of(created, "pro", "dorders-db", 12, 7), tracing.Of(created, "prod", "orders", 12, 7),
		tracing.Of(created, "prod", "orders-db", 13, 7), tracing.Of(created, "prod", "orders-db", 12, 8), tracing.Of(created, "prod", "orders-db", 7, 12),
	} {
		if seen[other] {
			t.Error("two hand-overs have one trace")
		}
		seen[other] = true
	}
}

const (
	wantID   = "3444e0ce2574a23a023410f70a2d3597"
	wantRoot = "ca80c64bb0c8a6b0"
)

func TestIDsAreGivenOrRandom(t *testing.T) {
	mem := tracetest.NewInMemoryExporter()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSyncer(mem), sdktrace.WithIDGenerator(tracing.IDs{})).Tracer("t")
	of := tracing.Of(created, "prod", "orders-db", 12, 7)
	_, root := tracer.Start(tracing.WithIDs(context.Background(), of.Root()), "handover")
	root.End()
	below := trace.ContextWithRemoteSpanContext(context.Background(), of.Root())
	_, part := tracer.Start(tracing.WithIDs(below, of.Part("rollback", 9)), "rollback")
	part.End()
	_, child := tracer.Start(below, "acquire")
	child.End()
	_, other := tracer.Start(context.Background(), "other")
	other.End()
	got := mem.GetSpans()
	if sc := got[0].SpanContext; sc.TraceID() != of.ID() || sc.SpanID() != of.Root().SpanID() || got[0].Parent.IsValid() {
		t.Errorf("root: %+v", sc)
	}
	if sc := got[1].SpanContext; sc.SpanID() != of.Part("rollback", 9).SpanID() || got[1].Parent.SpanID() != of.Root().SpanID() {
		t.Errorf("part: %+v", sc)
	}
	if sc := got[2].SpanContext; sc.TraceID() != of.ID() || got[2].Parent.SpanID() != of.Root().SpanID() || sc.SpanID() == of.Root().SpanID() {
		t.Errorf("child: %+v", sc)
	}
	if sc := got[3].SpanContext; sc.TraceID() == of.ID() || !sc.IsValid() {
		t.Errorf("other: %+v", sc)
	}
}

// What comes from outside is one header, and one that is malformed is none.
func TestHeader(t *testing.T) {
	sc := tracing.Of(created, "prod", "orders-db", 12, 7).Root()
	text := tracing.Traceparent(trace.ContextWithSpanContext(context.Background(), sc))
	if text != "00-"+sc.TraceID().String()+"-"+sc.SpanID().String()+"-01" {
		t.Fatalf("the header is %q", text)
	}
	if got := tracing.SpanContext(text); got.TraceID() != sc.TraceID() || got.SpanID() != sc.SpanID() || !got.IsSampled() || !got.IsRemote() {
		t.Errorf("read back: %+v", got)
	}
	id, span := sc.TraceID().String(), sc.SpanID().String()
	for _, bad := range []string{
		"", "x", "00", "00---", text[:54], text + "x", "ff-" + id + "-" + span + "-01", "00-" + strings.Repeat("0", 32) + "-" + span + "-01",
		"00-" + id + "-" + strings.Repeat("0", 16) + "-01", "00-" + strings.ToUpper(id) + "-" + span + "-01", "00-" + id + "-" + span + "-zz",
		strings.Repeat("0", 1<<20), text + "\r\nX: y", "00-" + id + "-" + span, "01-" + id + "-" + span + "-01" + strings.Repeat("-a", 200), "00-\x00-\xff-01",
	} {
		ctx := context.Background()
		if got := tracing.Remote(ctx, bad); trace.SpanContextFromContext(got).IsValid() {
			t.Errorf("%.60q is taken for %+v", bad, trace.SpanContextFromContext(got))
		}
	}
}

func FuzzHeader(f *testing.F) {
	f.Add("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		sc := tracing.SpanContext(text)
		if sc.IsValid() && (len(text) < 55 || sc.TraceState().Len() != 0) {
			t.Errorf("%q is taken for %+v", text, sc)
		}
	})
}

func TestAStepSaysNothingOfAnError(t *testing.T) {
	mem := tracetest.NewInMemoryExporter()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSyncer(mem)).Tracer("t")
	ctx, span := tracer.Start(context.Background(), "prepare")
	_, step := tracing.Start(ctx, "t", "prove", tracing.NameKey.String("orders-db"))
	step.End(errors.New("password hunter2 is refused"))
	_, step = tracing.Start(ctx, "t", "switch")
	step.End(nil)
	tracing.End(span, tracing.No, tracing.Failure("password hunter2 is refused"))
	got := mem.GetSpans()
	if len(got) != 3 || got[0].Status.Code != codes.Error || got[0].Status.Description != "" || len(got[0].Events) != 0 || got[1].Status.Code == codes.Error {
		t.Fatalf("%+v", got)
	}
	for _, a := range got[2].Attributes {
		if a.Key == tracing.FailureKey && a.Value.AsString() != "other" {
			t.Errorf("a failure of no kind of ours is %s", a.Value.AsString())
		}
	}
}

// Off costs nothing: no allocation where no span is recorded.
func TestOffCostsNothing(t *testing.T) {
	ctx := context.Background()
	if n := testing.AllocsPerRun(1000, func() {
		_ = tracing.Traceparent(ctx)
		_ = tracing.Remote(ctx, "")
		_, step := tracing.Start(ctx, "t", "prove")
		step.End(nil)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
