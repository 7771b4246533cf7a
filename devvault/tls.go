package devvault

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
)

// StartTLS is Start over TLS, with the server's certificate in config. Clients
// are asked for a certificate and need none, unless config says otherwise; one
// they give is what a TLS certificate method sees.
func (s *Server) StartTLS(addr string, config *tls.Config) error {
	if config == nil || len(config.Certificates) == 0 && config.GetCertificate == nil {
		return errors.New("devvault: no server certificate: put one into the TLS configuration")
	}
	config = config.Clone()
	if config.ClientAuth == tls.NoClientCert {
		config.ClientAuth = tls.RequestClientCert
	}
	return s.listen(addr, "https://", func(l net.Listener) net.Listener { return tls.NewListener(l, config) })
}

// listen makes the server listen, once.
func (s *Server) listen(addr, scheme string, around func(net.Listener) net.Listener) error {
	var config net.ListenConfig
	l, err := config.Listen(s.life, "tcp", addr)
	if err != nil {
		return fmt.Errorf("devvault: listening on %s: %w", addr, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.http != nil {
		_ = l.Close()
		if s.closed {
			return ErrClosed
		}
		return errors.New("devvault: already started: make another server instead")
	}
	s.serveOn(around(l), scheme+l.Addr().String())
	return nil
}
