package agent_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/leasesvc/leasesvc/tracing"
)

// The agent's steps are below the consumer's spans: rendering, writing, the hook;
// a hook that fails shows, and nothing that it printed.
func TestTracing_StepsOfTheAgent(t *testing.T) {
	t.Parallel()
	r := newRig(t, lease("db"))
	mem := tracetest.NewInMemoryExporter()
	r.spans = sdktrace.NewTracerProvider(sdktrace.WithSyncer(mem))
	reload := r.write("reload", "#!/bin/sh\nif test -e "+r.path("broken")+"; then cat \"$LEASESVC_FILE\"; echo broken-by-test; exit 1; fi\n")
	r.run("  app: {lease: db, file: out.json, hook: {command: [" + reload + "]}}\n")
	r.await("the file", func() bool { return r.seen("out.json") != "" && r.seen("out.json") == r.committed("db", "password") })
	first := r.seen("out.json")
	mem.Reset()
	r.rotate("db")
	r.await("the successor", func() bool { return r.seen("out.json") != first && r.seen("out.json") == r.committed("db", "password") })
	r.await("the steps of a yes", func() bool {
		got := steps(mem.GetSpans())
		return slices.Contains(got, "prepare/render app ok") && slices.Contains(got, "prepare/write app ok") && slices.Contains(got, "prepare/hook app ok")
	})
	r.write("broken", "")
	r.rotate("db")
	r.await("a hook that fails", func() bool { return slices.Contains(steps(mem.GetSpans()), "prepare/hook app failed") })
	text := fmt.Sprintf("%+v", mem.GetSpans())
	for _, secret := range []string{first, r.seen("out.json"), "broken-by-test", r.dir} {
		if secret == "" || strings.Contains(text, secret) {
			t.Errorf("a span has %q in it", secret)
		}
	}
}

// steps gives each span below another as above/name target outcome.
func steps(all tracetest.SpanStubs) (out []string) {
	for _, s := range all {
		for _, above := range all {
			if s.Parent.SpanID() != above.SpanContext.SpanID() {
				continue
			}
			var target, outcome string
			for _, a := range s.Attributes {
				switch a.Key {
				case tracing.TargetKey:
					target = a.Value.AsString()
				case tracing.OutcomeKey:
					outcome = a.Value.AsString()
				}
			}
			out = append(out, fmt.Sprintf("%s/%s %s %s", above.Name, s.Name, target, outcome))
		}
	}
	return out
}
