package amqplease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/consumer/sessions"
)

// Config says how connections are opened and proven.
type Config struct {
	// URL is the broker's, without user and password:
	// "amqps://mq.internal:5671/orders"; "/%2F" or nothing is the virtual host /.
	URL string
	// AMQP has further settings: TLS, heartbeat, properties. SASL, Dial and
	// Recovery are replaced.
	AMQP amqp.Config
	// Setup declares what the application needs, on each new connection before
	// anything else is done there. An error of it is a candidate's "no". Nil:
	// nothing is declared.
	Setup func(ctx context.Context, ch *amqp.Channel) error
	// UsernameKey and PasswordKey name the credential's keys, "username" and
	// "password" by default.
	UsernameKey, PasswordKey string
	// ProveTimeout bounds the proof of a candidate, retries of refused logins
	// included. 5 s by default; the hand-over's own deadline holds too.
	ProveTimeout time.Duration
	// Channels bounds the messages that wait for their confirm at a time, each
	// on a channel of its own. 16 by default.
	Channels int
	// Logger gets what happens, never a value; nil: nothing.
	Logger *slog.Logger
}

// What a call on a [Conn] can meet, beside amqp091's own errors.
var (
	// ErrNone: until the context ended there was no credential.
	ErrNone = sessions.ErrNone
	// ErrClosed: the Conn is closed.
	ErrClosed = sessions.ErrClosed
	// ErrNacked: the broker has refused the message; it is in no queue.
	ErrNacked = errors.New("the broker has not taken the message")
	// ErrReturned: a mandatory message reached no queue.
	ErrReturned = errors.New("the message reaches no queue")
	// ErrUnconfirmed: the connection ended, or the context, before the broker's
	// word; the message may be in its queue or not.
	ErrUnconfirmed = errors.New("the broker's confirm did not come")
)

// Conn works on the connection of the lease that is current.
type Conn struct {
	cfg Config
	log *slog.Logger
	set *sessions.Set[*leased]
}

// New takes part in the hand-overs of name and returns when the first
// credential is proven and current, or when ctx ends: then the error says what
// was waited for. ctx bounds only this; [Conn.Close] ends the rest.
func New(ctx context.Context, client *consumer.Client, name string, cfg Config) (*Conn, error) {
	if _, err := amqp.ParseURI(cfg.URL); err != nil {
		// Not wrapped: the parser's text may hold a password.
		return nil, fmt.Errorf("amqplease for %s: the URL is none that amqp091 accepts", name)
	}
	if cfg.UsernameKey == "" {
		cfg.UsernameKey = "username"
	}
	if cfg.PasswordKey == "" {
		cfg.PasswordKey = "password"
	}
	if cfg.ProveTimeout <= 0 {
		cfg.ProveTimeout = 5 * time.Second
	}
	if cfg.Channels <= 0 {
		cfg.Channels = 16
	}
	c := &Conn{cfg: cfg, log: cfg.Logger}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	var err error
	c.set, err = sessions.Start(ctx, client, name, sessions.Driver[*leased]{
		Open: c.open, Prove: c.prove, Close: (*leased).close, Refused: refusedLogin,
	}, cfg.Logger)
	if err != nil {
		return nil, fmt.Errorf("amqplease for %s: %w", name, err)
	}
	return c, nil
}

// Done is closed when rotations are not followed any more: after Close, or
// because another process took the instance's place ([Conn.Err] says so).
func (c *Conn) Done() <-chan struct{} { return c.set.Done() }

// Err says why rotations are not followed any more; nil before Done, and after
// an ordinary Close.
func (c *Conn) Err() error { return c.set.Err() }

// Lease tells which lease is current, 0 for none.
func (c *Conn) Lease() uint64 { return c.set.Lease() }

// Close cancels the consumers, turns new messages away, deregisters as soon as
// what is in flight has finished (at the latest after the client's
// LeaveTimeout), and waits for it.
func (c *Conn) Close() { c.set.Close() }

// With lends fn a channel of its own, which is closed when fn returns.
func (c *Conn) With(ctx context.Context, fn func(ctx context.Context, ch *amqp.Channel) error) error {
	held, err := c.set.Enter(ctx)
	if err != nil {
		return err
	}
	defer held.Leave()
	ch, err := held.Sessions.channel(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = ch.Close() }()
	return fn(ctx, ch)
}
