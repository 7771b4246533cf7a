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

	refusedSince time.Time // E12: the first refusal wins
	lastError    error
}

// TokenStatus is what may be shown of our own token.
type TokenStatus struct {
	LoggedIn bool
	// Source names where it came from: "configuration", "file PATH",
	// "VAULT_TOKEN", "BAO_TOKEN" or "~/.vault-token".
	Source    string
	TTL       Duration // what was left when the server last said so
	Renewable bool
	Expires   time.Time // zero: never
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
		LoggedIn: !t.value.IsZero(), Source: t.source, TTL: t.ttl, Renewable: t.renewable,
		Expires: t.expires, RefusedSince: t.refusedSince, LastError: t.lastError,
	}
}

// Login takes the token from the first of these that is set: Config.Token,
// Config.TokenFile (read again each time; unreadable is an error, the rest is
// not asked), VAULT_TOKEN, BAO_TOKEN, ~/.vault-token. It looks the token up and
// puts it in force. On any error the token before it stays in force.
//
// Errors: ErrNoToken, ErrUseLimited (C25), else an [Error].
func (c *Client) Login(ctx context.Context) error {
	c.login.Lock()
	defer c.login.Unlock()
	value, source, err := c.readToken()
	if err == nil {
		err = c.enforce(ctx, value, source)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token.lastError = err
	switch {
	case err == nil:
		c.token.refusedSince = time.Time{}
	case KindOf(err) == KindPermission && c.token.refusedSince.IsZero():
		c.token.refusedSince = time.Now()
	}
	return err
}

// enforce looks value up and makes it our token.
func (c *Client) enforce(ctx context.Context, value secret.String, source string) error {
	rq := request{op: "log in", method: http.MethodGet, path: "auth/token/lookup-self", token: value, look: true}
	a, err := c.call(ctx, rq)
	if err != nil {
		return fmt.Errorf("token from %s: %w", source, err)
	}
	info, err := a.tokenInfo(value)
	if err != nil {
		return fmt.Errorf("token from %s: %w", source, c.malformed(rq, a, err))
	}
	if info.UsesLeft > 0 {
		return fmt.Errorf("token from %s: %w: %d uses are left, and when they are gone every lease under it is revoked; give one that was made without num_uses",
			source, ErrUseLimited, info.UsesLeft)
	}
	t := token{value: value, source: source, creation: info.CreationTTL, renewable: info.Renewable}
	if info.Period.Std() > 0 {
		t.creation = info.Period
	}
	t.granted(info.TTL, info.SentAt)
	c.mu.Lock()
	t.refusedSince, t.lastError = c.token.refusedSince, c.token.lastError
	c.token = t
	c.mu.Unlock()
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
		return c.usable(c.cfg.Token.Reveal(), "configuration")
	}
	if c.cfg.TokenFile != "" {
		source := "file " + c.cfg.TokenFile
		text, err := readTokenFile(c.cfg.TokenFile)
		if err != nil {
			return secret.String{}, source, fmt.Errorf("vault %s: read the token file: %w", c.cfg.Name, err)
		}
		return c.usable(text, source)
	}
	for _, name := range []string{"VAULT_TOKEN", "BAO_TOKEN"} {
		if text := os.Getenv(name); text != "" {
			return c.usable(text, name)
		}
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
	return secret.String{}, "", fmt.Errorf("vault %s: %w: set a token or a token file, or VAULT_TOKEN or BAO_TOKEN", c.cfg.Name, ErrNoToken)
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

func readTokenFile(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > maxTokenFile {
		return "", fmt.Errorf("%s is no regular file of at most %d bytes", path, maxTokenFile)
	}
	text, err := os.ReadFile(path)
	return strings.TrimSpace(string(text)), err
}
