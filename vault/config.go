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
	"path/filepath"
	"strings"
	"time"

	"github.com/leasesvc/leasesvc/secret"
)

// maxRetries bounds [Config.Retries].
const maxRetries = 10

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
	// Login gets a token from an auth method instead. Not beside the two above.
	Login Login
	// GuardRole is the token role that guards are created by: orphan, no
	// period, no explicit max TTL, no use limit.
	GuardRole string
	TLS       TLS
	// OpTimeout bounds each call, (0, 10 min]; 0 means DefaultOpTimeout.
	OpTimeout time.Duration
	// Retries is how often a call that may be sent twice is repeated after a 5xx,
	// a time-out or a lost connection, [0, 10]; 0 leaves that to the caller. It
	// never counts for reads, guards and logins (P5).
	Retries int
	// Limits bound what the connection asks of its server; the zero value is fit.
	Limits Limits
	// OnCircuit, when not nil, is told of each change of the circuit, by the
	// goroutine of the call that saw it, before that call returns. It must not block.
	OnCircuit func(Circuit)
	// Logger gets what [Client.Run] has to say; nil means none.
	Logger *slog.Logger

	// origins names where a setting came from that [Config.Override] made.
	origins map[string]string
}

// TLS is how the server is verified and what we show it. Of CACert, CACertPEM
// and CAPath the first that is set counts; none means the system's authorities.
type TLS struct {
	// CACert is a PEM file.
	CACert string
	// CACertPEM is the PEM text itself.
	CACertPEM string
	// CAPath is a directory whose files, but for those that begin with "..", are
	// PEM; those without a certificate are passed over.
	CAPath string
	// ClientCert and ClientKey are PEM files, both or none. They are read again
	// when they change.
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
	if cfg.Retries < 0 || cfg.Retries > maxRetries {
		return nil, fmt.Errorf("vault %s: %d retries are not in [0, %d]", cfg.Name, cfg.Retries, maxRetries)
	}
	if err := cfg.Limits.fill(); err != nil {
		return nil, fmt.Errorf("vault %s: %w", cfg.Name, err)
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
		return nil, cfg.wrong("address", "the address is not a URL")
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return nil, cfg.wrong("address", "the address must be http://host:port or https://host:port")
	case u.User != nil:
		return nil, cfg.wrong("address", "the address must not have a user or password in it")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, cfg.wrong("address", "the address must not have a query or fragment")
	case strings.ContainsFunc(cfg.Namespace, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return nil, cfg.wrong("namespace", "the namespace has a blank or control character")
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

// wrong says what is wrong with a setting, and where it came from if not from
// the configuration.
func (cfg *Config) wrong(setting, what string) error {
	return fmt.Errorf("vault %s: %w", cfg.Name, from(cfg.origins, setting, errors.New(what)))
}

// config gives the TLS settings, and our certificate when there is one. origins
// names where settings came from, for errors.
func (t TLS) config(origins map[string]string) (*tls.Config, *clientCert, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName, InsecureSkipVerify: t.SkipVerify}
	var err error
	if out.RootCAs, err = t.authorities(); err != nil {
		return nil, nil, from(origins, "ca", err)
	}
	if (t.ClientCert == "") != (t.ClientKey == "") {
		return nil, nil, from(origins, "client", errors.New("a client certificate and its key go together; one is missing"))
	}
	if t.ClientCert == "" {
		return out, nil, nil
	}
	cert, err := newClientCert(t.ClientCert, t.ClientKey)
	if err != nil {
		return nil, nil, from(origins, "client", fmt.Errorf("read the client certificate and key: %w", err))
	}
	// Whatever authorities the server prefers: it is this one that is configured.
	out.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert.current(), nil }
	return out, cert, nil
}

// authorities gives nil for the system's.
func (t TLS) authorities() (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	switch {
	case t.CACert != "":
		pem, err := os.ReadFile(t.CACert)
		if err != nil {
			return nil, fmt.Errorf("read the CA certificate: %w", err)
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("the CA certificate file %s holds no PEM certificate", t.CACert)
		}
	case t.CACertPEM != "":
		if !pool.AppendCertsFromPEM([]byte(t.CACertPEM)) {
			return nil, errors.New("the CA certificate text is no PEM certificate")
		}
	case t.CAPath != "":
		return pool, addDirectory(pool, t.CAPath)
	default:
		return nil, nil
	}
	return pool, nil
}

func addDirectory(pool *x509.CertPool, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read the directory of CA certificates: %w", err)
	}
	some := false
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		// Names with ".." are how Kubernetes swaps a mounted volume's files.
		info, err := os.Stat(path)
		if strings.HasPrefix(e.Name(), "..") || err != nil || !info.Mode().IsRegular() {
			continue
		}
		pem, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("read the CA certificate: %w", err)
		}
		some = pool.AppendCertsFromPEM(pem) || some
	}
	if !some {
		return fmt.Errorf("no file in %s holds a PEM certificate", dir)
	}
	return nil
}

// from says where the setting came from that err is about.
func from(origins map[string]string, setting string, err error) error {
	if o := origins[setting]; o != "" {
		return fmt.Errorf("%s: %w", o, err)
	}
	return err
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
