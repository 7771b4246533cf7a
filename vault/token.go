package vault

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/leasesvc/leasesvc/secret"
)

// maxTokenFile bounds what is read of a token file.
const maxTokenFile = 64 << 10

// token is what we know of our own token.
type token struct {
	value     secret.String
	source    string
	creation  Duration // the TTL it is made with, asked for again at each renewal
	ttl       Duration // the last one that was told, as of since
	since     time.Time
	renewable bool
	expires   time.Time // zero: never
	renewAt   time.Time // zero: never
	loggedIn  time.Time // when it was put in force
	logins    int64     // how many there were, this one included
	batch     bool      // it can't make guards
	ending    bool      // a renewal was cut short: it nears its max TTL

	refusedSince time.Time // E12: the first refusal wins
	lastError    error
}

// TokenStatus is what may be shown of our own token.
type TokenStatus struct {
	LoggedIn bool
	// Given: the token was given to us, not made by a login of ours, so it may be
	// the one of before a restart.
	Given bool
	// Source names where it came from: "configuration", "file PATH",
	// "BAO_TOKEN", "VAULT_TOKEN", "~/.vault-token", or the auth method and its
	// mount, such as "AppRole at auth/approle".
	Source    string
	TTL       Duration // what was left when the server last said so
	Renewable bool
	Expires   time.Time // zero: never
	// Since is when it was put in force, Logins how many logins succeeded so far.
	Since  time.Time
	Logins int64
	// RefusedSince is when the server began to refuse the token, zero when it
	// does not (E12).
	RefusedSince time.Time
	// LastError is what the last attempt to keep the token alive ended with.
	LastError error
}

// Token tells about our own token.
func (c *Client) Token() TokenStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.token
	return TokenStatus{
		LoggedIn: !t.value.IsZero(), Given: c.method == nil, Source: t.source, TTL: t.ttl, Renewable: t.renewable,
		Expires: t.expires, Since: t.loggedIn, Logins: t.logins, RefusedSince: t.refusedSince, LastError: t.lastError,
	}
}

// VerifyToken asks the server whether it accepts our own token. A refusal is told
// to [Client.Run], as that of any other call.
//
// Errors: [Error]; KindPermission when it does not, or when the policy forbids the
// question itself.
func (c *Client) VerifyToken(ctx context.Context) error {
	_, err := c.call(ctx, request{op: "look up own token", method: http.MethodGet, path: "auth/token/lookup-self", token: c.ownToken(), look: true, own: true, vital: true})
	return err
}

// Login gets a token from Config.Login when that has a method. Else it takes
// the first of these that is set: Config.Token, Config.TokenFile (read again
// each time; unreadable is an error, the rest is not asked), BAO_TOKEN,
// VAULT_TOKEN (not looked at when BAO_TOKEN is there, even empty, as OpenBao
// does), ~/.vault-token; it looks the token up and puts it in force. On any
// error the token before it stays in force.
//
// Errors: ErrNoToken, ErrUseLimited (C25), ErrWrapping, else an [Error];
// KindPermission when an auth method refuses, whatever status it says that with.
func (c *Client) Login(ctx context.Context) error {
	c.login.Lock()
	defer c.login.Unlock()
	var err error
	if c.method != nil {
		err = c.logIn(ctx)
	} else {
		err = c.takeToken(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token.lastError = err
	switch {
	case err == nil:
		c.token.refusedSince = time.Time{}
	case KindOf(err) == KindPermission && !errors.Is(err, ErrNotLoggedIn) && c.token.refusedSince.IsZero():
		c.token.refusedSince = time.Now()
	}
	return err
}

func (c *Client) takeToken(ctx context.Context) error {
	value, source, err := c.readToken()
	if err != nil {
		return err
	}
	return c.enforce(ctx, value, source)
}

// enforce looks value up and makes it our token.
func (c *Client) enforce(ctx context.Context, value secret.String, source string) error {
	rq := request{op: "log in", method: http.MethodGet, path: "auth/token/lookup-self", token: value, look: true, vital: true}
	a, err := c.call(ctx, rq)
	if err != nil {
		return fmt.Errorf("token from %s: %w", source, err)
	}
	info, err := a.tokenInfo(value)
	if err != nil {
		return fmt.Errorf("token from %s: %w", source, c.unusable(rq, a, err))
	}
	if info.UsesLeft > 0 {
		return fmt.Errorf("token from %s: %w: %d uses are left, and when they are gone every lease under it is revoked; give one that was made without num_uses",
			source, ErrUseLimited, info.UsesLeft)
	}
	t := token{value: value, source: source, creation: info.CreationTTL, renewable: info.Renewable, batch: info.Type == "batch"}
	if info.Period.Std() > 0 {
		t.creation = info.Period
	}
	c.enforceToken(t, info.TTL, info.SentAt)
	c.cfg.Logger.Info("logged in", "vault", c.cfg.Name, "source", source, "ttl_s", info.TTL.String(), "renewable", info.Renewable, "type", info.Type)
	return nil
}

// granted notes a TTL; 0 means that the token never expires.
func (t *token) granted(ttl Duration, since time.Time) {
	t.ttl, t.since = ttl, since
	t.expires, t.renewAt = time.Time{}, time.Time{}
	if !ttl.IsZero() {
		t.expires = since.Add(ttl.Std())
		t.renewAt = since.Add(ttl.Std() / 2)
	}
}

// readToken gives the token of the first source that has one.
func (c *Client) readToken() (secret.String, string, error) {
	if !c.cfg.Token.IsZero() {
		return c.usable(c.cfg.Token.Reveal(), or(c.cfg.origins["token"], "configuration"))
	}
	if c.cfg.TokenFile != "" {
		source := "file " + c.cfg.TokenFile
		text, err := readTokenFile(c.cfg.TokenFile)
		if err != nil {
			return secret.String{}, source, fmt.Errorf("vault %s: read the token file: %w", c.cfg.Name, err)
		}
		return c.usable(text, source)
	}
	if text, name, ok := variable(os.LookupEnv, "TOKEN"); ok {
		return c.usable(text, name)
	}
	if home, err := os.UserHomeDir(); err == nil {
		text, err := readTokenFile(filepath.Join(home, ".vault-token"))
		if err == nil && text != "" {
			return c.usable(text, "~/.vault-token")
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return secret.String{}, "~/.vault-token", fmt.Errorf("vault %s: read ~/.vault-token: %w", c.cfg.Name, err)
		}
	}
	return secret.String{}, "", fmt.Errorf("vault %s: %w: set a token, a token file or a login, or BAO_TOKEN or VAULT_TOKEN", c.cfg.Name, ErrNoToken)
}

func (c *Client) usable(text, source string) (secret.String, string, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return secret.String{}, source, fmt.Errorf("vault %s: %w: %s is empty", c.cfg.Name, ErrNoToken, source)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return secret.String{}, source, fmt.Errorf("vault %s: what %s holds is no token: it has blanks or unprintable characters", c.cfg.Name, source)
	}
	return secret.New(text), source, nil
}
