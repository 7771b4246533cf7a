package verify

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

var rabbitAddresses = map[string]address{
	"amqp": {schemes: []string{"amqp"}, port: "5672", example: rabbitExample},
	"amqps": {
		schemes: []string{"amqps"}, port: "5671", settings: []string{"ca", "server_name"}, example: rabbitExample,
	},
}

const rabbitExample = "amqp://{{username}}:{{password}}@HOST:PORT/VHOST or amqps://..., %2F for the virtual host /"

func rabbitAddress(dsn string) address {
	scheme, _, _ := strings.Cut(dsn, "://")
	if a, ok := rabbitAddresses[scheme]; ok {
		return a
	}
	return rabbitAddresses["amqp"]
}

func checkRabbitMQ(spec Spec) error {
	if err := rabbitAddress(spec.DSN).check(spec.DSN); err != nil {
		return err
	}
	_, err := prepareRabbitMQ(spec, standIns(spec.DSN))
	return err
}

func prepareRabbitMQ(spec Spec, values map[string]any) (attempt, error) {
	a := rabbitAddress(spec.DSN)
	u, err := a.parse(spec.DSN, values)
	if err != nil {
		return nil, err
	}
	var secure *tls.Config
	if u.Scheme == "amqps" {
		if secure, err = tlsOf(u); err != nil {
			return nil, err
		}
	}
	user, password := account(u)
	cfg := amqp.Config{
		SASL: []amqp.Authentication{&amqp.PlainAuth{Username: user, Password: password}}, Vhost: strings.TrimPrefix(u.Path, "/"),
		Properties: amqp.Table{"connection_name": applicationName}, Locale: "en_US", Heartbeat: 10 * time.Second,
	}
	if cfg.Vhost == "" {
		cfg.Vhost = "/"
	}
	addr := a.hostPort(u)
	return func(ctx context.Context) *Error { return loginRabbitMQ(ctx, addr, secure, cfg) }, nil
}

// loginRabbitMQ opens a connection, its virtual host and a channel. The broker
// has no question whose it is: it has checked the name and password we sent.
func loginRabbitMQ(ctx context.Context, addr string, secure *tls.Config, cfg amqp.Config) *Error {
	conn, failed := dial(ctx, addr, secure)
	if failed != nil {
		return failed
	}
	// The client knows no context: its socket ends with ours.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	defer func() { _ = conn.Close() }()
	session, err := amqp.Open(conn, cfg)
	if err == nil {
		_, err = session.Channel()
		_ = session.CloseDeadline(time.Now().Add(time.Second))
	}
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return unreachable(ctx.Err())
	}
	return rabbitFailure(err)
}

// rabbitFailure sorts what a broker said: 403 before the tuning is about who
// asks, and so is no access to the virtual host of an account that has none.
func rabbitFailure(err error) *Error {
	var said *amqp.Error
	switch {
	case errors.Is(err, amqp.ErrCredentials), errors.Is(err, amqp.ErrSASL):
		return &Error{Failure: AuthRefused, Reason: "reply 403"}
	case errors.As(err, &said) && said.Code == amqp.AccessRefused:
		return &Error{Failure: AuthRefused, Reason: "reply 403"}
	case errors.As(err, &said) && said.Code == amqp.ConnectionForced:
		return &Error{Failure: Unreachable, Reason: "reply 320"}
	case errors.As(err, &said):
		return &Error{Failure: Refused, Reason: "reply " + itoa(said.Code)}
	default:
		return unreachable(err)
	}
}
