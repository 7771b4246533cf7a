package service

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/leasesvc/leasesvc/epochkv"
	"github.com/leasesvc/leasesvc/secret"
	"github.com/leasesvc/leasesvc/service/config"
	"github.com/leasesvc/leasesvc/web"
)

const (
	// listenAgain is the pace at which an address that is taken is tried again: a
	// standby beside us may have it, and end.
	listenAgain = 3 * time.Second
	// pageEnds bounds the wait for requests that are being answered at the end.
	pageEnds = 2 * time.Second
)

// page is what the HTTP address needs of this machine.
type page struct {
	login *web.Login
	tls   *tls.Config // nil: none
	// known is what was listed last.
	known  []epochkv.HolderCell
	listed time.Time
}

// newPage reads what the configuration of the address names.
func newPage(cfg *config.Config) (*page, error) {
	h, p := cfg.HTTP, &page{}
	if h.Cert != "" {
		if _, err := tls.LoadX509KeyPair(h.Cert, h.Key); err != nil {
			return nil, cfg.Refuse("http.tls.cert", "%v", err)
		}
		p.tls = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			// Read at each handshake, which are few: a renewed certificate counts
			// without a restart.
			c, err := tls.LoadX509KeyPair(h.Cert, h.Key)
			return &c, err
		}}
	}
	if h.ClientCA != "" {
		pem, err := os.ReadFile(h.ClientCA)
		if err != nil {
			return nil, cfg.Refuse("http.tls.client_ca", "%v", err)
		}
		p.tls.ClientCAs = x509.NewCertPool()
		if !p.tls.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, cfg.Refuse("http.tls.client_ca", "%s holds no certificate", h.ClientCA)
		}
		// Asked for and not required: the probes are for everybody, and all else asks
		// who looks for one.
		p.tls.ClientAuth = tls.VerifyClientCertIfGiven
	}
	token := secret.String{}
	if h.TokenFile != "" {
		var err error
		if token, err = readSecret(h.TokenFile); err != nil {
			return nil, cfg.Refuse("http.token_file", "%v; make one with: openssl rand -base64 24", err)
		}
	}
	if h.TokenFile != "" || h.ClientCA != "" {
		var err error
		if p.login, err = web.NewLogin(token, h.ClientCA != ""); err != nil {
			return nil, cfg.Refuse("http.token_file", "%v", err)
		}
	}
	return p, nil
}

// serveHTTP serves the HTTP address, if somebody wants to be told of it, from now
// on until the result is called, which waits for the end of it.
func (s *Service) serveHTTP(ctx context.Context) (stop func()) {
	if s.opts.OnHTTP == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var serving sync.WaitGroup
	serving.Go(func() { s.serveAddress(ctx) })
	return func() {
		cancel()
		serving.Wait()
	}
}

// serveAddress serves the HTTP address until ctx ends. It is no reason for an
// instance not to run: where it can't be served this is logged and tried again.
func (s *Service) serveAddress(ctx context.Context) {
	for warned := false; ; warned = true {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.cfg.HTTP.Listen)
		if err == nil {
			err = s.serveOn(ctx, l)
		}
		if ctx.Err() != nil {
			return
		}
		if !warned {
			s.log.Warn("the page, the metrics and the probes are not served here; it is tried again", "listen", s.cfg.HTTP.Listen, "error", err)
		}
		if pause(ctx, listenAgain) != nil {
			return
		}
	}
}

