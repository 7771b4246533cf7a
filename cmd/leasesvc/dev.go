package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/consumer/pgxlease"
	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/internal/pgserver"
	"github.com/leasesvc/leasesvc/secret"
	"github.com/leasesvc/leasesvc/service"
	"github.com/leasesvc/leasesvc/service/config"
)

type devCmd struct {
	Dir      string        `placeholder:"PATH" help:"Keep the state here, to carry on at the next start; a temporary directory otherwise."`
	Postgres string        `env:"LEASESVC_DEV_POSTGRES" placeholder:"DSN" help:"Use this PostgreSQL (a superuser's DSN). Otherwise a private one is started where PostgreSQL is installed, and accounts are kept in memory where it is not."`
	Listen   string        `default:"127.0.0.1:4222" help:"Where NATS listens; a free port if that one is taken."`
	HTTP     string        `name:"http" default:"127.0.0.1:8250" help:"Where the page is served; a free port if that one is taken."`
	For      time.Duration `help:"End by itself after this time."`
}

const (
	devScope = "dev"
	devName  = "orders-db"
	// The demo's credentials live for seconds, so that there is something to see.
	devTTL, devMaxTTL = "6s", "12s"
)

// Run runs the demo until it is interrupted.
func (c devCmd) Run(ctx context.Context) error {
	if c.For > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.For)
		defer cancel()
	}
	d := &demo{out: &lines{w: os.Stdout}}
	defer d.close()
	if err := d.prepare(ctx, c); err != nil {
		return err
	}
	return d.run(ctx)
}

// demo is all that dev runs.
type demo struct {
	out     *lines
	dir     string
	cleanup []func()
	dsn     secret.String // of PostgreSQL's superuser; empty: accounts in memory
	vault   *devvault.Server
	memory  *devvault.Directory
	cfg     *config.Config
	nats    string
	spans   trace.TracerProvider // nil: nothing is traced
}

// lines writes whole lines from several goroutines.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lines) say(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.w, format+"\n", args...)
}

// Write implements io.Writer for what is logged, a line at a time.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func (d *demo) later(f func()) { d.cleanup = append(d.cleanup, f) }

func (d *demo) close() {
	for i := len(d.cleanup) - 1; i >= 0; i-- {
		d.cleanup[i]()
	}
}

func (d *demo) prepare(ctx context.Context, c devCmd) error {
	if d.dir = c.Dir; d.dir == "" {
		dir, err := os.MkdirTemp("", "leasesvc-dev-")
		if err != nil {
			return err
		}
		d.dir = dir
		d.later(func() { _ = os.RemoveAll(dir) })
	}
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return err
	}
	database := d.findDatabase(c.Postgres)
	if err := d.startVault(ctx); err != nil {
		return err
	}
	listen, err := freeListen(ctx, c.Listen)
	if err != nil {
		return err
	}
	d.nats = "nats://" + listen
	page, err := freeListen(ctx, c.HTTP)
	if err != nil {
		return err
	}
	if err := d.configure(listen, page); err != nil {
		return err
	}
	d.out.say("leasesvc %s, everything in one process:", programVersion())
	d.out.say("  NATS       %s (JetStream, every message on disk before it is acknowledged)", d.nats)
	d.out.say("  Vault      %s (devvault: leases of %s, at most %s)", d.vault.URL(), devTTL, devMaxTTL)
	d.out.say("  database   %s", database)
	d.out.say("  state      %s", d.dir)
	d.hint(listen != c.Listen)
	return nil
}

// hint tells which commands to try beside the running demo.
func (d *demo) hint(elsewhere bool) {
	server := ""
	if elsewhere {
		server = " --server " + d.nats
	}
	d.out.say("In a second terminal, try:")
	for _, command := range []string{
		"leasesvc status", "leasesvc leases", "leasesvc events --follow --lease " + devName,
		"leasesvc get " + devName + " username", "leasesvc rotate " + devName, "leasesvc revoke " + devName,
	} {
		d.out.say("  %s%s", command, server)
	}
	d.out.say("")
}

