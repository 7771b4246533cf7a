package metrics

import (
	"log/slog"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/leasesvc/leasesvc/events"
)

// DefaultPerLease is how many names of a scope have series of their own unless
// told otherwise.
const DefaultPerLease = 10_000

const (
	// scrapesAtOnce and scrapeWithin bound the scrapes that are answered.
	scrapesAtOnce = 4
	scrapeWithin  = 30 * time.Second
)

// Options say what is exposed.
type Options struct {
	// Version is the program's.
	Version string
	// PerLease is how many names a scope may have and still get series of each;
	// 0: none ever does.
	PerLease int
	// Logger gets what goes wrong in a scrape; nil: nothing.
	Logger *slog.Logger
}

// Metrics are an instance's.
type Metrics struct {
	opts     Options
	source   Source
	registry *prometheus.Registry

	applied, takeovers, refusals, ended, failures, snapshots *prometheus.CounterVec
	handovers, gap                                           *prometheus.HistogramVec

	// byName counts failures by scope, name and [failure]. A scope's are forgotten
	// when it is not led any more, a name's when it is removed. A scrape walks it
	// without a lock.
	byName sync.Map
}

type failure struct{ action, kind string }

// New makes the metrics of an instance on a registry of their own.
func New(source Source, opts Options) *Metrics {
	m := &Metrics{
		opts: opts, registry: prometheus.NewRegistry(), source: source,
		applied: counters(applied), takeovers: counters(takeovers), refusals: counters(refusals), ended: counters(ended),
		failures: counters(failures), snapshots: counters(snapshots),
		handovers: histograms(handovers, []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900}),
		gap:       histograms(gap, []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 300}),
	}
	m.registry.MustRegister(m.collectors()...)
	return m
}

// collectors are all that is registered.
func (m *Metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		m.applied, m.takeovers, m.refusals, m.ended, m.failures, m.snapshots, m.handovers, m.gap,
		&collector{source: m.source, metrics: m},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	}
}

func counters(m *Metric) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.Name, Help: m.Help}, m.Labels)
}

func histograms(m *Metric, buckets []float64) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: m.Name, Help: m.Help, Buckets: buckets}, m.Labels)
}

// Gatherer gives the registry, to read from.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// Handler serves the metrics in Prometheus' text format, or in what else the
// scraper accepts.
func (m *Metrics) Handler() http.Handler {
	opts := promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: scrapesAtOnce, Timeout: scrapeWithin}
	if m.opts.Logger != nil {
		opts.ErrorLog = errorLog{m.opts.Logger}
	}
	return promhttp.HandlerFor(m.registry, opts)
}

// errorLog passes on what goes wrong in a scrape, which holds names of metrics
// and of labels alone.
type errorLog struct{ log *slog.Logger }

func (l errorLog) Println(v ...any) { l.log.Warn("a scrape was incomplete", "error", v) }

// Applied counts an event of a scope that this instance leads.
func (m *Metrics) Applied(e *events.Event) {
	m.applied.WithLabelValues(e.Scope, string(e.Type())).Inc()
	if e.Type() == events.TypeRemoved {
		within(&m.byName, e.Scope).Delete(e.Name)
		return
	}
	action, kind := failureOf(e)
	if action == "" {
		return
	}
	m.failures.WithLabelValues(e.Scope, action, kind).Inc()
	n, _ := within(within(&m.byName, e.Scope), e.Name).LoadOrStore(failure{action, kind}, new(atomic.Uint64))
	n.(*atomic.Uint64).Add(1)
}

// within gives the map under a key of another.
func within(m *sync.Map, key string) *sync.Map {
	in, ok := m.Load(key)
	if !ok {
		in, _ = m.LoadOrStore(key, new(sync.Map))
	}
	return in.(*sync.Map)
}

// The outcomes of a hand-over.
const (
	Committed  = "committed"
	RolledBack = "rolled-back"
	Kept       = "kept"
)

// Handover notes the end of a hand-over.
func (m *Metrics) Handover(scope, outcome string, took time.Duration) {
	m.handovers.WithLabelValues(scope, outcome).Observe(max(took, 0).Seconds())
}

// Opened notes that this instance opened an epoch, and for how long nobody led
// before; below 0: that is not known.
func (m *Metrics) Opened(scope, how string, without time.Duration) {
	m.takeovers.WithLabelValues(scope, how).Inc()
	if without >= 0 {
		m.gap.WithLabelValues(scope, how).Observe(without.Seconds())
	}
}

// Why a term ended.
const (
	EndFenced      = "fenced"
	EndDeposed     = "deposed"
	EndSteppedDown = "stepped-down"
	EndShutDown    = "shut-down"
	EndStopped     = "stopped"
	EndFailed      = "failed"
)

// Ended notes that this instance leads a scope no more.
func (m *Metrics) Ended(scope, why string) {
	m.ended.WithLabelValues(scope, why).Inc()
	switch why {
	case EndFenced:
		m.refusals.WithLabelValues(scope, "append").Inc()
	case EndDeposed:
		m.refusals.WithLabelValues(scope, "heartbeat").Inc()
	}
	m.byName.Delete(scope)
}

// Known begins the counters of a scope that alerts look at, so that the first
// count is seen as one.
func (m *Metrics) Known(scope string) {
	for _, by := range []string{"append", "heartbeat"} {
		m.refusals.WithLabelValues(scope, by)
	}
	for _, outcome := range []string{Committed, RolledBack, Kept} {
		m.handovers.WithLabelValues(scope, outcome)
	}
	for _, action := range []string{"acquire", "verify", "handover", "renew", "revoke", "document"} {
		m.failures.WithLabelValues(scope, action, other)
	}
	m.snapshots.WithLabelValues(scope, "stored")
	m.snapshots.WithLabelValues(scope, "failed")
}

// Snapshot notes how storing a snapshot ended.
func (m *Metrics) Snapshot(scope string, err error) {
	outcome := "stored"
	if err != nil {
		outcome = "failed"
	}
	m.snapshots.WithLabelValues(scope, outcome).Inc()
}

// goVersion is what the program was built with.
var goVersion = runtime.Version()
