package vault

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/leasesvc/leasesvc/secret"
)

// DefaultServiceAccountToken is where Kubernetes puts a pod's token.
const DefaultServiceAccountToken = "/var/run/secrets/kubernetes.io/serviceaccount/token"

// Login is a way to get a token of our own from an auth method: at most one of
// these. None: a token that was given (see [Client.Login]).
type Login struct {
	AppRole    *AppRole
	Kubernetes *Kubernetes
	Cert       *Cert
	JWT        *JWT
}

// AppRole logs in with a role id and, where the role wants one, a secret id.
type AppRole struct {
	// Mount is the path below auth/; empty means "approle".
	Mount    string
	RoleID   Source
	SecretID Source
	// Wrapped: SecretID is a response-wrapping token. It is looked up first: one
	// that was not made by this mount's secret-id endpoint is refused. It is
	// unwrapped once; the secret id is then kept in memory, and used again until
	// the file holds another wrapping token.
	Wrapped bool
}

// Kubernetes logs in with the pod's service account.
type Kubernetes struct {
	// Mount is the path below auth/; empty means "kubernetes".
	Mount string
	// Role is required.
	Role string
	// TokenFile is read again at each login; empty means DefaultServiceAccountToken.
	TokenFile string
}

// Cert logs in with the client certificate of [TLS], which must have one. When
// its files change they are read again, and a new login is made within a minute.
type Cert struct {
	// Mount is the path below auth/; empty means "cert".
	Mount string
	// Role is the certificate role to log in against; empty lets the server choose.
	Role string
}

// JWT logs in with a signed token of another issuer.
type JWT struct {
	// Mount is the path below auth/; empty means "jwt".
	Mount string
	// Role may be empty when the mount has a default role.
	Role  string
	Token Source
}

// method is a configured auth method.
type method interface {
	// String names it for status and log: "AppRole at auth/approle".
	String() string
	// mount is the path below auth/.
	mount() string
	// check tells what is wrong with the configuration.
	check(cfg *Config) error
	// prove gives the body of the login request, and the secrets in it, which
	// may come back in an error.
	prove(ctx context.Context, c *Client) (body map[string]any, sent []secret.String, err error)
	// hint is what to look at when the server refuses.
	hint() string
}

func (l Login) method() (method, error) {
	var all []method
	if l.AppRole != nil {
		all = append(all, *l.AppRole)
	}
	if l.Kubernetes != nil {
		all = append(all, *l.Kubernetes)
	}
	if l.Cert != nil {
		all = append(all, *l.Cert)
	}
	if l.JWT != nil {
		all = append(all, *l.JWT)
	}
	switch len(all) {
	case 0:
		return nil, nil
	case 1:
		return all[0], nil
	}
	return nil, errTwoLogins
}

func (cfg *Config) checkLogin() (method, error) {
	m, err := cfg.Login.method()
	switch {
	case err != nil, m == nil:
		return nil, err
	case !cfg.Token.IsZero() || cfg.TokenFile != "":
		return nil, errTwoLogins
	}
	if err := checkPath(m.mount()); err != nil {
		return nil, fmt.Errorf("the mount of %s: %w", m, err)
	}
	if err := m.check(cfg); err != nil {
		return nil, fmt.Errorf("%s: %w", m, err)
	}
	return m, nil
}

// logIn gets a token from the auth method and puts it in force. The request is
// never repeated: each that arrives makes a token, and may use up a secret id.
func (c *Client) logIn(ctx context.Context) error {
	body, sent, err := c.method.prove(ctx, c)
	if err != nil {
		return fmt.Errorf("vault %s: log in with %s: %w", c.cfg.Name, c.method, err)
	}
	rq := request{op: "log in", method: http.MethodPost, path: "auth/" + c.method.mount() + "/login", body: body, sent: sent, open: true, once: true, vital: true}
	shown := c.tls.state()
	a, err := c.call(ctx, rq)
	if err != nil {
		return fmt.Errorf("%s: %w", c.method, c.loginRefused(err))
	}
	granted, err := a.tokenGrant(sent...)
	if err == nil && granted.value.IsZero() {
		err = errors.New("the answer holds no token; a login that needs a second factor can't be used")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.method, c.unusable(rq, a, err))
	}
	if granted.uses > 0 {
		c.discard(ctx, granted.value)
		return fmt.Errorf("vault %s: token from %s: %w: it may be used %d times, and when they are gone every lease under it is revoked; set token_num_uses=0 on the role",
			c.cfg.Name, c.method, ErrUseLimited, granted.uses)
	}
	t := token{value: granted.value, source: c.method.String(), creation: granted.ttl, renewable: granted.renewable, batch: granted.kind == "batch", since: a.sentAt}
	c.enforceToken(t, granted.ttl, a.sentAt)
	c.tls.use(shown)
	c.cfg.Logger.Info("logged in", "vault", c.cfg.Name, "source", t.source, "ttl_s", granted.ttl.String(), "renewable", granted.renewable, "type", granted.kind, "warnings", granted.warnings)
	return nil
}

// loginRefused makes KindPermission of a 400, with which most auth methods say
// that they do not take the proof.
func (c *Client) loginRefused(err error) error {
	var e *Error
	if !errors.As(err, &e) || e.Status != http.StatusBadRequest {
		return err
	}
	refused := *e
	refused.Kind, refused.Err = KindPermission, errors.Join(e.Err, errors.New(c.method.hint()))
	return &refused
}

