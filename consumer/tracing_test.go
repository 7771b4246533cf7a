package consumer_test

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

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/handover/wire"
	"github.com/leasesvc/leasesvc/tracing"
)

// traced has a client trace into memory.
func traced() (*tracetest.InMemoryExporter, func(*consumer.Options)) {
	mem := tracetest.NewInMemoryExporter()
	p := sdktrace.NewTracerProvider(sdktrace.WithSyncer(mem))
	return mem, func(o *consumer.Options) { o.TracerProvider = p }
}

// The header names the span above ours, the answer's ours, and whatever a header
// says, the answer is the same.
func TestTracing_TheHeaderDecidesNothing(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for header, below := range map[string]string{
		good: "b7ad6b7169203331",
		"":   "", "x": "", "00-zz": "", strings.Repeat("a", 9000): "", "00-00000000000000000000000000000000-b7ad6b7169203331-01": "",
	} {
		s := newStage(t)
		s.holder.Install("db", s.candidate(1))
		mem, on := traced()
		a := newActor(t)
		seen := make(chan trace.SpanContext, 8)
		s.serve(s.client(on), a)
		a.await("commit 1")
		awaitSpans(t, mem, 1) // of the first commit
		a.does(func(ctx context.Context, _ string) error {
			seen <- trace.SpanContextFromContext(ctx)
			return nil
		})
		mem.Reset()
		to := s.holder.AwaitRegistered("db", 1)[0].To()
		c := s.candidate(2)
		got, err := s.holder.Courier().Prepare(within(30*time.Second), to, handover.Prepare{
			Epoch: s.holder.Epoch(), N: s.holder.Next(), Lease: c.Lease, TimeLeft: 10 * time.Second, Public: c.Public, Values: c.Values, Traceparent: header,
		})
		if err != nil || !got.Yes() {
			t.Fatalf("%.20q: %+v, %v", header, got, err)
		}
		spans := awaitSpans(t, mem, 1)
		if len(spans) != 1 || spans[0].Name != "prepare" || spans[0].SpanKind != trace.SpanKindServer {
			t.Fatalf("%.20q: %+v", header, spans)
		}
		is := spans[0]
		if inside := <-seen; inside.SpanID() != is.SpanContext.SpanID() {
			t.Error("the handler's context does not carry the span")
		}
		if answer := tracing.SpanContext(got.Traceparent); answer.SpanID() != is.SpanContext.SpanID() {
			t.Errorf("the answer's header is %q", got.Traceparent)
		}
		switch {
		case below == "" && is.Parent.IsValid():
			t.Errorf("%.20q makes %+v the span above", header, is.Parent)
		case below != "" && (is.Parent.SpanID().String() != below || !is.Parent.IsRemote()):
			t.Errorf("the span above is %+v", is.Parent)
		}
		if n := len(is.Attributes); n < 8 {
			t.Errorf("%d attributes", n)
		}
	}
}

func awaitSpans(t *testing.T, mem *tracetest.InMemoryExporter, count int) tracetest.SpanStubs {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; <-time.After(time.Millisecond) {
		if got := mem.GetSpans(); len(got) >= count || time.Now().After(deadline) {
			return got
		}
	}
}

// What is overtaken, refused, and what a handler's error says.
func TestTracing_Outcomes(t *testing.T) {
	s := newStage(t)
	s.holder.Install("db", s.candidate(1))
	mem, on := traced()
	a := newActor(t)
	s.serve(s.client(on), a)
	a.await("commit 1")
	awaitSpans(t, mem, 1) // confirmed, before the next thing overtakes it
	a.does(func(_ context.Context, call string) error {
		if strings.HasPrefix(call, "prepare") {
			return errors.New("no room for pw-2 on disk-of-secrets")
		}
		return nil
	})
	_, _ = s.holder.Rotate(within(30*time.Second), "db", s.candidate(2), 10*time.Second)
	a.await("commit 1, prepare 2, revert 1")
	a.does(func(ctx context.Context, call string) error {
		if strings.HasPrefix(call, "prepare") {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	})
	to := s.holder.AwaitRegistered("db", 1)[0].To()
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		_, _ = s.holder.Prepare(within(30*time.Second), to, s.candidate(3), 30*time.Second)
	}()
	a.await("commit 1, prepare 2, revert 1, prepare 3")
	if got, err := s.holder.Follow(within(30*time.Second), to, s.holder.RollBack("db"), true); err != nil || !got.Confirmed() {
		t.Fatalf("%+v, %v", got, err)
	}
	<-asked
	var outcomes []string
	for _, span := range awaitSpans(t, mem, 5) {
		for _, at := range span.Attributes {
			if at.Key == tracing.OutcomeKey {
				outcomes = append(outcomes, span.Name+" "+at.Value.AsString())
			}
			if strings.Contains(at.Value.String(), "secret") || strings.Contains(at.Value.String(), "pw-") || strings.Contains(at.Value.String(), "v-2") {
				t.Errorf("%s has %s", span.Name, at.Value.String())
			}
		}
		if span.Status.Description != "" || len(span.Events) > 0 || (span.Status.Code == codes.Error) != (outcomes[len(outcomes)-1] == "prepare no") {
			t.Errorf("%s: %+v, %+v", span.Name, span.Status, span.Events)
		}
	}
	if got := strings.Join(outcomes, ", "); got != "follow confirmed, prepare no, revert confirmed, prepare superseded, revert confirmed" {
		t.Errorf("the outcomes are %s", got)
	}
}

// Who does not trace says nothing of traces, whatever comes in.
func TestTracing_OffSaysNothing(t *testing.T) {
	s := newStage(t)
	s.holder.Install("db", s.candidate(1))
	a := newActor(t)
	s.serve(s.client(), a)
	a.await("commit 1")
	to := s.holder.AwaitRegistered("db", 1)[0].To()
	a.does(func(ctx context.Context, _ string) error {
		if trace.SpanContextFromContext(ctx).IsValid() {
			t.Error("there is a span")
		}
		return nil
	})
	c := s.candidate(2)
	got, err := s.holder.Courier().Prepare(within(30*time.Second), to, handover.Prepare{
		Epoch: s.holder.Epoch(), N: s.holder.Next(), Lease: c.Lease, TimeLeft: 10 * time.Second, Values: c.Values,
		Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	})
	if err != nil || got.Verdict != wire.Yes || got.Traceparent != "" {
		t.Errorf("%+v, %v", got, err)
	}
}