// serveOn serves a listener: the probes and the metrics at once, the page from
// when the instance has begun.
func (s *Service) serveOn(ctx context.Context, l net.Listener) error {
	front := newFront(s)
	server := &http.Server{
		Handler: front, TLSConfig: s.page.tls, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ReadTimeout: 30 * time.Second, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	scheme := "http"
	serve := server.Serve
	if s.page.tls != nil {
		scheme = "https"
		serve = func(l net.Listener) error { return server.ServeTLS(l, "", "") } // with HTTP/2
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	go func() { served <- serve(l) }()
	var paging sync.WaitGroup
	paging.Go(func() { s.servePage(ctx, front, scheme+"://"+l.Addr().String()) })
	var err error
	select {
	case err = <-served:
		cancel()
	case <-ctx.Done():
		front.close() // its streams end
		end, done := context.WithTimeout(context.WithoutCancel(ctx), pageEnds)
		if server.Shutdown(end) != nil {
			_ = server.Close() // what is left is cut off; its error says no more
		}
		done()
		err = <-served
	}
	paging.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

// servePage gives the front its page, once the instance has begun, and reads the
// log for it until ctx ends.
func (s *Service) servePage(ctx context.Context, front *front, url string) {
	select {
	case <-s.begun:
	case <-ctx.Done():
		return
	}
	history := web.NewHistory(s.cfg.ScopeNames(), nil)
	for name, sc := range s.scopes {
		history.Rering(name, sc.keys.Load().mac)
		upTo, err := s.trusted(ctx, name)
		for warned := false; err != nil; warned = true {
			if !warned {
				s.log.Warn("the page waits for what was decided in a recovery", "scope", name, "error", err)
			}
			if pause(ctx, listenAgain) != nil {
				return
			}
			upTo, err = s.trusted(ctx, name)
		}
		history.Trust(name, upTo)
	}
	handler := web.NewHandler(history, s.journal, web.Options{
		Version: s.opts.Version, Logger: s.log, Login: s.page.login, AnyHost: s.cfg.HTTP.Insecure,
	})
	front.show(handler, history)
	defer handler.Close()
	s.opts.OnHTTP(url)
	_ = web.NewFollower(s.journal, history, s.present, s.log).Run(ctx) // ends with ctx alone
}

// present tells the page who is alive.
func (s *Service) present(ctx context.Context) web.Present {
	out := web.Present{Holding: map[string]web.Instance{}, Standby: map[string][]web.Instance{}}
	if !s.nc.IsConnected() {
		out.Link = "this instance has no connection to NATS; what is shown may be old"
		return out
	}
	holders := map[string]string{}
	for name := range s.scopes {
		v, err := s.cells.Look(ctx, name)
		if err != nil {
			out.Link = fmt.Sprintf("who leads can't be read from NATS: %v", err)
			return out
		}
		if v.Holder != nil {
			out.Holding[name] = instanceOf(v.Holder)
			holders[name] = v.Holder.Holder
		}
	}
	all := s.page.holders(ctx, s.cells, s.log)
	for i := range all {
		in := instanceOf(&all[i])
		if in.State != string(epochkv.HolderLive) || in.Age > time.Minute.Milliseconds() {
			continue
		}
		for name := range s.scopes {
			if holders[name] != in.Holder && standsBy(&all[i], name) {
				out.Standby[name] = append(out.Standby[name], in)
			}
		}
	}
	return out
}

// holdersAgain is the pace at which the list of holders is read; heartbeats of
// those who only stand by are that much less fresh.
const holdersAgain = 5 * time.Second

// holders lists the holders' cells. It is called by one goroutine.
func (p *page) holders(ctx context.Context, cells *epochkv.Cells, log *slog.Logger) []epochkv.HolderCell {
	if time.Since(p.listed) < holdersAgain {
		return p.known
	}
	all, err := cells.Holders(ctx)
	if err != nil {
		log.Debug("the standbys can't be read", "error", err)
		return p.known
	}
	p.known, p.listed = all, time.Now()
	return all
}

// standsBy tells whether an instance is there for a scope, as its echo says.
func standsBy(c *epochkv.HolderCell, scope string) bool {
	var echo struct {
		For []string `json:"for"`
	}
	return json.Unmarshal(c.Echo, &echo) == nil && slices.Contains(echo.For, scope)
}

func instanceOf(c *epochkv.HolderCell) web.Instance {
	return web.Instance{Holder: c.Holder, Host: c.Instance, Version: c.Version, State: string(c.State), Age: max(time.Since(c.WrittenAt).Milliseconds(), 0)}
}
