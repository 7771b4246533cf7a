package verify

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const redisExample = "redis://{{username}}:{{password}}@HOST:PORT/NUMBER, or rediss"

var redisAddresses = map[string]address{
	"redis":  {schemes: []string{"redis"}, port: "6379", example: redisExample},
	"rediss": {schemes: []string{"rediss"}, port: "6379", settings: []string{"ca", "server_name"}, example: redisExample},
}

func redisAddress(dsn string) address {
	scheme, _, _ := strings.Cut(dsn, "://")
	if a, ok := redisAddresses[scheme]; ok {
		return a
	}
	return redisAddresses["redis"]
}

func checkRedis(spec Spec) error {
	if err := redisAddress(spec.DSN).check(spec.DSN); err != nil {
		return err
	}
	_, err := redisOptions(spec, standIns(spec.DSN))
	return err
}

func redisOptions(spec Spec, values map[string]any) (*redis.Options, error) {
	a := redisAddress(spec.DSN)
	u, err := a.parse(spec.DSN, values)
	if err != nil {
		return nil, err
	}
	o := &redis.Options{
		Addr: a.hostPort(u), ContextTimeoutEnabled: true, MaxRetries: -1, PoolSize: 1, DialerRetries: 1,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	o.Username, o.Password = account(u)
	if u.Scheme == "rediss" {
		if o.TLSConfig, err = tlsOf(u); err != nil {
			return nil, err
		}
	}
	if n := strings.TrimPrefix(u.Path, "/"); n != "" {
		if o.DB, err = strconv.Atoi(n); err != nil || o.DB < 0 {
			return nil, errors.New("the verifier's DSN names a database that is no number: write " + redisExample)
		}
	}
	return o, nil
}

func prepareRedis(spec Spec, values map[string]any) (attempt, error) {
	o, err := redisOptions(spec, values)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) *Error {
		// Dialled here: the client writes what fails to a log of its own.
		conn, failed := dial(ctx, o.Addr, o.TLSConfig)
		if failed != nil {
			return failed
		}
		defer func() { _ = conn.Close() }()
		options := *o // a client fills its own in
		options.Dialer = func(context.Context, string, string) (net.Conn, error) { return conn, nil }
		client := redis.NewClient(&options)
		defer func() { _ = client.Close() }()
		return loginRedis(ctx, client, o.Username)
	}, nil
}

// loginRedis logs in and asks as whom. An account that may not ask is told so
// after its login, which is all we wanted to know.
func loginRedis(ctx context.Context, client *redis.Client, user string) *Error {
	is, err := client.Do(ctx, "ACL", "WHOAMI").Text()
	var said redis.Error
	switch {
	case err == nil && is != user:
		return &Error{Failure: WrongUser}
	case err == nil:
		return nil
	case !errors.As(err, &said):
		return unreachable(err)
	}
	word, _, _ := strings.Cut(said.Error(), " ")
	switch word {
	case "NOPERM":
		return nil
	case "WRONGPASS", "NOAUTH":
		return &Error{Failure: AuthRefused, Reason: word}
	case "LOADING", "MASTERDOWN", "CLUSTERDOWN":
		return &Error{Failure: Unreachable, Reason: word}
	default:
		return &Error{Failure: Refused, Reason: word}
	}
}
