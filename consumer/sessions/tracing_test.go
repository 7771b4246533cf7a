package sessions_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/consumer/consumertest"
	"github.com/leasesvc/leasesvc/tracing"
)

// A set's steps are below the consumer's spans: what proves, what switches, what
// drains.
func TestTracing_StepsOfASet(t *testing.T) {
	mem := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(mem))
	s := newStage(t, func(o *consumer.Options) { o.TracerProvider = provider })
	s.holder.AwaitRegistered("db", 1)
	for deadline := time.Now().Add(30 * time.Second); len(mem.GetSpans()) < 4; <-time.After(time.Millisecond) { // of the first commit
		if time.Now().After(deadline) {
			t.Fatalf("%+v", mem.GetSpans())
		}
	}
	mem.Reset()
	if _, err := s.holder.Rotate(s.within(30*time.Second), "db", s.candidate("b"), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	s.memory.refuse("c", true)
	_, err := s.holder.Rotate(s.within(30*time.Second), "db", s.candidate("c"), 10*time.Second)
	if !errors.Is(err, consumertest.ErrRolledBack) {
		t.Fatalf("%v", err)
	}
	want := []string{
		"follow/drain ok", "prepare/prove failed", "prepare/prove ok", "prepare/switch ok", "revert/drain ok",
	}
	if got := steps(mem.GetSpans()); !slices.Equal(got, want) {
		t.Errorf("the steps are %q, not %q", got, want)
	}
}

// steps gives each span below another as above/name outcome, sorted.
func steps(all tracetest.SpanStubs) (out []string) {
	for _, s := range all {
		for _, above := range all {
			if s.Parent.SpanID() != above.SpanContext.SpanID() {
				continue
			}
			for _, a := range s.Attributes {
				if a.Key == tracing.OutcomeKey {
					out = append(out, fmt.Sprintf("%s/%s %s", above.Name, s.Name, a.Value.AsString()))
				}
			}
		}
	}
	slices.Sort(out)
	return out
}
