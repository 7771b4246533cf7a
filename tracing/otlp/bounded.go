package otlp

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// bounded is a batch processor whose queue is never full: what would find no room
// in it is dropped before, and counted.
type bounded struct {
	sdktrace.SpanProcessor
	client *client
	log    *slog.Logger

	waiting                  atomic.Int64 // spans that ended and were not sent yet
	delivered, dropped, lost atomic.Uint64

	// life ends what is being sent when the time to stop is up.
	life   context.Context
	cancel context.CancelFunc
	down   chan struct{} // closed when the exporter was shut down

	mu     sync.Mutex
	told   time.Time // when something was last logged
	untold uint64    // spans dropped or lost of which nothing was said yet
	why    string
}

// tellEvery is the pace of what is logged.
const tellEvery = time.Minute

func newBounded(c *client, log *slog.Logger) *bounded {
	b := &bounded{client: c, log: log, down: make(chan struct{})}
	b.life, b.cancel = context.WithCancel(context.Background())
	b.SpanProcessor = sdktrace.NewBatchSpanProcessor((*sender)(b),
		sdktrace.WithMaxQueueSize(queueLength), sdktrace.WithMaxExportBatchSize(batchLength),
		sdktrace.WithBatchTimeout(batchDelay), sdktrace.WithExportTimeout(keepTrying+requestTimeout))
	return b
}

// OnEnd implements sdktrace.SpanProcessor. It never waits.
func (b *bounded) OnEnd(s sdktrace.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	if b.waiting.Add(1) > queueLength {
		b.waiting.Add(-1)
		b.dropped.Add(1)
		b.tell(1, "")
		return
	}
	b.SpanProcessor.OnEnd(s)
}

func (b *bounded) stats() Stats {
	return Stats{Delivered: b.delivered.Load(), Dropped: b.dropped.Load(), Lost: b.lost.Load()}
}

// end ends what is still being sent, and waits for it.
func (b *bounded) end() {
	b.cancel()
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-b.down:
	case <-timer.C:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flush()
}

// tell says, at its pace, that spans were not delivered.
func (b *bounded) tell(spans uint64, why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.untold += spans
	if why != "" {
		b.why = why
	}
	if time.Since(b.told) >= tellEvery {
		b.flush()
	}
}

// flush says what was not said yet. b.mu is held.
func (b *bounded) flush() {
	if b.untold == 0 {
		return
	}
	why := b.why
	if why == "" {
		why = "more than the queue holds"
	}
	s := b.stats()
	b.log.Warn("spans were not delivered to the collector; nothing else waits for it", "spans", b.untold, "endpoint", b.client.endpoint,
		"why", why, "delivered", s.Delivered, "dropped", s.Dropped, "lost", s.Lost)
	b.untold, b.told = 0, time.Now()
}

// works notes that the collector took something.
func (b *bounded) works() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.why == "" {
		return
	}
	b.flush()
	b.why = ""
	b.log.Info("spans are delivered to the collector again", "endpoint", b.client.endpoint)
}

// sender is what the batch processor sends by.
type sender bounded

// ExportSpans implements sdktrace.SpanExporter. What goes wrong is told here, so
// there is never an error.
func (s *sender) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	b := (*bounded)(s)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.life, cancel)()
	n := uint64(len(spans))
	err := b.client.ExportSpans(ctx, spans)
	b.waiting.Add(-int64(len(spans)))
	if err != nil {
		b.lost.Add(n)
		b.tell(n, b.client.said(err))
		return nil
	}
	b.delivered.Add(n)
	b.works()
	return nil
}

// Shutdown implements sdktrace.SpanExporter.
func (s *sender) Shutdown(ctx context.Context) error {
	defer close(s.down)
	return s.client.Shutdown(ctx)
}

// maxSaid bounds what is repeated of an error, in which a collector's own words
// may be.
const maxSaid = 300

// said gives what can be told of an error: no header, on one line, not long.
func (c *client) said(err error) string {
	text := err.Error()
	for _, h := range c.hidden {
		text = strings.ReplaceAll(text, h, "[redacted]")
		if _, token, ok := strings.Cut(h, " "); ok && len(token) >= 4 { // without its scheme
			text = strings.ReplaceAll(text, token, "[redacted]")
		}
	}
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxSaid {
		text = strings.ToValidUTF8(text[:maxSaid], "") + "..."
	}
	return text
}
