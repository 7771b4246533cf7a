package amqplease

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/consumer/sessions"
)

const (
	dialWithin  = 30 * time.Second
	closeWithin = 5 * time.Second
)

// leased is one lease's connection.
type leased struct {
	dial    func(context.Context) (*amqp.Connection, error)
	setup   func(context.Context, *amqp.Channel) error
	refused func(error)

	// conn has the connection, or nil before the first; who takes it out may
	// make it anew.
	conn chan *amqp.Connection
	// publishers are channels at rest, in confirm mode; slots are taken by those
	// at work.
	publishers chan *publisher
	slots      chan struct{}
}

// open opens a connection with the credential and proves it.
func (c *Conn) open(ctx context.Context, cred consumer.Credential, refused func(error)) (*leased, error) {
	user, okUser := cred.Get(c.cfg.UsernameKey)
	password, okPassword := cred.Get(c.cfg.PasswordKey)
	if !okUser || !okPassword {
		return nil, fmt.Errorf("%s has no %s or no %s", cred, c.cfg.UsernameKey, c.cfg.PasswordKey)
	}
	cfg := c.cfg.AMQP
	cfg.SASL = []amqp.Authentication{&amqp.PlainAuth{Username: user.Reveal(), Password: password.Reveal()}}
	cfg.Recovery = nil
	l := &leased{
		dial:  func(ctx context.Context) (*amqp.Connection, error) { return dial(ctx, c.cfg.URL, cfg) },
		setup: c.cfg.Setup, refused: refused, conn: make(chan *amqp.Connection, 1),
		publishers: make(chan *publisher, c.cfg.Channels), slots: make(chan struct{}, c.cfg.Channels),
	}
	l.conn <- nil
	if err := sessions.Prove(ctx, c.cfg.ProveTimeout, refusedLogin, l.connect); err != nil {
		return nil, fmt.Errorf("proving a login with %s: %w", cred, err)
	}
	return l, nil
}

// prove proves a connection that was kept by another one.
func (c *Conn) prove(ctx context.Context, l *leased) error {
	return sessions.Prove(ctx, c.cfg.ProveTimeout, refusedLogin, func(ctx context.Context) error {
		conn, err := l.made(ctx)
		if err == nil {
			_ = conn.CloseDeadline(time.Now().Add(closeWithin))
		}
		return err
	})
}

// refusedLogin tells a refused login, or a permission that is missing, from a
// broker that is not there.
func refusedLogin(err error) bool {
	var said *amqp.Error
	return errors.As(err, &said) && said.Code == amqp.AccessRefused
}

// dial opens a connection; amqp091 knows no context, so its socket ends with ours.
func dial(ctx context.Context, url string, cfg amqp.Config) (*amqp.Connection, error) {
	ctx, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	stop := func() bool { return true }
	cfg.Dial = func(network, addr string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		stop = context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
		return conn, nil
	}
	conn, err := amqp.DialConfig(url, cfg)
	if !stop() && err == nil {
		_ = conn.CloseDeadline(time.Now()) // its deadline has passed
		err = ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("connecting to the broker: %w", errors.Join(err, ctx.Err()))
	}
	return conn, nil
}

// made makes a connection: a login, a channel, the set-up.
func (l *leased) made(ctx context.Context) (*amqp.Connection, error) {
	conn, err := l.dial(ctx)
	if err != nil {
		return nil, err
	}
	ch, err := conn.Channel()
	if err == nil && l.setup != nil {
		if err = l.setup(ctx, ch); err != nil {
			err = fmt.Errorf("setting up: %w", err)
		}
	}
	if err == nil {
		err = ch.Close()
	}
	if err != nil {
		_ = conn.CloseDeadline(time.Now().Add(closeWithin))
		return nil, err
	}
	return conn, nil
}

// connect makes the connection, unless there is one that works.
func (l *leased) connect(ctx context.Context) error {
	_, err := l.connection(ctx)
	return err
}

// connection gives the connection, made anew if it has ended.
func (l *leased) connection(ctx context.Context) (*amqp.Connection, error) {
	var conn *amqp.Connection
	select {
	case conn = <-l.conn:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	var err error
	if conn == nil || conn.IsClosed() {
		if conn, err = l.made(ctx); refusedLogin(err) {
			l.refused(err)
		}
	}
	l.conn <- conn
	return conn, err
}

// channel opens a channel.
func (l *leased) channel(ctx context.Context) (*amqp.Channel, error) {
	conn, err := l.connection(ctx)
	if err != nil {
		return nil, err
	}
	ch, err := conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("opening a channel: %w", err)
	}
	return ch, nil
}

// close closes the connection; nobody works on it any more.
func (l *leased) close() {
	if conn := <-l.conn; conn != nil {
		_ = conn.CloseDeadline(time.Now().Add(closeWithin))
	}
}
