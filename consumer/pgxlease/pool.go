package pgxlease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/consumer/sessions"
)

// Config says how pools are opened. One of DSN and Pool is needed.
type Config struct {
	// DSN is a connection string without user and password, such as
	// "host=db.internal dbname=orders sslmode=verify-full pool_max_conns=10".
	DSN string
	// Pool is a configuration from pgxpool.ParseConfig; its user and password
	// are replaced. It takes precedence over DSN.
	Pool *pgxpool.Config
	// UsernameKey and PasswordKey name the credential's keys, "username" and
	// "password" by default.
	UsernameKey, PasswordKey string
	// ProveTimeout bounds the proof of a candidate, retries of refused logins
	// included. 5 s by default; the hand-over's own deadline holds too.
	ProveTimeout time.Duration
	// Logger gets what happens, never a value; nil: nothing.
	Logger *slog.Logger
}

// What a call on a [Pool] can meet, beside pgx's own errors.
var (
	// ErrNone: until the context ended there was no credential.
	ErrNone = sessions.ErrNone
	// ErrClosed: the pool is closed.
	ErrClosed = sessions.ErrClosed
)

// Pool runs work on the pool of the lease that is current.
type Pool struct {
	cfg  Config
	base *pgxpool.Config
	set  *sessions.Set[*leased]
}

// New takes part in the hand-overs of name and returns when the first
// credential is proven and current, or when ctx ends: then the error says what
// was waited for. ctx bounds only this; [Pool.Close] ends the rest.
func New(ctx context.Context, client *consumer.Client, name string, cfg Config) (*Pool, error) {
	p, err := newPool(cfg)
	if err != nil {
		return nil, fmt.Errorf("pgxlease for %s: %w", name, err)
	}
	p.set, err = sessions.Start(ctx, client, name, sessions.Driver[*leased]{
		Open: p.open, Prove: p.prove, Close: func(l *leased) { l.pool.Close() }, Refused: refusedLogin,
	}, cfg.Logger)
	if err != nil {
		return nil, fmt.Errorf("pgxlease for %s: %w", name, err)
	}
	return p, nil
}

func newPool(cfg Config) (*Pool, error) {
	if cfg.UsernameKey == "" {
		cfg.UsernameKey = "username"
	}
	if cfg.PasswordKey == "" {
		cfg.PasswordKey = "password"
	}
	if cfg.ProveTimeout <= 0 {
		cfg.ProveTimeout = 5 * time.Second
	}
	p := &Pool{cfg: cfg, base: cfg.Pool}
	if p.base == nil {
		var err error
		if p.base, err = pgxpool.ParseConfig(cfg.DSN); err != nil {
			// Not wrapped: pgx quotes the string, which may hold a password.
			return nil, errors.New("the DSN is no connection string that pgxpool.ParseConfig accepts")
		}
	}
	return p, nil
}

// Done is closed when rotations are not followed any more: after Close, or
// because another process took the instance's place ([Pool.Err] says so).
func (p *Pool) Done() <-chan struct{} { return p.set.Done() }

// Err says why rotations are not followed any more; nil before Done, and after
// an ordinary Close.
func (p *Pool) Err() error { return p.set.Err() }

// Lease tells which lease is current, 0 for none.
func (p *Pool) Lease() uint64 { return p.set.Lease() }

// Close turns new work away, deregisters as soon as what is in flight has
// finished (at the latest after the client's LeaveTimeout), and, like pgxpool's
// Close, waits for every connection that is out.
func (p *Pool) Close() { p.set.Close() }
