package devvault

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/leasesvc/leasesvc/secret"
)

// redisRules are an account's without creation statements.
var redisRules = []string{"~*", "+@read"}

// Redis is an [Accounts] that makes ACL users in a Redis server, for the
// plugins redis-database-plugin and valkey-database-plugin. It connects for
// each operation and keeps nothing open. The zero value serves what a database
// configuration names, and nothing before.
//
// The creation statements of a role are one JSON list of ACL rules, or the
// rules themselves. A dropped user's connections are closed by the server.
type Redis struct {
	addr     string
	username string
	password secret.String
	tls      *tls.Config
	// save is the command that makes accounts outlive a restart, if any.
	save []string
}

// NewRedis makes one whose own server is at rawURL (redis:// or rediss://,
// with an administrator's user name and password). A configuration replaces it.
func NewRedis(rawURL secret.String) (*Redis, error) {
	u, err := url.Parse(rawURL.Reveal())
	if err != nil || u.Hostname() == "" || u.Scheme != "redis" && u.Scheme != "rediss" && u.Scheme != "valkey" && u.Scheme != "valkeys" {
		// The parser's text repeats the URL, and the URL holds a password.
		return nil, errors.New("the Redis URL cannot be used: it must be redis://user:password@host:port or rediss://")
	}
	r := &Redis{addr: u.Host, username: u.User.Username()}
	if u.Port() == "" {
		r.addr = net.JoinHostPort(u.Hostname(), "6379")
	}
	if p, ok := u.User.Password(); ok {
		r.password = secret.New(p)
	}
	if strings.HasSuffix(u.Scheme, "s") && u.Scheme != "redis" {
		r.tls = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: u.Hostname()}
	}
	return r, nil
}

// Connect implements Connector. Fields are those of the plugin: host, port,
// username, password, tls, ca_cert, insecure_tls, persistence_mode; or
// connection_url.
func (r *Redis) Connect(ctx context.Context, c Connection, verify bool) (Accounts, error) {
	to, err := redisFrom(c)
	if err != nil {
		return nil, err
	}
	if !verify {
		return to, nil
	}
	if err := to.with(ctx, func(*redisConn) error { return nil }); err != nil {
		return nil, fmt.Errorf("error verifying connection: %w", err)
	}
	return to, nil
}

func redisFrom(c Connection) (*Redis, error) {
	f := (&request{data: c.Details}).fields()
	host, port, ca := f.text("host"), f.text("port"), f.text("ca_cert")
	useTLS, insecure := f.boolean("tls", false), f.boolean("insecure_tls", false)
	mode := f.text("persistence_mode")
	if f.err != nil {
		return nil, f.err
	}
	var r *Redis
	if c.URL != "" {
		var err error
		if r, err = NewRedis(secret.New(c.URL)); err != nil {
			return nil, err
		}
		useTLS = useTLS || r.tls != nil
		host, _, _ = net.SplitHostPort(r.addr)
	} else {
		switch {
		case host == "":
			return nil, errors.New("host cannot be empty")
		case port == "" || port == "0":
			return nil, errors.New("port cannot be empty")
		case c.Username == "":
			return nil, errors.New("username cannot be empty")
		case c.Password.IsZero():
			return nil, errors.New("password cannot be empty")
		}
		r = &Redis{addr: net.JoinHostPort(host, port), username: c.Username, password: c.Password}
	}
	if useTLS {
		if ca == "" {
			return nil, errors.New("ca_cert cannot be empty")
		}
		r.tls = &tls.Config{
			MinVersion: tls.VersionTLS12, ServerName: host, RootCAs: x509.NewCertPool(),
			InsecureSkipVerify: insecure,
		}
		if !r.tls.RootCAs.AppendCertsFromPEM([]byte(ca)) {
			return nil, errors.New("failed to parse root certificate")
		}
	}
	switch mode {
	case "", "NONE":
	case "ACLFILE":
		r.save = []string{"ACL", "SAVE"}
	case "REWRITE":
		r.save = []string{"CONFIG", "REWRITE"}
	default:
		return nil, fmt.Errorf("unknown persistence_mode %q: use ACLFILE, REWRITE or NONE", mode)
	}
	return r, nil
}

// with runs do on a connection of its own, logged in.
func (r *Redis) with(ctx context.Context, do func(*redisConn) error) error {
	if r.addr == "" {
		return errors.New("no Redis server: write the database's configuration first")
	}
	conn, err := dialRedis(ctx, r.addr, r.tls)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if !r.password.IsZero() {
		if _, err := conn.do("AUTH", r.username, r.password.Reveal()); err != nil {
			return err
		}
	}
	return do(conn)
}

// change runs one command and, where it is configured, saves what it did.
func (r *Redis) change(ctx context.Context, args ...string) error {
	return r.with(ctx, func(conn *redisConn) error {
		if _, err := conn.do(args...); err != nil {
			return err
		}
		if r.save == nil {
			return nil
		}
		if _, err := conn.do(r.save...); err != nil {
			return fmt.Errorf("saving the accounts: %w", err)
		}
		return nil
	})
}

// UserName implements UserNamer: capitals, and no dashes.
func (*Redis) UserName(usual string) string {
	return strings.ToUpper(strings.ReplaceAll(usual, "-", "_"))
}

// Create implements Accounts. An account has no end of its own.
func (r *Redis) Create(ctx context.Context, a Account) error {
	var rules []string
	for _, s := range a.Statements {
		if s = strings.TrimSpace(s); s != "" {
			rules = append(rules, s)
		}
	}
	if len(rules) == 0 {
		rules = redisRules
	}
	var listed []string
	if json.Unmarshal([]byte(rules[0]), &listed) == nil {
		rules = listed
	}
	return r.change(ctx, append([]string{"ACL", "SETUSER", a.User, "ON", ">" + a.Password.Reveal()}, rules...)...)
}

// Drop implements Accounts.
func (r *Redis) Drop(ctx context.Context, user string, _ []string) error {
	return r.change(ctx, "ACL", "DELUSER", user)
}

// SetPassword implements PasswordSetter.
func (r *Redis) SetPassword(ctx context.Context, user string, password secret.String, _ []string) error {
	err := r.with(ctx, func(conn *redisConn) error {
		found, err := conn.do("ACL", "GETUSER", user)
		if err == nil && found == nil {
			err = fmt.Errorf("changing %q: %w", user, ErrNoAccount)
		}
		return err
	})
	if err != nil {
		return err
	}
	return r.change(ctx, "ACL", "SETUSER", user, "RESETPASS", ">"+password.Reveal())
}

// List implements Accounts: the users that look like ours, sorted.
func (r *Redis) List(ctx context.Context) ([]string, error) {
	var names []string
	err := r.with(ctx, func(conn *redisConn) error {
		users, err := conn.do("ACL", "USERS")
		if err != nil {
			return err
		}
		items, _ := users.([]any)
		for _, u := range items {
			if name, ok := u.(string); ok && strings.HasPrefix(name, "V_") {
				names = append(names, name)
			}
		}
		return nil
	})
	slices.Sort(names)
	return names, err
}

var (
	_ Accounts       = (*Redis)(nil)
	_ PasswordSetter = (*Redis)(nil)
	_ Connector      = (*Redis)(nil)
	_ UserNamer      = (*Redis)(nil)
)
