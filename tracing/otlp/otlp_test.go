package otlp_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leasesvc/leasesvc/secret"
	"github.com/leasesvc/leasesvc/tracing/otlp"
	"github.com/leasesvc/leasesvc/tracing/otlp/otlptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var protocols = []string{otlp.HTTP, otlp.GRPC}

// said collects what is logged.
type said struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func start(t *testing.T, s otlp.Settings) (*otlp.Exporter, *said) {
	t.Helper()
	log := &said{}
	e, err := otlp.Start(context.Background(), s, otlp.Options{Version: "1.2.3", Instance: "host-7", Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return e, log
}

// end ends some spans, and fails where that takes long.
func end(t *testing.T, e *otlp.Exporter, many int) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		tracer := e.TracerProvider().Tracer("t")
		for i := range many {
			_, span := tracer.Start(context.Background(), fmt.Sprintf("span-%d", i))
			span.End()
		}
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("who ends spans waits for the collector")
	}
}

func settings(c *otlptest.Collector, protocol string) otlp.Settings {
	return otlp.Settings{Endpoint: c.URL(), Protocol: protocol, Sample: 1, Service: "leasesvc"}
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSpansAreDelivered(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			c := (&otlptest.Collector{}).Start(t, protocol)
			s := settings(c, protocol)
			s.HeadersFile = write(t, "# who we are\n\nAuthorization: Bearer hunter2\nx-tenant: shop\n")
			e, log := start(t, s)
			end(t, e, 700)
			e.Stop(30 * time.Second)
			if got := len(c.Spans()); got != 700 || e.Stats() != (otlp.Stats{Delivered: 700}) {
				t.Errorf("%d spans arrived, %+v, %s", got, e.Stats(), log)
			}
			if c.Header("Authorization") != "Bearer hunter2" || c.Header("X-Tenant") != "shop" {
				t.Error("the headers are not sent")
			}
			if c.About("service.name") != "leasesvc" || c.About("service.version") != "1.2.3" || c.About("service.instance.id") != "host-7" {
				t.Errorf("they are shown under %q %q %q", c.About("service.name"), c.About("service.version"), c.About("service.instance.id"))
			}
			if protocol == otlp.HTTP && c.Path() != "/v1/traces" {
				t.Errorf("they went to %s", c.Path())
			}
			end(t, e, 3) // after the end
			if log.String() != "" {
				t.Errorf("logged: %s", log)
			}
		})
	}
}

func TestTLS(t *testing.T) {
	pair, ca := certificate(t)
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			c := (&otlptest.Collector{Pair: pair}).Start(t, protocol)
			s := settings(c, protocol)
			s.CA = ca
			e, log := start(t, s)
			end(t, e, 3)
			e.Stop(30 * time.Second)
			if e.Stats().Delivered != 3 {
				t.Errorf("%+v, %s", e.Stats(), log)
			}
			s.CA = "" // an authority that nobody knows
			e, log = start(t, s)
			end(t, e, 3)
			e.Stop(3 * time.Second)
			if e.Stats().Delivered != 0 || e.Stats().Lost != 3 || !strings.Contains(log.String(), "spans were not delivered") {
				t.Errorf("%+v, %s", e.Stats(), log)
			}
		})
	}
}

func certificate(t *testing.T) (pair *tls.Certificate, ca string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "collector"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, write(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
}

// A collector that refuses, and repeats our header and a page of its own.
func TestARefusalIsToldOnceWithoutSecrets(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			c := (&otlptest.Collector{Refuse: "who is Bearer hunter2-token, or just hunter2-token?\n" + strings.Repeat("<p>", 1000)}).Start(t, protocol)
			s := settings(c, protocol)
			s.Headers = map[string]secret.String{"authorization": secret.New("Bearer hunter2-token")}
			e, log := start(t, s)
			for range 3 {
				end(t, e, 600)
			}
			e.Stop(30 * time.Second)
			text := log.String()
			if e.Stats().Lost != 1800 || strings.Contains(text, "hunter2") || !strings.Contains(text, "[redacted]") || len(text) > 2000 {
				t.Errorf("%+v, %s", e.Stats(), text)
			}
			if n := strings.Count(text, "\n"); n == 0 || n > 2 { // the first, and what was left at the end
				t.Errorf("told %d times:\n%s", n, text)
			}
		})
	}
}

