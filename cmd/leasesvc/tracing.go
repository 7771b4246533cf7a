package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"

	"github.com/leasesvc/leasesvc/service/config"
	"github.com/leasesvc/leasesvc/tracing/otlp"
)

// traced is what a command that can trace says of itself.
type traced struct {
	// called is the name that spans are shown under, where nobody says another.
	called string
	// follows: its traces come from the service.
	follows bool
	log     *slog.Logger
	// refuse makes an error at a key of the command's file.
	refuse func(key, format string, args ...any) error
}

// start begins to send spans where the file or the environment asks for it; a nil
// exporter has none. stop sends what is left within a time.
func (t traced) start(ctx context.Context, file *config.Tracing) (*otlp.Exporter, error) {
	if otlp.Disabled(os.Getenv) {
		if file != nil {
			t.log.Info("traces are turned off by the environment (OTEL_SDK_DISABLED or OTEL_TRACES_EXPORTER)")
		}
		return nil, nil
	}
	if file == nil && !otlp.Configured(os.Getenv) {
		return nil, nil
	}
	settings := otlp.Settings{Protocol: otlp.HTTP, Sample: 1, Service: t.called}
	if file != nil {
		settings = otlp.Settings{
			Endpoint: file.Endpoint, Protocol: file.Protocol, HeadersFile: file.HeadersFile, Insecure: file.Insecure,
			CA: file.TLS.CA, Cert: file.TLS.Cert, Key: file.TLS.Key, ServerName: file.TLS.ServerName,
			Sample: file.Sample, Service: file.ServiceName,
		}
	}
	settings, err := settings.Over(os.Getenv)
	if err != nil {
		return nil, t.wrong(file, err)
	}
	// OpenTelemetry's exporters read the environment themselves and log what they
	// can't read, values and all.
	otel.SetLogger(logr.Discard())
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {
		t.log.Warn("OpenTelemetry met an error of its own; spans may be missing")
	}))
	exporter, err := otlp.Start(ctx, settings, otlp.Options{
		Version: programVersion(), Instance: instanceName(), Follows: t.follows, Logger: t.log,
	})
	if err != nil {
		return nil, t.wrong(file, err)
	}
	t.log.Info("traces are sent", "endpoint", exporter.Endpoint(), "protocol", settings.Protocol, "sample", settings.Sample, "from_environment", settings.From)
	return exporter, nil
}

// wrong puts an error where its setting stands.
func (t traced) wrong(file *config.Tracing, err error) error {
	var setting *otlp.SettingError
	switch {
	case !errors.As(err, &setting):
		return err
	case setting.Variable:
		return usageError{fmt.Errorf("the environment's %s: %s", setting.Key, setting.Why)}
	case file == nil:
		return usageError{fmt.Errorf("traces, as the environment asks for them: %w", err)}
	default:
		return t.refuse("tracing."+setting.Key, "%s", setting.Why)
	}
}

// The least and the most that sending the last spans may take at the end.
const (
	leastFlush = time.Second
	mostFlush  = 5 * time.Second
)

// flush sends what is left and ends the exporter: within what is left of the time
// that a stop may take since ctx ended.
func flush(ctx context.Context, budget time.Duration, exporter *otlp.Exporter) (stop func()) {
	if exporter == nil {
		return func() {}
	}
	began := make(chan time.Time, 1)
	unwatch := context.AfterFunc(ctx, func() { began <- time.Now() })
	return func() {
		left := budget
		if !unwatch() { // ctx has ended
			left -= time.Since(<-began)
		}
		exporter.Stop(min(max(left, leastFlush), mostFlush))
	}
}
