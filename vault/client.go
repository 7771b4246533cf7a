package vault

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/hashicorp/vault/api"

	"github.com/leasesvc/leasesvc/secret"
)

// Client is one connection to a Vault or OpenBao. Make it with [New].
type Client struct {
	cfg Config
	// pooled keeps connections alive, for calls that may be sent twice.
	pooled *api.Client
	// single opens a connection for each request, for calls that must not be.
	single     *api.Client
	transports []*http.Transport

	method method      // nil: a token that is given
	tls    *clientCert // nil: none
	gate   *gate
	stats  stats

	lingering *lingering

	forbidden chan struct{} // our token was refused; Run looks at it
	pace      pace

	mu    sync.Mutex
	token token

	login     sync.Mutex // one login at a time
	unwrapped unwrapped  // under login
}

// New makes a client; no request is sent. Errors are those of the configuration.
func New(cfg Config) (*Client, error) {
	if _, err := cfg.check(); err != nil {
		return nil, err
	}
	m, err := cfg.checkLogin()
	if err != nil {
		return nil, fmt.Errorf("vault %s: %w", cfg.Name, err)
	}
	tlsConfig, cert, err := cfg.TLS.config(cfg.origins)
	if err != nil {
		return nil, fmt.Errorf("vault %s: %w", cfg.Name, err)
	}
	if cert != nil {
		cert.conn, cert.log = cfg.Name, cfg.Logger
	}
	c := &Client{cfg: cfg, method: m, tls: cert, forbidden: make(chan struct{}, 1), pace: defaultPace}
	c.gate = newGate(cfg.Limits, c.circuitMoved)
	c.lingering = newLingering()
	if c.pooled, err = c.newAPIClient(tlsConfig, true); err != nil {
		return nil, err
	}
	if c.single, err = c.newAPIClient(tlsConfig, false); err != nil {
		return nil, err
	}
	return c, nil
}

// Close drops idle connections and ends the waiting of calls that wait for their
// turn (KindCanceled). Calls that run are not touched; reads that their callers
// gave up are broken off.
func (c *Client) Close() {
	c.gate.stop()
	c.lingering.close()
	for _, t := range c.transports {
		t.CloseIdleConnections()
	}
}

func (c *Client) newAPIClient(tlsConfig *tls.Config, keepAlive bool) (*api.Client, error) {
	transport := &http.Transport{
		// HTTP/1.1 and no proxy, on purpose: HTTP/2 repeats streams that were
		// refused, and the environment decides nothing here.
		DialContext:            (&net.Dialer{Timeout: c.cfg.OpTimeout, KeepAlive: 15 * time.Second}).DialContext,
		TLSClientConfig:        tlsConfig.Clone(),
		TLSHandshakeTimeout:    c.cfg.OpTimeout,
		DisableKeepAlives:      !keepAlive,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    c.cfg.Limits.InFlight, // a burst finds the connections of the one before
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: 256 << 10,
	}
	c.transports = append(c.transports, transport)
	client, err := api.NewClient(&api.Config{
		Address: c.cfg.Address,
		HttpClient: &http.Client{
			Transport:     boundedTransport{transport},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		MaxRetries:       0,
		CheckRetry:       func(context.Context, *http.Response, error) (bool, error) { return false, nil },
		DisableRedirects: true, // followed here, under a stricter rule
	})
	if err != nil {
		return nil, fmt.Errorf("vault %s: the API client refuses the VAULT_ variables of the environment, though none counts here; unset or correct them: %w", c.cfg.Name, err)
	}
	// What the API client took from the environment goes again.
	client.ClearToken()
	client.SetHeaders(http.Header{api.RequestHeaderName: {"true"}})
	client.SetWrappingLookupFunc(func(string, string) string { return "" })
	if c.cfg.Namespace != "" {
		client.SetNamespace(c.cfg.Namespace)
	}
	return client, nil
}

// ownToken gives the token that is in force, empty before the first login.
func (c *Client) ownToken() secret.String {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.token.value
}

// boundedTransport bounds what is read of any answer, the API client's own
// reading of error documents included.
type boundedTransport struct{ next http.RoundTripper }

func (b boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if _, err := url.Parse(resp.Header.Get("Location")); err != nil {
		// net/http would drop the whole answer, and with it that nothing was done.
		resp.Header.Del("Location")
	}
	resp.Body = &boundedBody{ReadCloser: resp.Body, left: maxBody}
	return resp, nil
}

type boundedBody struct {
	io.ReadCloser
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, errBodyTooLarge
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	if b.left < 0 {
		return n, errBodyTooLarge
	}
	return n, err
}
