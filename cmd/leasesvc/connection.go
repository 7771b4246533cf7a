package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/service"
	"github.com/leasesvc/leasesvc/service/api"
	"github.com/leasesvc/leasesvc/service/config"
)

// connection is how a command reaches the service.
type connection struct {
	Server string `env:"LEASESVC_SERVER,NATS_URL" default:"nats://127.0.0.1:4222" help:"NATS to connect to."`
	Creds  string `env:"LEASESVC_CREDS" placeholder:"FILE" help:"NATS credentials file."`
	Config string `placeholder:"FILE" help:"Take the connection from this service file instead."`
	Stream string `env:"LEASESVC_STREAM" default:"LEASESVC" help:"The stream that holds the log."`
	Scope  string `env:"LEASESVC_SCOPE" help:"The scope; not needed where only one is led."`
}

const (
	connectWithin = 5 * time.Second
	askWithin     = 10 * time.Second
	// discoverWithin is how long the holders have to say which scopes are led.
	discoverWithin = 500 * time.Millisecond
)

// dialer has a connection attempt end with ctx, also where a server took it and
// says nothing.
type dialer struct {
	ctx context.Context

	mu        sync.Mutex
	connected bool
	keep      []func() bool
	last      error // why the last attempt failed
}

// Dial implements nats.CustomDialer.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: connectWithin}).DialContext(d.ctx, network, address)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = err
	if err == nil && !d.connected {
		d.keep = append(d.keep, context.AfterFunc(d.ctx, func() { _ = conn.Close() }))
	}
	return conn, err
}

// done leaves the connection to who has it, and tells why the last attempt failed.
func (d *dialer) done() (last error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.connected = true
	for _, stop := range d.keep {
		stop()
	}
	return d.last
}

// connect reaches NATS, or gives up when ctx ends.
func (c *connection) connect(ctx context.Context) (*nats.Conn, error) {
	url, opts := c.Server, []nats.Option{nats.Name("leasesvc command"), nats.Timeout(connectWithin), nats.MaxReconnects(5)}
	if c.Creds != "" {
		opts = append(opts, nats.UserCredentials(c.Creds))
	}
	if c.Config != "" {
		cfg, err := config.Load(c.Config)
		if err != nil {
			return nil, err
		}
		if url, opts, err = service.ClientOptions(cfg); err != nil {
			return nil, err
		}
		c.Stream = cfg.NATS.Stream
		if names := cfg.ScopeNames(); c.Scope == "" && len(names) == 1 {
			c.Scope = names[0]
		}
	}
	c.Server = url
	d := &dialer{ctx: ctx}
	nc, err := nats.Connect(url, append(opts, nats.SetCustomDialer(d))...)
	if last := d.done(); last != nil && errors.Is(err, nats.ErrNoServers) {
		err = last // says more
	}
	if ctx.Err() != nil {
		if err == nil {
			nc.Close()
		}
		return nil, fmt.Errorf("connecting to NATS at %s: %w", redactURL(url), ctx.Err())
	}
	if err != nil {
		return nil, fmt.Errorf("connecting to NATS at %s: %w; name the server with --server or LEASESVC_SERVER", redactURL(url), err)
	}
	return nc, nil
}

// redactURL takes a password out of a server's URL.
func redactURL(url string) string {
	if i, j := strings.Index(url, "://"), strings.LastIndex(url, "@"); i >= 0 && j > i {
		return url[:i+3] + "..." + url[j:]
	}
	return url
}

// ask connects, finds the scope, and calls f.
func (c *connection) ask(ctx context.Context, f func(context.Context, *nats.Conn, *api.Client) error) error {
	nc, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer nc.Close()
	client := api.NewClient(nc)
	if err := c.findScope(ctx, client); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	ctx, refuse := context.WithCancel(ctx)
	defer refuse()
	nc.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrPermissionViolation) {
			refuse() // nobody will answer
		}
	})
	return c.whoLeads(ctx, client, notAllowed(nc, f(ctx, nc, client)))
}

// whoLeads says which scopes are led where it may be that which makes the error:
// nobody answered, and nobody leads the scope.
func (c *connection) whoLeads(ctx context.Context, client *api.Client, err error) error {
	var answered *api.Problem
	if err == nil || ctx.Err() != nil || errors.As(err, &answered) || errors.Is(err, consumer.ErrUnknownName) || errors.Is(err, errNobodyServes) {
		return err
	}
	led, _ := client.Scopes(ctx, discoverWithin)
	if len(led) == 0 || slices.Contains(led, c.Scope) {
		return err
	}
	says := fmt.Sprintf("nobody leads the scope %s here; those that are led are: %s", c.Scope, strings.Join(led, ", "))
	if errors.Is(err, api.ErrNobodyLeads) {
		return errors.New(says)
	}
	return fmt.Errorf("%w; %s", err, says)
}

// notAllowed tells an error that comes of what NATS does not allow this user.
func notAllowed(nc *nats.Conn, err error) error {
	if last := nc.LastError(); err != nil && errors.Is(last, nats.ErrPermissionViolation) {
		return fmt.Errorf("NATS does not allow it: %w; see: leasesvc permissions", last)
	}
	return err
}

// findScope takes the one scope that is led, where none was named.
func (c *connection) findScope(ctx context.Context, client *api.Client) error {
	if c.Scope != "" {
		return nil
	}
	scopes, err := client.Scopes(ctx, discoverWithin)
	switch {
	case err != nil:
		return err
	case len(scopes) == 0:
		return fmt.Errorf("nobody leads a scope at %s: is leasesvc running there?", redactURL(c.Server))
	case len(scopes) > 1:
		return fmt.Errorf("several scopes are led: %s; choose one with --scope", strings.Join(scopes, ", "))
	}
	c.Scope = scopes[0]
	return nil
}