// A collector that hangs costs spans, which are counted, and nothing else.
func TestAHangingCollectorBlocksNobody(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			c := (&otlptest.Collector{Hang: make(chan struct{})}).Start(t, protocol)
			e, log := start(t, settings(c, protocol))
			end(t, e, 6000)
			for deadline := time.Now().Add(30 * time.Second); c.Asked() == 0; <-time.After(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("the collector was not asked, so it did not hang")
				}
			}
			began := time.Now()
			e.Stop(200 * time.Millisecond)
			took := time.Since(began)
			close(c.Hang)
			s := e.Stats()
			if s.Dropped < 6000-2048 || s.Delivered != 0 || s.Dropped+s.Lost != 6000 {
				t.Errorf("%+v", s)
			}
			if took > 20*time.Second || !strings.Contains(log.String(), fmt.Sprintf("dropped=%d", s.Dropped)) {
				t.Errorf("the stop took %s, %s", took, log)
			}
		})
	}
}

func TestACollectorThatIsNotThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			e, log := start(t, otlp.Settings{Endpoint: "http://" + l.Addr().String(), Protocol: protocol, Sample: 1, Service: "leasesvc"})
			end(t, e, 10)
			e.Stop(2 * time.Second)
			if e.Stats().Lost != 10 || !strings.Contains(log.String(), "spans were not delivered") {
				t.Errorf("%+v, %s", e.Stats(), log)
			}
		})
	}
}

// Headers are for the collector, not for whom it names.
func TestARedirectionIsNotFollowed(t *testing.T) {
	other := (&otlptest.Collector{}).Start(t, otlp.HTTP)
	srv := httptest.NewServer(http.RedirectHandler(other.URL()+"/v1/traces", http.StatusTemporaryRedirect))
	defer srv.Close()
	e, _ := start(t, otlp.Settings{Endpoint: srv.URL, Protocol: otlp.HTTP, Sample: 1, Service: "x", Headers: map[string]secret.String{"api-key": secret.New("hunter2")}})
	end(t, e, 1)
	e.Stop(10 * time.Second)
	if other.Asked() != 0 || e.Stats().Lost != 1 {
		t.Errorf("asked %d times, %+v", other.Asked(), e.Stats())
	}
}

func TestSampling(t *testing.T) {
	c := (&otlptest.Collector{}).Start(t, otlp.HTTP)
	s := settings(c, otlp.HTTP)
	s.Sample = 0
	e, _ := start(t, s)
	end(t, e, 100)
	e.Stop(10 * time.Second)
	if e.Stats() != (otlp.Stats{}) || c.Asked() != 0 {
		t.Errorf("%+v", e.Stats())
	}
}

func TestNone(t *testing.T) {
	var e *otlp.Exporter
	e.Stop(time.Second)
	if e.TracerProvider() != nil || e.Stats() != (otlp.Stats{}) {
		t.Error("a nil exporter has something")
	}
}

