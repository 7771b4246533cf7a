package otlptest

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// T is what a [Collector] needs of a test.
type T interface {
	Helper()
	Fatal(args ...any)
	Cleanup(f func())
}

// Collector takes traces. Its exported fields are set before [Collector.Start].
type Collector struct {
	coltracepb.UnimplementedTraceServiceServer

	// Refuse, if set, is said instead of taking anything.
	Refuse string
	// Hang, if set, has it say nothing until it is closed.
	Hang chan struct{}
	// Pair is its certificate; nil: it speaks without TLS.
	Pair *tls.Certificate

	url string

	mu       sync.Mutex
	taken    []*tracepb.ResourceSpans
	headers  []http.Header
	paths    []string
	received []byte
}

// Start has it listen on loopback, by "http" or "grpc", until the test ends.
func (c *Collector) Start(t T, protocol string) *Collector {
	t.Helper()
	if protocol == "http" {
		c.serveHTTP(t)
		return c
	}
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.url = "http://" + l.Addr().String()
	var opts []grpc.ServerOption
	if c.Pair != nil {
		c.url = "https://" + l.Addr().String()
		opts = append(opts, grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{*c.Pair}, MinVersion: tls.VersionTLS12})))
	}
	srv := grpc.NewServer(opts...)
	coltracepb.RegisterTraceServiceServer(srv, c)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(l) // ends when it is stopped
	}()
	t.Cleanup(func() { srv.Stop(); <-served })
	return c
}

func (c *Collector) serveHTTP(t T) {
	srv := httptest.NewUnstartedServer(c)
	if c.Pair != nil {
		srv.TLS = &tls.Config{Certificates: []tls.Certificate{*c.Pair}, MinVersion: tls.VersionTLS12}
		srv.StartTLS()
	} else {
		srv.Start()
	}
	t.Cleanup(srv.Close)
	c.url = srv.URL
}

// URL gives where it listens.
func (c *Collector) URL() string { return c.url }

func (c *Collector) take(r *coltracepb.ExportTraceServiceRequest, h http.Header, path string) {
	body, _ := proto.Marshal(r) // it was unmarshalled just now
	c.mu.Lock()
	defer c.mu.Unlock()
	c.headers, c.paths = append(c.headers, h), append(c.paths, path)
	if c.Refuse == "" && c.Hang == nil {
		c.taken = append(c.taken, r.ResourceSpans...)
		c.received = append(c.received, body...)
	}
}

// ServeHTTP implements http.Handler.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var request coltracepb.ExportTraceServiceRequest
	if err != nil || proto.Unmarshal(body, &request) != nil || r.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, "malformed", http.StatusBadRequest)
		return
	}
	c.take(&request, r.Header, r.URL.Path)
	if c.Hang != nil {
		<-c.Hang
	}
	if c.Refuse != "" {
		http.Error(w, c.Refuse, http.StatusUnauthorized)
	}
}

// Export implements the gRPC service.
func (c *Collector) Export(ctx context.Context, r *coltracepb.ExportTraceServiceRequest) (*coltracepb.ExportTraceServiceResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	h := http.Header{}
	for k, v := range md {
		h[http.CanonicalHeaderKey(k)] = v
	}
	c.take(r, h, "")
	if c.Hang != nil {
		<-c.Hang
	}
	if c.Refuse != "" {
		return nil, status.Error(codes.Unauthenticated, c.Refuse)
	}
	return &coltracepb.ExportTraceServiceResponse{}, nil
}

// Span is one that was taken.
type Span struct {
	// Service is the resource's service.name.
	Service string
	*tracepb.Span
}

// Attribute gives an attribute as text; empty: it has none of the name.
func (s Span) Attribute(key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			if n, ok := a.Value.Value.(interface{ GetIntValue() int64 }); ok {
				return fmt.Sprint(n.GetIntValue())
			}
			return a.Value.GetStringValue()
		}
	}
	return ""
}

// Spans gives those that were taken.
func (c *Collector) Spans() (out []Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.taken {
		for _, s := range r.ScopeSpans {
			for _, span := range s.Spans {
				out = append(out, Span{about(r, "service.name"), span})
			}
		}
	}
	return out
}

// About gives an attribute of who sent the first spans.
func (c *Collector) About(key string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.taken) == 0 {
		return ""
	}
	return about(c.taken[0], key)
}

func about(r *tracepb.ResourceSpans, key string) string {
	for _, a := range r.Resource.Attributes {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

// Received gives all bytes of the spans that were taken, to look for texts in.
func (c *Collector) Received() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.received)
}

// Asked tells how often something was sent, taken or not.
func (c *Collector) Asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.paths)
}

// Header and Path are of the first request.
func (c *Collector) Header(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.headers) == 0 {
		return ""
	}
	return c.headers[0].Get(name)
}

// Path is that of HTTP.
func (c *Collector) Path() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.paths) == 0 {
		return ""
	}
	return c.paths[0]
}
