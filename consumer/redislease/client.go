package redislease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/consumer/sessions"
)

// Config says how connections are opened and proven.
type Config struct {
	// Options are those of go-redis; the user name and password, and whatever
	// else provides them, are replaced. Addr is needed.
	Options *redis.Options
	// UsernameKey and PasswordKey name the credential's keys, "username" and
	// "password" by default.
	UsernameKey, PasswordKey string
	// ProveTimeout bounds the proof of a candidate, retries of refused logins
	// included. 5 s by default; the hand-over's own deadline holds too.
	ProveTimeout time.Duration
	// Logger gets what happens, never a value; nil: nothing.
	Logger *slog.Logger
}

// What a call on a [Client] can meet, beside go-redis's own errors.
var (
	// ErrNone: until the context ended there was no credential.
	ErrNone = sessions.ErrNone
	// ErrClosed: the client is closed.
	ErrClosed = sessions.ErrClosed
)

// Client runs commands on the connections of the lease that is current.
type Client struct {
	// Cmdable has the commands.
	redis.Cmdable
	cfg Config
	// front has go-redis's commands and no connection: each is routed to the
	// client of the lease that is current.
	front *redis.Client
	set   *sessions.Set[*leased]
	subs  subscriptions
}

// New takes part in the hand-overs of name and returns when the first
// credential is proven and current, or when ctx ends: then the error says what
// was waited for. ctx bounds only this; [Client.Close] ends the rest.
func New(ctx context.Context, client *consumer.Client, name string, cfg Config) (*Client, error) {
	if cfg.Options == nil || cfg.Options.Addr == "" {
		return nil, fmt.Errorf("redislease for %s: Options name no Addr", name)
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
	c := &Client{cfg: cfg}
	front := c.options("", "")
	front.MinIdleConns = 0
	c.front = redis.NewClient(front)
	c.front.AddHook(route{c})
	c.Cmdable = c.front
	var err error
	c.set, err = sessions.Start(ctx, client, name, sessions.Driver[*leased]{
		Open: c.open, Prove: c.prove, Close: func(l *leased) { _ = l.client.Close() }, Refused: refusedLogin,
	}, cfg.Logger)
	if err != nil {
		_ = c.front.Close()
		return nil, fmt.Errorf("redislease for %s: %w", name, err)
	}
	return c, nil
}

// options gives go-redis's options for an account.
func (c *Client) options(user, password string) *redis.Options {
	o := *c.cfg.Options
	o.Username, o.Password = user, password
	o.CredentialsProvider, o.CredentialsProviderContext, o.StreamingCredentialsProvider = nil, nil, nil
	if o.MaintNotificationsConfig == nil {
		o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	}
	return &o
}

// leased is one lease's client.
type leased struct {
	user    string
	client  *redis.Client
	refused func(error)
}

// open opens a client with the credential and proves it by a login whose user is
// the credential's.
func (c *Client) open(ctx context.Context, cred consumer.Credential, refused func(error)) (*leased, error) {
	user, okUser := cred.Get(c.cfg.UsernameKey)
	password, okPassword := cred.Get(c.cfg.PasswordKey)
	if !okUser || !okPassword {
		return nil, fmt.Errorf("%s has no %s or no %s", cred, c.cfg.UsernameKey, c.cfg.PasswordKey)
	}
	l := &leased{user: user.Reveal(), client: redis.NewClient(c.options(user.Reveal(), password.Reveal())), refused: refused}
	err := sessions.Prove(ctx, c.cfg.ProveTimeout, refusedLogin, func(ctx context.Context) error { return itsMe(ctx, l.client, l.user) })
	if err != nil {
		_ = l.client.Close()
		return nil, fmt.Errorf("proving a login with %s: %w", cred, err)
	}
	if err := c.subs.prove(ctx, l.client); err != nil {
		_ = l.client.Close()
		return nil, fmt.Errorf("proving %s: %w", cred, err)
	}
	return l, nil
}

// prove proves a client that was kept, on a connection of its own, since the
// client's prove nothing any more.
func (c *Client) prove(ctx context.Context, l *leased) error {
	return sessions.Prove(ctx, c.cfg.ProveTimeout, refusedLogin, func(ctx context.Context) error {
		once := redis.NewClient(l.client.Options())
		defer func() { _ = once.Close() }()
		return itsMe(ctx, once, l.user)
	})
}

// itsMe asks the server as whom we are logged in. An account that may not ask is
// told so after its login, which is all we wanted to know.
func itsMe(ctx context.Context, client *redis.Client, user string) error {
	is, err := client.Do(ctx, "ACL", "WHOAMI").Text()
	switch {
	case hasCode(err, "NOPERM"):
		return nil
	case err != nil:
		return err
	case is != user:
		return errors.New("the server takes the connection for another user")
	}
	return nil
}

// refusedLogin tells a refused login from a server that is not there.
func refusedLogin(err error) bool { return hasCode(err, "WRONGPASS") || hasCode(err, "NOAUTH") }

// hasCode tells whether the server answered with an error of a code.
func hasCode(err error, code string) bool {
	var said redis.Error
	return errors.As(err, &said) && strings.HasPrefix(said.Error(), code+" ")
}

// Do runs any command, as redis.Client's does.
func (c *Client) Do(ctx context.Context, args ...any) *redis.Cmd { return c.front.Do(ctx, args...) }

// Process runs a command that was made already.
func (c *Client) Process(ctx context.Context, cmd redis.Cmder) error {
	return c.front.Process(ctx, cmd)
}

// Watch is redis.Client's: an optimistic transaction, as a whole on one lease.
func (c *Client) Watch(ctx context.Context, fn func(*redis.Tx) error, keys ...string) error {
	return c.With(ctx, func(client *redis.Client) error { return client.Watch(ctx, fn, keys...) })
}

// With gives fn the client of the lease that is current, for what has no method
// here. The client is good until fn returns, and held open until then.
func (c *Client) With(ctx context.Context, fn func(*redis.Client) error) error {
	held, err := c.set.Enter(ctx)
	if err != nil {
		return err
	}
	defer held.Leave()
	err = fn(held.Sessions.client)
	if refusedLogin(err) {
		held.Sessions.refused(err)
	}
	return err
}

// Done is closed when rotations are not followed any more: after Close, or
// because another process took the instance's place ([Client.Err] says so).
func (c *Client) Done() <-chan struct{} { return c.set.Done() }

// Err says why rotations are not followed any more; nil before Done, and after
// an ordinary Close.
func (c *Client) Err() error { return c.set.Err() }

// Lease tells which lease is current, 0 for none.
func (c *Client) Lease() uint64 { return c.set.Lease() }

// Close ends the subscriptions, turns new commands away, deregisters as soon as
// what is in flight has its answer (at the latest after the client's
// LeaveTimeout), and waits for it.
func (c *Client) Close() {
	c.subs.end()
	c.set.Close()
	_ = c.front.Close()
}
