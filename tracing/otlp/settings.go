package otlp

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/leasesvc/leasesvc/secret"
)

// The protocols.
const (
	HTTP = "http" // protobuf in HTTP requests
	GRPC = "grpc"
)

// Settings say where spans go, and which.
type Settings struct {
	// Endpoint is the collector's URL, http or https; of HTTP the path is below
	// which /v1/traces is. Empty: the protocol's own port on this machine.
	Endpoint string
	// Whole says that Endpoint is the very URL that traces are posted to.
	Whole bool
	// Protocol is HTTP or GRPC.
	Protocol string
	// HeadersFile has lines "name: value" that are sent along; Headers are what
	// they are without a file.
	HeadersFile string
	Headers     map[string]secret.String
	// Insecure allows to send headers to another machine without TLS.
	Insecure bool
	// CA, Cert and Key are PEM files; ServerName is what the collector's
	// certificate must be for, if not the endpoint's host.
	CA, Cert, Key, ServerName string
	// Sample is the part of all traces that is recorded, 0 to 1.
	Sample float64
	// Service is the name that spans are shown under.
	Service string
	// From are the variables of the environment that won over the file.
	From []string
	// origins has the variable that a setting came from, by the setting's key.
	origins map[string]string
}

// SettingError says what is wrong with a setting, without its value.
type SettingError struct {
	// Key is the setting's key in a file, or the variable's name where Variable.
	Key      string
	Variable bool
	Why      string
}

// Error implements error.
func (e *SettingError) Error() string { return e.Key + ": " + e.Why }

func wrong(key, why string, args ...any) *SettingError {
	return &SettingError{Key: key, Why: fmt.Sprintf(why, args...)}
}

// placed puts an error at the variable that its setting came from.
func (s *Settings) placed(err error) error {
	var setting *SettingError
	if errors.As(err, &setting) && s.origins[setting.Key] != "" {
		return &SettingError{Key: s.origins[setting.Key], Variable: true, Why: setting.Why}
	}
	return err
}

// endpoint gives the URL to send to, and whether it is reached by TLS.
func (s *Settings) endpoint() (u *url.URL, err error) {
	text := s.Endpoint
	if text == "" {
		text = map[string]string{HTTP: "http://localhost:4318", GRPC: "http://localhost:4317"}[s.Protocol]
	}
	if u, err = url.Parse(text); err != nil {
		return nil, wrong("endpoint", "is not a URL") // what is wrong with it would repeat it
	}
	if s.Protocol == HTTP && !s.Whole && !strings.HasSuffix(u.Path, tracesPath) {
		u.Path = strings.TrimSuffix(u.Path, "/") + tracesPath
	}
	if u.Path == "" {
		u.Path = "/"
	}
	return u, nil
}

const tracesPath = "/v1/traces"

// headers gives those that are sent along.
func (s *Settings) headers() (map[string]string, error) {
	out := map[string]string{}
	for name, value := range s.Headers {
		out[name] = value.Reveal()
	}
	if s.HeadersFile == "" {
		return out, nil
	}
	text, err := os.ReadFile(s.HeadersFile)
	if err != nil {
		return nil, wrong("headers_file", "it can't be read: %v", pathless(err))
	}
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		name, value = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(value)
		if !ok || !isHeaderName(name) || !isHeaderValue(value) {
			return nil, wrong("headers_file", "line %d is not a header, as in \"authorization: Bearer ...\"", i+1)
		}
		out[name] = value
	}
	if len(out) == 0 {
		return nil, wrong("headers_file", "there is no header in it")
	}
	return out, nil
}

// pathless leaves out the path, which the key's place tells.
func pathless(err error) error {
	for {
		inner, ok := err.(interface{ Unwrap() error })
		if !ok {
			return err
		}
		err = inner.Unwrap()
	}
}

func isHeaderName(s string) bool {
	for _, r := range s {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", r)) {
			return false
		}
	}
	return s != ""
}

func isHeaderValue(s string) bool {
	for _, r := range s {
		if r < ' ' || r > '~' {
			return false
		}
	}
	return s != ""
}

// local tells whether only this machine gets what is sent.
func local(host string) bool {
	return host == "localhost" || host == "::1" || strings.HasPrefix(host, "127.")
}
