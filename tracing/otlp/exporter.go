package otlp

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/leasesvc/leasesvc/tracing"
)

// Options are what [Start] needs beside the settings.
type Options struct {
	// Version and Instance are shown with every span.
	Version, Instance string
	// Follows has a trace that came from elsewhere recorded where its beginning
	// was, whatever Sample says of it: for consumers. The service decides by the
	// trace's id alone.
	Follows bool
	// Logger gets what went wrong, at most once a minute.
	Logger *slog.Logger
}

// Stats count what became of spans.
type Stats struct {
	// Delivered were taken by the collector, Dropped found no room in the queue,
	// Lost were not taken.
	Delivered, Dropped, Lost uint64
}

// Exporter sends the spans of its tracer provider to a collector. A nil one has
// no tracer provider.
type Exporter struct {
	provider *sdktrace.TracerProvider
	bounded  *bounded
	client   *client
}

// queueLength bounds the spans that wait to be sent, batchLength those that are sent
// at once, and batchDelay is how long one waits for others.
const (
	queueLength = 2048
	batchLength = 512
	batchDelay  = time.Second
)

// Start begins to export. It does not reach the collector: one that is not there
// is no error. A [*SettingError] says what is wrong with the settings.
func Start(ctx context.Context, s Settings, o Options) (*Exporter, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c, err := newClient(ctx, s)
	if err != nil {
		return nil, s.placed(err)
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", s.Service), attribute.String("service.version", o.Version), attribute.String("service.instance.id", o.Instance)))
	if err != nil {
		return nil, wrong("service_name", "can't be used")
	}
	more, err := resource.New(ctx, resource.WithFromEnv())
	if err != nil {
		return nil, &SettingError{Key: "OTEL_RESOURCE_ATTRIBUTES", Variable: true, Why: "it is not a list of attributes, as in name=value,other=value"}
	}
	if about, err = resource.Merge(about, more); err != nil {
		return nil, wrong("service_name", "can't be used")
	}
	b := newBounded(c, o.Logger)
	sampler := sdktrace.TraceIDRatioBased(s.Sample)
	if o.Follows {
		sampler = sdktrace.ParentBased(sampler)
	}
	return &Exporter{
		client: c, bounded: b,
		provider: sdktrace.NewTracerProvider(sdktrace.WithResource(about), sdktrace.WithSampler(sampler),
			sdktrace.WithIDGenerator(tracing.IDs{}), sdktrace.WithSpanProcessor(b)),
	}, nil
}

// Endpoint gives where spans go, without a path.
func (e *Exporter) Endpoint() string { return e.client.endpoint }

// TracerProvider makes the spans that are sent; nil of a nil Exporter.
func (e *Exporter) TracerProvider() trace.TracerProvider {
	if e == nil {
		return nil
	}
	return e.provider
}

// Stats gives the counts so far.
func (e *Exporter) Stats() Stats {
	if e == nil {
		return Stats{}
	}
	return e.bounded.stats()
}

// Stop sends what waits, for as long as within, and ends. Spans that end later
// are dropped.
func (e *Exporter) Stop(within time.Duration) {
	if e == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	_ = e.provider.Shutdown(ctx) // what was not sent is counted and told below
	e.bounded.end()
	e.client.idle()
}
