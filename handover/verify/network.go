package verify

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
)

// unreachable names what kept us from a server, without the error's text, which
// has the user, the host and at times the DSN in it.
func unreachable(err error) *Error {
	return &Error{Failure: Unreachable, Reason: unreachableReason(err)}
}

func unreachableReason(err error) string {
	var (
		dns       *net.DNSError
		errno     syscall.Errno
		timeout   net.Error
		unknownCA x509.UnknownAuthorityError
		otherHost x509.HostnameError
		invalid   x509.CertificateInvalidError
		noTLS     tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &unknownCA), errors.As(err, &otherHost), errors.As(err, &invalid):
		return "its TLS certificate is not trusted"
	case errors.As(err, &noTLS), strings.Contains(err.Error(), "server refused TLS connection"):
		return "it speaks no TLS"
	case errors.As(err, &dns):
		return "its host name does not resolve"
	case errors.As(err, &errno):
		return errno.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	default:
		return "the connection broke while logging in"
	}
}

// dial opens a connection, over TLS if secure says how.
func dial(ctx context.Context, addr string, secure *tls.Config) (net.Conn, *Error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, unreachable(err)
	}
	if secure == nil {
		return conn, nil
	}
	over := tls.Client(conn, secure)
	if err := over.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, unreachable(err)
	}
	return over, nil
}

// tlsOf gives the TLS settings that a URL asks for with ca=FILE and
// server_name=HOST; without them those of the system and the URL's host.
func tlsOf(u *url.URL) (*tls.Config, error) {
	q := u.Query()
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: u.Hostname()}
	if name := q.Get("server_name"); name != "" {
		cfg.ServerName = name
	}
	file := q.Get("ca")
	if file == "" {
		return cfg, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		var path *fs.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return nil, errors.New("the verifier's ca (" + file + ") cannot be read: " + err.Error())
	}
	cfg.RootCAs = x509.NewCertPool()
	if !cfg.RootCAs.AppendCertsFromPEM(pem) {
		return nil, errors.New("the verifier's ca (" + file + ") has no certificate in it")
	}
	return cfg, nil
}