// discard revokes a token that is of no use; failing that it ends by its TTL.
func (c *Client) discard(ctx context.Context, value secret.String) {
	_, err := c.call(ctx, request{op: "discard token", method: http.MethodPost, path: "auth/token/revoke-self", token: value, vital: true})
	if err != nil {
		c.cfg.Logger.Warn("a token that can't be used was left to end by its TTL", "vault", c.cfg.Name, "error", err)
	}
}

// Logout revokes our own token where it came from an auth method, and with it
// every lease that was read without a guard. A token that was given to us is
// left alone. For a clean end (C33); the client can log in again.
func (c *Client) Logout(ctx context.Context) error {
	c.login.Lock()
	defer c.login.Unlock()
	value := c.ownToken()
	if c.method == nil || value.IsZero() {
		return nil
	}
	_, err := c.call(ctx, request{op: "log out", method: http.MethodPost, path: "auth/token/revoke-self", token: value, vital: true})
	if KindOf(err) == KindPermission {
		err = nil // it was gone already
	}
	if err == nil {
		c.mu.Lock()
		c.token = token{}
		c.mu.Unlock()
	}
	return err
}

func or(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

func (a AppRole) mount() string  { return or(a.Mount, "approle") }
func (a AppRole) String() string { return "AppRole at auth/" + a.mount() }
func (a AppRole) hint() string {
	return "check the role id, and that the secret id is in date, not used up, and bound to this address"
}

func (a AppRole) check(*Config) error {
	if a.RoleID.IsZero() {
		return errors.New("the role id is missing")
	}
	if a.Wrapped && a.SecretID.IsZero() {
		return errors.New("wrapped is set without a secret id")
	}
	return errors.Join(a.RoleID.check("role id"), a.SecretID.check("secret id"))
}

func (a AppRole) prove(ctx context.Context, c *Client) (map[string]any, []secret.String, error) {
	roleID, err := a.RoleID.read("role id")
	if err != nil {
		return nil, nil, err
	}
	body, sent := map[string]any{"role_id": roleID.Reveal()}, []secret.String{roleID}
	if a.SecretID.IsZero() {
		return body, sent, nil
	}
	secretID, err := a.SecretID.read("secret id")
	if err != nil {
		return nil, nil, err
	}
	if a.Wrapped {
		if secretID, err = c.unwrapSecretID(ctx, a, secretID); err != nil {
			return nil, nil, err
		}
	}
	body["secret_id"] = secretID.Reveal()
	return body, append(sent, secretID), nil
}

func (k Kubernetes) mount() string  { return or(k.Mount, "kubernetes") }
func (k Kubernetes) String() string { return "Kubernetes at auth/" + k.mount() }
func (k Kubernetes) hint() string {
	return "check the role's bound service account names, namespaces and audience"
}

func (k Kubernetes) check(*Config) error {
	if k.Role == "" {
		return errors.New("the role is missing")
	}
	return nil
}

func (k Kubernetes) prove(context.Context, *Client) (map[string]any, []secret.String, error) {
	jwt, err := Source{File: or(k.TokenFile, DefaultServiceAccountToken)}.read("service account token")
	if err != nil {
		return nil, nil, err
	}
	return map[string]any{"role": k.Role, "jwt": jwt.Reveal()}, []secret.String{jwt}, nil
}

func (j JWT) mount() string  { return or(j.Mount, "jwt") }
func (j JWT) String() string { return "JWT at auth/" + j.mount() }
func (j JWT) hint() string {
	return "check that the JWT is in date and that its issuer, audience and claims are what the role is bound to"
}

func (j JWT) check(*Config) error {
	if j.Token.IsZero() {
		return errors.New("the token is missing")
	}
	return j.Token.check("token")
}

func (j JWT) prove(context.Context, *Client) (map[string]any, []secret.String, error) {
	jwt, err := j.Token.read("JWT")
	if err != nil {
		return nil, nil, err
	}
	body := map[string]any{"jwt": jwt.Reveal()}
	if j.Role != "" {
		body["role"] = j.Role
	}
	return body, []secret.String{jwt}, nil
}

func (t Cert) mount() string  { return or(t.Mount, "cert") }
func (t Cert) String() string { return "TLS certificate at auth/" + t.mount() }
func (t Cert) hint() string {
	return "check that the certificate is in date and that the role takes its issuer and names"
}

func (t Cert) check(cfg *Config) error {
	if cfg.TLS.ClientCert == "" {
		return errors.New("there is no client certificate to log in with")
	}
	if !strings.HasPrefix(cfg.Address, "https://") {
		return errors.New("a certificate needs an https address")
	}
	return nil
}

func (t Cert) prove(context.Context, *Client) (map[string]any, []secret.String, error) {
	body := map[string]any{}
	if t.Role != "" {
		body["name"] = t.Role
	}
	return body, nil, nil
}

// enforceToken makes t our token.
func (c *Client) enforceToken(t token, ttl Duration, since time.Time) {
	t.granted(ttl, since)
	t.loggedIn = time.Now()
	c.mu.Lock()
	t.logins = c.token.logins + 1 // nothing was refused to it yet
	c.token = t
	c.mu.Unlock()
}