// findDatabase takes the PostgreSQL that is given, or starts one where it is
// installed; the result says which.
func (d *demo) findDatabase(given string) string {
	if given != "" {
		d.dsn = secret.New(given)
		return "the PostgreSQL that was given"
	}
	pg, err := pgserver.Open()
	if err != nil {
		return fmt.Sprintf("none, accounts are kept in memory (%s)", firstLine(err))
	}
	d.later(func() { _ = pg.Close() })
	d.dsn = secret.New(pg.DSN())
	return "a private PostgreSQL on " + pg.Addr()
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// startVault starts devvault and sets it up through its API, as an operator
// sets up a Vault.
func (d *demo) startVault(ctx context.Context) error {
	cfg := devvault.Config{}
	connection := map[string]any{"plugin_name": "postgresql-database-plugin", "allowed_roles": "*"}
	if d.dsn.IsZero() {
		d.memory = &devvault.Directory{}
		cfg.Accounts = d.memory
	} else {
		cfg.Accounts = devvault.NewPostgres(d.dsn)
	}
	var err error
	if d.vault, err = devvault.New(cfg); err != nil {
		return err
	}
	if err := d.vault.Start("127.0.0.1:0"); err != nil {
		return err
	}
	d.later(d.vault.Close)
	for _, step := range []struct {
		path string
		body map[string]any
	}{
		{"sys/mounts/database", map[string]any{"type": "database"}},
		{"auth/token/roles/leasesvc", map[string]any{"orphan": true, "renewable": true}},
		{"database/config/orders", connection},
		{"database/roles/orders", map[string]any{"db_name": "orders", "default_ttl": devTTL, "max_ttl": devMaxTTL}},
		{"secret/data/payment", map[string]any{"data": map[string]any{"api_key": "demo-key-of-no-worth", "endpoint": "https://pay.example"}}},
	} {
		if _, err := d.vault.Do(ctx, "POST", step.path, step.body); err != nil {
			return fmt.Errorf("setting up devvault: %w", err)
		}
	}
	return nil
}

// freeListen gives the address, or one with a free port where that is taken.
func freeListen(ctx context.Context, want string) (string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", want)
	if err != nil {
		host, _, serr := net.SplitHostPort(want)
		if serr != nil {
			return "", serr
		}
		if l, err = lc.Listen(ctx, "tcp", net.JoinHostPort(host, "0")); err != nil {
			return "", err
		}
	}
	addr := l.Addr().String()
	return addr, l.Close()
}

const devDefinitions = `revision: %d
leases:
  orders-db:
    path: database/creds/orders
    kind: postgresql
    consumers: [{name: orders-app}]
    prepare_timeout: 3s
    rollback_timeout: 2s
    good_for: 1s
    leave_after: 10s
%s
  payment-key:
    path: secret/data/payment
    kind: kv
    require: [api_key]
`

func (d *demo) configure(listen, page string) error {
	keyFile := filepath.Join(d.dir, "seal.key")
	if _, err := os.Stat(keyFile); errors.Is(err, os.ErrNotExist) {
		seed, err := handover.NewSeed()
		if err != nil {
			return err
		}
		if err := os.WriteFile(keyFile, []byte(seed.Reveal()+"\n"), 0o600); err != nil {
			return err
		}
	}
	verifier := ""
	if !d.dsn.IsZero() {
		host, err := hostOf(d.dsn)
		if err != nil {
			return err
		}
		verifier = fmt.Sprintf("    verifier: {kind: postgresql, dsn: \"postgres://{{username}}:{{password}}@%s\", timeout: 3s}", host)
	}
	// The definitions of the start before name a database that is gone.
	definitions, before := filepath.Join(d.dir, "definitions.yaml"), 0
	if old, err := os.ReadFile(definitions); err == nil {
		_, _ = fmt.Sscanf(string(old), devDefinitions, &before) // up to where it differs
	}
	if err := os.WriteFile(definitions, fmt.Appendf(nil, devDefinitions, before+1, verifier), 0o600); err != nil {
		return err
	}
	var err error
	d.cfg, err = config.Parse(filepath.Join(d.dir, "leasesvc.yaml"), fmt.Appendf(nil, `
nats: {embedded: {listen: %q, store: nats}}
state_dir: state
seal_key: {file: seal.key}
vaults:
  main: {address: %q, environment: false, token: %q, guard_role: leasesvc}
scopes:
  %s: {definitions: definitions.yaml}
http: {listen: %q}
insecure_consumers: true
`, listen, d.vault.URL(), d.vault.RootToken().Reveal(), devScope, page))
	return err
}

// withoutEvents leaves the events' lines out of the log: the demo says them itself.
type withoutEvents struct{ slog.Handler }

// Handle implements slog.Handler.
func (h withoutEvents) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "event" {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h withoutEvents) WithAttrs(attrs []slog.Attr) slog.Handler {
	return withoutEvents{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h withoutEvents) WithGroup(name string) slog.Handler {
	return withoutEvents{h.Handler.WithGroup(name)}
}

// run runs the service and the demo application.
func (d *demo) run(ctx context.Context) error {
	logger := slog.New(withoutEvents{slog.NewTextHandler(d.out, &slog.HandlerOptions{Level: slog.LevelWarn})})
	exporter, err := traced{called: "leasesvc-dev", log: logger, refuse: d.cfg.Refuse}.start(ctx, nil)
	if err != nil {
		return err
	}
	defer flush(ctx, d.cfg.ShutdownTimeout.Duration(), exporter)()
	if exporter != nil {
		d.out.say("traces are sent to %s", exporter.Endpoint())
	}
	d.spans = exporter.TracerProvider()
	svc, err := service.New(d.cfg, service.Options{
		Version: programVersion(), Logger: logger, TracerProvider: d.spans,
		OnEvent: func(e events.Event) { d.out.say("%s", eventLine(&e)) },
		OnHTTP:  func(url string) { d.out.say("the page to look at: %s", url) },
	})
	if err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	// The application leaves before the service it asks is gone.
	appEnded := make(chan struct{})
	serviceCtx, stopService := context.WithCancel(context.WithoutCancel(ctx))
	g.Go(func() error {
		defer stopService()
		<-appEnded
		return nil
	})
	g.Go(func() error { return svc.Run(serviceCtx) })
	g.Go(func() error {
		defer close(appEnded)
		err := d.application(gctx, svc.ServiceKey())
		if gctx.Err() != nil {
			return nil
		}
		return err
	})
	return g.Wait()
}

// application is the demo's: it works with the credential all the time, and
// takes part in each hand-over.
func (d *demo) application(ctx context.Context, serviceKey string) error {
	client, err := consumer.Connect(ctx, consumer.Options{
		URL: d.nats, NATS: natsRetry(), Scope: devScope, Consumer: "orders-app", Instance: "demo", ServiceKey: serviceKey, Insecure: true,
		TracerProvider: d.spans,
	})
	if err != nil {
		return err
	}
	defer client.Close()
	if d.memory != nil {
		return client.Serve(ctx, devName, &memoryApp{demo: d})
	}
	host, err := hostOf(d.dsn)
	if err != nil {
		return err
	}
	pool, err := pgxlease.New(ctx, client, devName, pgxlease.Config{DSN: "postgres://" + host})
	if err != nil {
		return err
	}
	defer pool.Close()
	return d.query(ctx, pool)
}

// query queries ten times a second and tells when the user changes.
func (d *demo) query(ctx context.Context, pool *pgxlease.Pool) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	user, done, failed := "", 0, 0
	for {
		var now string
		err := pool.QueryRow(ctx, "SELECT current_user").Scan(&now)
		switch {
		case ctx.Err() != nil:
			d.out.say("the application made %d queries, %d failed", done, failed)
			return nil
		case err != nil:
			failed++
			d.out.say("%s  the application's query FAILED: %v", time.Now().Format("15:04:05.000"), err)
		default:
			done++
		}
		if now != user && err == nil {
			user = now
			d.out.say("%s  the application queries as %s (%d queries so far, %d failed)", time.Now().Format("15:04:05.000"), user, done, failed)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// memoryApp is the demo's application where there is no database: it logs in to
// devvault's account directory.
type memoryApp struct{ demo *demo }

func (a *memoryApp) login(c consumer.Credential) error {
	user, _ := c.Get("username")
	password, _ := c.Get("password")
	return a.demo.memory.Login(user.Reveal(), password.Reveal())
}

// Prepare implements consumer.Handler.
func (a *memoryApp) Prepare(_ context.Context, c consumer.Credential) error { return a.login(c) }

// Commit implements consumer.Handler.
func (a *memoryApp) Commit(_ context.Context, c consumer.Credential) error {
	if err := a.login(c); err != nil {
		return err
	}
	a.demo.out.say("%s  the application works as %s", time.Now().Format("15:04:05.000"), c.Public)
	return nil
}

// Revert implements consumer.Handler.
func (a *memoryApp) Revert(_ context.Context, c consumer.Credential) error {
	if c.None() {
		return nil
	}
	return a.login(c)
}
