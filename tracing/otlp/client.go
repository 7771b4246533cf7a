package otlp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"google.golang.org/grpc/credentials"
)

const (
	// requestTimeout bounds one attempt to deliver a batch; a batch that can be
	// tried again is, up to keepTrying.
	requestTimeout = 10 * time.Second
	firstRetry     = 500 * time.Millisecond
	lastRetry      = 10 * time.Second
	keepTrying     = 30 * time.Second
)

// client is what sends, and what is to be hidden of what goes wrong with it.
type client struct {
	*otlptrace.Exporter
	endpoint string
	hidden   []string
	idle     func() // closes connections that are not used
}

// newClient makes what sends. It reaches out to nobody.
func newClient(ctx context.Context, s Settings) (*client, error) {
	u, err := s.endpoint()
	if err != nil {
		return nil, err
	}
	headers, err := s.headers()
	if err != nil {
		return nil, err
	}
	secure := u.Scheme == "https"
	if len(headers) > 0 && !secure && !s.Insecure && !local(u.Hostname()) {
		return nil, wrong("endpoint", "the headers would be sent to another machine without TLS; use https, or set insecure: true where nobody listens in between")
	}
	if !secure && (s.CA != "" || s.Cert != "" || s.ServerName != "") {
		return nil, wrong("tls", "means something with an https endpoint only")
	}
	conf, err := s.tls()
	if err != nil {
		return nil, err
	}
	c := &client{endpoint: u.Scheme + "://" + u.Host, idle: func() {}}
	for _, v := range headers {
		c.hidden = append(c.hidden, v)
	}
	if s.Protocol == GRPC {
		opts := []otlptracegrpc.Option{
			otlptracegrpc.WithEndpointURL(u.String()), otlptracegrpc.WithHeaders(headers), otlptracegrpc.WithTimeout(requestTimeout),
			otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{Enabled: true, InitialInterval: firstRetry, MaxInterval: lastRetry, MaxElapsedTime: keepTrying}),
		}
		if secure {
			opts = append(opts, otlptracegrpc.WithTLSCredentials(credentials.NewTLS(conf)))
		} else {
			opts = append(opts, otlptracegrpc.WithInsecure())
		}
		c.Exporter, err = otlptracegrpc.New(ctx, opts...)
	} else {
		transport := &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: conf, ForceAttemptHTTP2: true, TLSHandshakeTimeout: requestTimeout,
			MaxIdleConns: 2, IdleConnTimeout: time.Minute,
		}
		c.idle = transport.CloseIdleConnections
		c.Exporter, err = otlptracehttp.New(ctx,
			otlptracehttp.WithEndpointURL(u.String()), otlptracehttp.WithHeaders(headers), otlptracehttp.WithTimeout(requestTimeout),
			otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: firstRetry, MaxInterval: lastRetry, MaxElapsedTime: keepTrying}),
			otlptracehttp.WithHTTPClient(&http.Client{
				Transport: transport, Timeout: requestTimeout,
				// Headers are for the collector, not for whom it names.
				CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			}))
	}
	if err != nil {
		return nil, fmt.Errorf("making the exporter of traces: %w", err)
	}
	return c, nil
}

// tls gives what https is done with.
func (s *Settings) tls() (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.ServerName}
	if s.CA != "" {
		pem, err := os.ReadFile(s.CA)
		if err != nil {
			return nil, wrong("tls.ca", "it can't be read: %v", pathless(err))
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, wrong("tls.ca", "there is no certificate in it")
		}
	}
	if s.Cert != "" {
		pair, err := tls.LoadX509KeyPair(s.Cert, s.Key)
		if err != nil {
			return nil, wrong("tls.cert", "certificate and key can't be used: %v", pathless(err))
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return conf, nil
}