func TestBadSettings(t *testing.T) {
	base := otlp.Settings{Endpoint: "https://otel.example.com", Protocol: otlp.HTTP, Sample: 1, Service: "leasesvc"}
	for name, c := range map[string]struct {
		change func(*otlp.Settings)
		key    string
	}{
		"no headers file":       {func(s *otlp.Settings) { s.HeadersFile = "/nonexistent/hunter2" }, "headers_file"},
		"empty headers file":    {func(s *otlp.Settings) { s.HeadersFile = write(t, "\n# nothing\n") }, "headers_file"},
		"malformed header":      {func(s *otlp.Settings) { s.HeadersFile = write(t, "a: b\nBearer hunter2\n") }, "headers_file"},
		"bad header name":       {func(s *otlp.Settings) { s.HeadersFile = write(t, "hunter 2: b\n") }, "headers_file"},
		"control in a header":   {func(s *otlp.Settings) { s.HeadersFile = write(t, "a: hunter2\x01\n") }, "headers_file"},
		"headers in the clear":  {func(s *otlp.Settings) { s.Endpoint = "http://otel.example.com"; s.HeadersFile = write(t, "a: hunter2") }, "endpoint"},
		"no authority":          {func(s *otlp.Settings) { s.CA = "/nonexistent/ca.pem" }, "tls.ca"},
		"authority of nothing":  {func(s *otlp.Settings) { s.CA = write(t, "hunter2") }, "tls.ca"},
		"certificate of nobody": {func(s *otlp.Settings) { s.Cert, s.Key = write(t, "hunter2"), write(t, "hunter2") }, "tls.cert"},
		"TLS in the clear":      {func(s *otlp.Settings) { s.Endpoint = "http://127.0.0.1:4318"; s.ServerName = "otel" }, "tls"},
	} {
		for _, protocol := range protocols {
			s := base
			s.Protocol = protocol
			c.change(&s)
			e, err := otlp.Start(context.Background(), s, otlp.Options{})
			var setting *otlp.SettingError
			if !errors.As(err, &setting) || setting.Key != c.key || setting.Variable || strings.Contains(err.Error(), "hunter") {
				t.Errorf("%s: %v", name, err)
				e.Stop(0)
			}
		}
	}
	s := base
	s.Endpoint, s.Insecure, s.HeadersFile = "http://otel.example.com", true, write(t, "a: b")
	e, _ := start(t, s)
	e.Stop(time.Second)
}

