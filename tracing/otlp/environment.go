package otlp

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/leasesvc/leasesvc/secret"
)

// Configured tells whether the environment asks for traces by itself: it names a
// collector, and does not turn tracing off.
func Configured(getenv func(string) string) bool {
	return !Disabled(getenv) && first(getenv, "TRACES_ENDPOINT", "ENDPOINT").value != ""
}

// Disabled tells whether the environment turns tracing off, whatever a file says.
func Disabled(getenv func(string) string) bool {
	return strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") || strings.EqualFold(getenv("OTEL_TRACES_EXPORTER"), "none")
}

// variable is one of the environment's that is set.
type variable struct{ name, value string }

// wrong says what is wrong with it; never its value, which may be a secret.
func (v variable) wrong(why string) error {
	return &SettingError{Key: v.name, Variable: true, Why: why}
}

// first gives the first variable of OTEL_EXPORTER_OTLP_... that is set.
func first(getenv func(string) string, names ...string) variable {
	for _, name := range names {
		name = "OTEL_EXPORTER_OTLP_" + name
		if v := strings.TrimSpace(getenv(name)); v != "" {
			return variable{name, v}
		}
	}
	return variable{}
}

// Over gives the settings with the variables of OpenTelemetry's specification that
// are set over them. A [*SettingError] names one that makes no sense.
func (s Settings) Over(getenv func(string) string) (Settings, error) {
	s.From, s.origins = nil, map[string]string{}
	for _, step := range []func(func(string) string) error{s.overExporter, s.overProtocol, s.overEndpoint, s.overHeaders, s.overFiles, s.overSampler} {
		if err := step(getenv); err != nil {
			return s, err
		}
	}
	if v := strings.TrimSpace(getenv("OTEL_SERVICE_NAME")); v != "" {
		s.Service = v
		s.From = append(s.From, "OTEL_SERVICE_NAME")
	}
	slices.Sort(s.From)
	return s, nil
}

func (s *Settings) overExporter(getenv func(string) string) error {
	v := variable{"OTEL_TRACES_EXPORTER", strings.TrimSpace(getenv("OTEL_TRACES_EXPORTER"))}
	if v.value != "" && !strings.EqualFold(v.value, "otlp") {
		return v.wrong("it is none that is known here; allowed: otlp, none")
	}
	return nil
}

func (s *Settings) overProtocol(getenv func(string) string) error {
	v := first(getenv, "TRACES_PROTOCOL", "PROTOCOL")
	switch v.value {
	case "":
		return nil
	case "grpc":
		s.Protocol = GRPC
	case "http/protobuf":
		s.Protocol = HTTP
	default:
		return v.wrong("it is none that is known here; allowed: grpc, http/protobuf")
	}
	s.From = append(s.From, v.name)
	return nil
}

func (s *Settings) overEndpoint(getenv func(string) string) error {
	v := first(getenv, "TRACES_ENDPOINT", "ENDPOINT")
	if v.value == "" {
		return nil
	}
	text := v.value
	if !strings.Contains(text, "://") && s.Protocol == GRPC { // host:port alone
		scheme := "https://"
		if strings.EqualFold(first(getenv, "TRACES_INSECURE", "INSECURE").value, "true") {
			scheme = "http://"
		}
		text = scheme + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return v.wrong("it is not a URL with http or https and a host, as in http://127.0.0.1:4318")
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		return v.wrong("it holds a user, a password or a query, which don't belong here; headers carry what lets us in")
	}
	s.Endpoint, s.Whole = text, strings.Contains(v.name, "TRACES_")
	s.origins["endpoint"] = v.name
	s.From = append(s.From, v.name)
	return nil
}

func (s *Settings) overHeaders(getenv func(string) string) error {
	v := first(getenv, "TRACES_HEADERS", "HEADERS")
	if v.value == "" {
		return nil
	}
	headers := map[string]secret.String{}
	for _, pair := range strings.Split(v.value, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		name = strings.ToLower(strings.TrimSpace(name))
		plain, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil || !isHeaderName(name) || !isHeaderValue(plain) {
			return v.wrong("it is not a list of headers, as in name=value,other=value")
		}
		headers[name] = secret.New(plain)
	}
	s.Headers, s.HeadersFile = headers, ""
	s.From = append(s.From, v.name)
	return nil
}

func (s *Settings) overFiles(getenv func(string) string) error {
	ca := first(getenv, "TRACES_CERTIFICATE", "CERTIFICATE")
	cert := first(getenv, "TRACES_CLIENT_CERTIFICATE", "CLIENT_CERTIFICATE")
	key := first(getenv, "TRACES_CLIENT_KEY", "CLIENT_KEY")
	if ca.value != "" {
		s.CA = ca.value
		s.origins["tls.ca"] = ca.name
		s.From = append(s.From, ca.name)
	}
	if cert.value == "" && key.value == "" {
		return nil
	}
	if cert.value == "" || key.value == "" {
		set := cert
		if cert.value == "" {
			set = key
		}
		return set.wrong("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY come together")
	}
	s.Cert, s.Key = cert.value, key.value
	s.origins["tls.cert"] = cert.name
	s.From = append(s.From, cert.name, key.name)
	return nil
}

func (s *Settings) overSampler(getenv func(string) string) error {
	v := variable{"OTEL_TRACES_SAMPLER", strings.TrimSpace(getenv("OTEL_TRACES_SAMPLER"))}
	arg := variable{"OTEL_TRACES_SAMPLER_ARG", strings.TrimSpace(getenv("OTEL_TRACES_SAMPLER_ARG"))}
	switch v.value {
	case "":
		return nil
	case "always_on", "parentbased_always_on":
		s.Sample = 1
	case "always_off", "parentbased_always_off":
		s.Sample = 0
	case "traceidratio", "parentbased_traceidratio":
		s.Sample = 1
		if arg.value != "" {
			part, err := strconv.ParseFloat(arg.value, 64)
			if err != nil || !(part >= 0 && part <= 1) {
				return arg.wrong("it is no number from 0 to 1")
			}
			s.Sample = part
			s.From = append(s.From, arg.name)
		}
	default:
		return v.wrong("it is none that is known here; allowed: always_on, always_off, traceidratio, and these after parentbased_")
	}
	s.From = append(s.From, v.name)
	return nil
}
