package config

import (
	"errors"
	"math"
	"net/url"
	"strconv"
	"strings"
)

// Tracing says where the spans of hand-overs go (docs/tracing.md).
type Tracing struct {
	// Endpoint is the collector's URL; "": the protocol's port on this machine.
	Endpoint string
	// Protocol is http or grpc.
	Protocol string
	// HeadersFile has headers that are sent along, secrets.
	HeadersFile string
	// Insecure allows to send them to another machine without TLS.
	Insecure bool
	TLS      TLS
	// Sample is the part of all hand-overs that is traced, 0 to 1.
	Sample float64
	// ServiceName is what spans are shown under.
	ServiceName string
}

// tracing reads the settings of traces; to stays nil where there are none.
func tracing(to **Tracing, called string) shape {
	t := Tracing{Protocol: "http", Sample: 1, ServiceName: called}
	return object{fields: []field{
		{name: "endpoint", shape: text{to: &t.Endpoint, what: "URL", check: checkCollector, allowed: "http:// or https:// and a host, such as https://otel.example.com:4318"}},
		{name: "protocol", shape: choice[string]{&t.Protocol, []string{"http", "grpc"}}, def: "http"},
		{name: "headers_file", shape: path{&t.HeadersFile}},
		{name: "insecure", shape: boolean{&t.Insecure}, def: "false"},
		{name: "tls", shape: t.TLS.shape("ca", "cert", "key", "server_name")},
		{name: "sample", shape: part{&t.Sample}, def: "1"},
		{name: "service_name", shape: text{to: &t.ServiceName, check: checkPlain(1, 255)}, def: called},
	}, check: func(d *decoder, f *found) {
		if f.ok("endpoint", "protocol") {
			u, err := url.Parse(t.Endpoint)
			if err == nil && t.Protocol == "grpc" && strings.Trim(u.Path, "/") != "" {
				f.fail(d, []string{"endpoint"}, "has a path, which means nothing with protocol: grpc")
			}
			if err == nil && f.has("tls") && u.Scheme == "http" {
				f.fail(d, []string{"tls"}, "means something with an https endpoint only")
			}
		}
		*to = &t
	}}
}

func checkCollector(s string) error {
	if s == "" {
		return errors.New("is empty")
	}
	return checkURL(s, true, "http", "https")
}

// part is a number from 0 to 1.
type part struct{ to *float64 }

func (r part) read(d *decoder, n *node, p place) {
	if n.kind != scalar || n.isBool() {
		d.fail(n, p, "%s where a number is expected; allowed: %s", n.describe(), r.typ())
		return
	}
	v, err := strconv.ParseFloat(n.text, 64)
	if !n.isPlain() || !rates.MatchString(n.text) || err != nil || v < 0 || v > 1 || math.IsNaN(v) {
		d.fail(n, p, "%s is not allowed; allowed: %s, such as 0.1", shownValue(n.text), r.typ())
		return
	}
	*r.to = v
}

func (part) typ() string                  { return "number from 0 to 1" }
func (part) children(func(string, field)) {}