func TestEnvironment(t *testing.T) {
	file := otlp.Settings{Endpoint: "https://file.example.com", Protocol: otlp.HTTP, HeadersFile: "/file/headers", Sample: 0.5, Service: "file"}
	for name, c := range map[string]struct {
		env  string // NAME=value, one a line
		want func(*otlp.Settings)
		bad  string
	}{
		"nothing":            {"", func(*otlp.Settings) {}, ""},
		"endpoint":           {"OTEL_EXPORTER_OTLP_ENDPOINT=http://env:4318", func(s *otlp.Settings) { s.Endpoint = "http://env:4318" }, ""},
		"traces endpoint":    {"OTEL_EXPORTER_OTLP_ENDPOINT=http://env:4318\nOTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://traces:1/x", func(s *otlp.Settings) { s.Endpoint, s.Whole = "http://traces:1/x", true }, ""},
		"protocol":           {"OTEL_EXPORTER_OTLP_PROTOCOL=grpc", func(s *otlp.Settings) { s.Protocol = otlp.GRPC }, ""},
		"traces protocol":    {"OTEL_EXPORTER_OTLP_PROTOCOL=grpc\nOTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf", func(*otlp.Settings) {}, ""},
		"grpc, host alone":   {"OTEL_EXPORTER_OTLP_PROTOCOL=grpc\nOTEL_EXPORTER_OTLP_ENDPOINT=env:4317\nOTEL_EXPORTER_OTLP_INSECURE=true", func(s *otlp.Settings) { s.Protocol, s.Endpoint = otlp.GRPC, "http://env:4317" }, ""},
		"grpc, host, secure": {"OTEL_EXPORTER_OTLP_PROTOCOL=grpc\nOTEL_EXPORTER_OTLP_ENDPOINT=env:4317", func(s *otlp.Settings) { s.Protocol, s.Endpoint = otlp.GRPC, "https://env:4317" }, ""},
		"headers":            {"OTEL_EXPORTER_OTLP_HEADERS=Api-Key=hunter2%20x, y=z", func(s *otlp.Settings) { s.HeadersFile = ""; s.Headers = headers("api-key", "hunter2 x", "y", "z") }, ""},
		"files":              {"OTEL_EXPORTER_OTLP_CERTIFICATE=/ca\nOTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE=/c\nOTEL_EXPORTER_OTLP_CLIENT_KEY=/k", func(s *otlp.Settings) { s.CA, s.Cert, s.Key = "/ca", "/c", "/k" }, ""},
		"sampler":            {"OTEL_TRACES_SAMPLER=parentbased_traceidratio\nOTEL_TRACES_SAMPLER_ARG=0.25", func(s *otlp.Settings) { s.Sample = 0.25 }, ""},
		"sampler off":        {"OTEL_TRACES_SAMPLER=always_off", func(s *otlp.Settings) { s.Sample = 0 }, ""},
		"service":            {"OTEL_SERVICE_NAME=env", func(s *otlp.Settings) { s.Service = "env" }, ""},
		"exporter":           {"OTEL_TRACES_EXPORTER=otlp", func(*otlp.Settings) {}, ""},

		"bad endpoint":    {"OTEL_EXPORTER_OTLP_ENDPOINT=ftp://hunter2", nil, "OTEL_EXPORTER_OTLP_ENDPOINT"},
		"no scheme":       {"OTEL_EXPORTER_OTLP_ENDPOINT=hunter2:4318", nil, "OTEL_EXPORTER_OTLP_ENDPOINT"},
		"password":        {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://a:hunter2@b", nil, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"},
		"bad protocol":    {"OTEL_EXPORTER_OTLP_PROTOCOL=http/json", nil, "OTEL_EXPORTER_OTLP_PROTOCOL"},
		"bad headers":     {"OTEL_EXPORTER_OTLP_HEADERS=hunter2", nil, "OTEL_EXPORTER_OTLP_HEADERS"},
		"bad escape":      {"OTEL_EXPORTER_OTLP_TRACES_HEADERS=a=hunter2%2", nil, "OTEL_EXPORTER_OTLP_TRACES_HEADERS"},
		"half a pair":     {"OTEL_EXPORTER_OTLP_CLIENT_KEY=/hunter2", nil, "OTEL_EXPORTER_OTLP_CLIENT_KEY"},
		"bad sampler":     {"OTEL_TRACES_SAMPLER=hunter2", nil, "OTEL_TRACES_SAMPLER"},
		"bad sampler arg": {"OTEL_TRACES_SAMPLER=traceidratio\nOTEL_TRACES_SAMPLER_ARG=NaN", nil, "OTEL_TRACES_SAMPLER_ARG"},
		"bad exporter":    {"OTEL_TRACES_EXPORTER=hunter2", nil, "OTEL_TRACES_EXPORTER"},
	} {
		got, err := file.Over(environment(c.env))
		if c.bad != "" {
			var setting *otlp.SettingError
			if !errors.As(err, &setting) || setting.Key != c.bad || !setting.Variable || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		want := file
		c.want(&want)
		same := got.Endpoint == want.Endpoint && got.Whole == want.Whole && got.Protocol == want.Protocol && got.HeadersFile == want.HeadersFile &&
			got.CA == want.CA && got.Cert == want.Cert && got.Key == want.Key && got.Sample == want.Sample && got.Service == want.Service && len(got.Headers) == len(want.Headers)
		for k, v := range want.Headers {
			same = same && got.Headers[k].Equal(v)
		}
		if err != nil || !same {
			t.Errorf("%s: %+v, %v, not %+v", name, got, err, want)
		}
		for _, name := range got.From {
			if !strings.Contains(c.env, name+"=") {
				t.Errorf("%s is said to have won, and is not set", name)
			}
		}
		if !slices.IsSorted(got.From) {
			t.Error(got.From)
		}
	}
}

func headers(pairs ...string) map[string]secret.String {
	out := map[string]secret.String{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = secret.New(pairs[i+1])
	}
	return out
}

func environment(lines string) func(string) string {
	set := map[string]string{}
	for _, line := range strings.Split(lines, "\n") {
		name, value, _ := strings.Cut(line, "=")
		set[name] = value
	}
	return func(name string) string { return set[name] }
}

func TestWhenTheEnvironmentAsks(t *testing.T) {
	for env, want := range map[string][2]bool{
		"": {false, false}, "OTEL_EXPORTER_OTLP_ENDPOINT=http://x": {true, false}, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://x": {true, false},
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://x\nOTEL_SDK_DISABLED=TRUE": {false, true}, "OTEL_EXPORTER_OTLP_ENDPOINT=http://x\nOTEL_TRACES_EXPORTER=none": {false, true},
		"OTEL_SERVICE_NAME=x": {false, false}, "OTEL_EXPORTER_OTLP_HEADERS=a=b": {false, false},
	} {
		if got := [2]bool{otlp.Configured(environment(env)), otlp.Disabled(environment(env))}; got != want {
			t.Errorf("%q: %v", env, got)
		}
	}
}
