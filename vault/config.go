package vault

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/leasesvc/leasesvc/secret"
)

// DefaultOpTimeout is the deadline of one call when none is configured.
const DefaultOpTimeout = 10 * time.Second

// Config is one connection to a Vault or OpenBao. Only what stands here counts,
// the environment does not, but for the token (see [Client.Login]).
type Config struct {
	// Name is the connection's name, used in errors and log lines.
	Name string
	// Address is the server's URL, http or https, with a path prefix if need be.
	Address string
	// Namespace is sent with every request when not empty.
	Namespace string
	// Token is the token itself; it wins over TokenFile.
	Token secret.String
	// TokenFile holds the token and is read again at each login.
	TokenFile string
	// GuardRole is the token role that guards are created by: orphan, no
	// period, no explicit max TTL, no use limit.
	GuardRole string
	TLS       TLS
	// OpTimeout bounds each call, (0, 10 min]; 0 means DefaultOpTimeout.
	OpTimeout time.Duration
	// Logger gets what [Client.Run] has to say; nil means none.
	Logger *slog.Logger
}

// TLS is how the server is verified and what we show it.
type TLS struct {
	// CACert is a PEM file; empty means the system's authorities.
	CACert string
	// ClientCert and ClientKey are PEM files, both or none.
	ClientCert, ClientKey string
	// ServerName is verified in place of the address's host name.
	ServerName string
	// SkipVerify takes any certificate. Whoever is in between reads every credential.
	SkipVerify bool
}

func (cfg *Config) check() (*url.URL, error) {
	if cfg.Name == "" {
		cfg.Name = "vault"
	}
	if cfg.OpTimeout == 0 {
		cfg.OpTimeout = DefaultOpTimeout
	}
	if cfg.OpTimeout < 0 || cfg.OpTimeout > 10*time.Minute {
		return nil, fmt.Errorf("vault %s: operation timeout %s is not in (0, 10m]", cfg.Name, cfg.OpTimeout)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	u, err := url.Parse(cfg.Address)
	switch {
	case err != nil:
		return nil, fmt.Errorf("vault %s: the address is not a URL", cfg.Name)
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return nil, fmt.Errorf("vault %s: the address must be http://host:port or https://host:port", cfg.Name)
	case u.User != nil:
		return nil, fmt.Errorf("vault %s: the address must not have a user or password in it", cfg.Name)
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("vault %s: the address must not have a query or fragment", cfg.Name)
	case strings.ContainsFunc(cfg.Namespace, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return nil, fmt.Errorf("vault %s: the namespace has a blank or control character", cfg.Name)
	}
	if cfg.GuardRole != "" {
		if err := checkPath(cfg.GuardRole); err != nil || strings.Contains(cfg.GuardRole, "/") {
			return nil, fmt.Errorf("vault %s: %q is no name of a token role", cfg.Name, cfg.GuardRole)
		}
	}
	if host := u.Hostname(); u.Scheme == "http" && host != "localhost" {
		if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
			cfg.Logger.Warn("tokens and credentials travel unencrypted; use https", "vault", cfg.Name)
		}
	}
	return u, nil
}

func (t TLS) config() (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName, InsecureSkipVerify: t.SkipVerify}
	if t.CACert != "" {
		pem, err := os.ReadFile(t.CACert)
		if err != nil {
			return nil, fmt.Errorf("read the CA certificate: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("the CA certificate file %s holds no PEM certificate", t.CACert)
		}
	}
	if (t.ClientCert == "") != (t.ClientKey == "") {
		return nil, errors.New("a client certificate and its key go together; one is missing")
	}
	if t.ClientCert != "" {
		pair, err := tls.LoadX509KeyPair(t.ClientCert, t.ClientKey)
		if err != nil {
			return nil, fmt.Errorf("read the client certificate and key: %w", err)
		}
		// Whatever authorities the server prefers: it is this one that is configured.
		out.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return out, nil
}

// checkPath refuses paths that would reach something else than they say.
func checkPath(p string) error {
	switch {
	case p == "":
		return errors.New("the path is empty")
	case len(p) > 1024:
		return errors.New("the path is longer than 1024 bytes")
	case strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f || r == '?' || r == '#' || r == 0xFFFD }):
		return errors.New("the path has a control character, ? or #")
	}
	for part := range strings.SplitSeq(p, "/") {
		if part == "" || part == "." || part == ".." {
			return errors.New("the path has an empty, . or .. part; write it without slashes at its ends")
		}
	}
	return nil
}
