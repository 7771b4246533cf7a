package devvault

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/leasesvc/leasesvc/secret"
)

// database is a database engine. Its maps are guarded by Server.mu.
type database struct {
	server  *Server
	mount   *mount
	configs map[string]*databaseConfig
	roles   map[string]*databaseRole
	static  map[string]*staticRole
}

// databaseConfig is what database/config/:name keeps.
type databaseConfig struct {
	plugin       string
	details      map[string]any // without the password
	password     secret.String
	allowedRoles []string
	accounts     Accounts
}

// databaseRole is what database/roles/:name keeps.
type databaseRole struct {
	dbName                                  string
	creation, revocation, rollback, renewal []string
	defaultTTL, maxTTL                      time.Duration
}

// accounts finds where the accounts of a configured database live. The caller
// holds s.mu.
func (d *database) accounts(dbName string) Accounts {
	if c := d.configs[dbName]; c != nil && c.accounts != nil {
		return c.accounts
	}
	return d.server.cfg.Accounts
}

// backend is what serves the databases of a plugin.
func (d *database) backend(plugin string) Accounts {
	if a := d.server.cfg.Plugins[plugin]; a != nil {
		return a
	}
	return d.server.cfg.Accounts
}

func (d *database) handle(req *request, sub string) (*response, error) {
	head, name, _ := strings.Cut(sub, "/")
	name = strings.TrimSuffix(name, "/")
	list := req.op == opList
	switch head {
	case "config":
		return d.configAPI(req, name)
	case "roles":
		return d.roleAPI(req, name)
	case "creds":
		if req.op != opRead || name == "" {
			return nil, unsupportedOperation()
		}
		return d.newCreds(req, name)
	case "static-roles":
		return d.staticRoleAPI(req, name)
	case "static-creds":
		if req.op != opRead || name == "" {
			return nil, unsupportedOperation()
		}
		return d.staticCreds(name)
	case "rotate-role":
		if !req.op.write() || name == "" {
			return nil, unsupportedOperation()
		}
		return d.rotateNow(req.ctx, name)
	case "reset":
		return nil, nil
	}
	if list {
		return nil, unsupportedOperation()
	}
	return nil, unsupportedPath()
}

// exists tells whether a write would be an update rather than a creation. The
// caller holds s.mu.
func (d *database) exists(sub string) bool {
	head, name, _ := strings.Cut(sub, "/")
	switch head {
	case "config":
		return d.configs[name] != nil
	case "roles":
		return d.roles[name] != nil
	case "static-roles":
		return d.static[name] != nil
	}
	return true
}

func (d *database) configAPI(req *request, name string) (*response, error) {
	s := d.server
	if req.op.write() && name != "" {
		return d.writeConfig(req, name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch req.op {
	case opList:
		return keysOf(slices.Collect(maps.Keys(d.configs))), nil
	case opRead:
		c := d.configs[name]
		if c == nil {
			return nil, nil
		}
		return &response{data: map[string]any{
			"plugin_name": c.plugin, "plugin_version": "", "connection_details": redacted(c.details), "allowed_roles": orEmpty(c.allowedRoles),
			"root_credentials_rotate_statements": []string{}, "password_policy": "",
		}}, nil
	case opDelete:
		delete(d.configs, name)
		return nil, nil
	default:
		return nil, unsupportedOperation()
	}
}

func redacted(details map[string]any) map[string]any {
	out := maps.Clone(details)
	if u, ok := out["connection_url"].(string); ok {
		if parsed, err := url.Parse(u); err == nil {
			out["connection_url"] = parsed.Redacted()
		}
	}
	return out
}

// writeConfig keeps a connection and, where the backend can, goes to the
// server it names.
func (d *database) writeConfig(req *request, name string) (*response, error) {
	s := d.server
	f := req.fields()
	s.mu.Lock()
	next := databaseConfig{details: map[string]any{}}
	if before := d.configs[name]; before != nil {
		next = *before
		next.details = maps.Clone(before.details)
	}
	s.mu.Unlock()
	if req.has("plugin_name") {
		next.plugin = f.text("plugin_name")
	}
	if req.has("allowed_roles") {
		next.allowedRoles = f.list("allowed_roles", true)
	}
	if req.has("password") {
		next.password = secret.New(f.text("password"))
	}
	verify := f.boolean("verify_connection", true)
	if f.err != nil {
		return nil, f.err
	}
	if next.plugin == "" {
		return nil, badRequest("empty plugin name")
	}
	for field, v := range req.data {
		switch field {
		case "name", "plugin_name", "plugin_version", "allowed_roles", "verify_connection", "root_rotation_statements", "password_policy", "password":
		default:
			next.details[field] = v
		}
	}
	connection := Connection{Password: next.password, Details: maps.Clone(next.details)}
	connection.URL, _ = next.details["connection_url"].(string)
	connection.Username, _ = next.details["username"].(string)
	next.accounts = d.backend(next.plugin)
	if c, ok := next.accounts.(Connector); ok {
		accounts, err := c.Connect(req.ctx, connection, verify)
		if err != nil {
			return nil, badRequest("error creating database object: " + err.Error())
		}
		next.accounts = accounts
	}
	var resp *response
	if u, err := url.Parse(connection.URL); err == nil {
		if p, ok := u.User.Password(); ok && p != "{{password}}" {
			resp = &response{warnings: []string{"Password found in connection_url, use a templated url to enable root rotation and prevent read access to password information."}}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d.configs[name] = &next
	return resp, nil
}

func (d *database) roleAPI(req *request, name string) (*response, error) {
	s := d.server
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case req.op == opList:
		return keysOf(slices.Collect(maps.Keys(d.roles))), nil
	case req.op == opRead:
		r := d.roles[name]
		if r == nil {
			return nil, nil
		}
		return &response{data: map[string]any{
			"db_name": r.dbName, "creation_statements": orEmpty(r.creation), "revocation_statements": orEmpty(r.revocation),
			"rollback_statements": orEmpty(r.rollback), "renew_statements": orEmpty(r.renewal),
			"default_ttl": r.defaultTTL.Seconds(), "max_ttl": r.maxTTL.Seconds(), "credential_type": "password",
		}}, nil
	case req.op == opDelete:
		delete(d.roles, name)
		return nil, nil
	case req.op.write() && name != "":
		return d.writeRole(req, name)
	}
	return nil, unsupportedOperation()
}

func (d *database) writeRole(req *request, name string) (*response, error) {
	if d.static[name] != nil {
		return nil, badRequest("Role and Static Role names must be unique")
	}
	f := req.fields()
	var next databaseRole
	if before := d.roles[name]; before != nil {
		next = *before
	}
	if req.has("db_name") {
		next.dbName = f.text("db_name")
	}
	for field, at := range map[string]*[]string{
		"creation_statements": &next.creation, "revocation_statements": &next.revocation,
		"rollback_statements": &next.rollback, "renew_statements": &next.renewal,
	} {
		if req.has(field) {
			*at = slices.DeleteFunc(slices.Clone(f.list(field, false)), func(s string) bool { return s == "" })
		}
	}
	for field, at := range map[string]*time.Duration{"default_ttl": &next.defaultTTL, "max_ttl": &next.maxTTL} {
		if req.has(field) {
			*at = f.seconds(field)
		}
	}
	if kind := f.text("credential_type"); f.err == nil && kind != "" && kind != "password" {
		return nil, badRequest(fmt.Sprintf("unsupported credential_type: %q", kind))
	}
	if f.err != nil {
		return nil, f.err
	}
	if next.dbName == "" {
		return nil, badRequest("database name is required")
	}
	d.roles[name] = &next
	return nil, nil
}

// allowed finds the configuration of dbName and checks that role may use it.
// The caller holds s.mu.
func (d *database) allowed(dbName, role string) (*databaseConfig, error) {
	c := d.configs[dbName]
	if c == nil {
		return nil, listed(http.StatusInternalServerError, "failed to find entry for connection with name: "+fmt.Sprintf("%q", dbName))
	}
	if !slices.Contains(c.allowedRoles, "*") && !globbed(c.allowedRoles, role) {
		return nil, listed(http.StatusInternalServerError, fmt.Sprintf("%q is not an allowed role", role))
	}
	return c, nil
}

// newCreds creates an account and registers its lease on the caller's token.
// If the token is gone by then, the account goes too.
func (d *database) newCreds(req *request, roleName string) (*response, error) {
	s := d.server
	s.mu.Lock()
	role := d.roles[roleName]
	if role == nil {
		s.mu.Unlock()
		return nil, badRequest("unknown role: " + roleName)
	}
	if _, err := d.allowed(role.dbName, roleName); err != nil {
		s.mu.Unlock()
		return nil, err
	}
	accounts, want := d.accounts(role.dbName), *role
	now := s.now()
	ttl, warnings, err := grant{
		usual: want.defaultTTL, max: want.maxTTL, systemDefault: d.mount.defaultTTL(s), systemMax: d.mount.maxTTL(s),
	}.ttl(now)
	broken := err == nil && s.breakNext > 0
	if broken {
		s.breakNext--
	}
	s.mu.Unlock()
	if err != nil {
		return nil, listed(http.StatusInternalServerError, err.Error())
	}

	user, password := userName(req.token.display, roleName, now), secret.New(randomPassword())
	if n, ok := accounts.(UserNamer); ok {
		user = n.UserName(user)
	}
	account := Account{User: user, Password: password, Expires: now.Add(ttl + expiryMargin), Statements: want.creation}
	if broken {
		account.Password = secret.New(randomPassword())
	}
	if err := accounts.Create(req.ctx, account); err != nil {
		return nil, listed(http.StatusInternalServerError, err.Error())
	}
	l := &lease{
		id: req.path + "/" + randomBase62(24), path: req.path, role: roleName, user: user, renewable: true, ttl: ttl,
		credential: &databaseCredential{db: d, role: roleName, user: user, dbName: want.dbName, revoke: want.revocation},
	}
	if err := s.grantLease(req, l); err != nil {
		return nil, err
	}
	return &response{
		lease: &leaseAnswer{id: l.id, renewable: true, ttl: l.ttl}, warnings: warnings,
		data: map[string]any{"username": user, "password": password.Reveal()},
	}, nil
}

// databaseCredential is an account of a database role.
type databaseCredential struct {
	db                 *database
	role, user, dbName string
	revoke             []string // revocation statements, in case the role is gone by then
}

func (c *databaseCredential) renewal() (grant, func(context.Context, time.Time) error, error) {
	s, role := c.db.server, c.db.roles[c.role]
	if role == nil {
		return grant{}, nil, fmt.Errorf("error during renew: could not find role with name %q", c.role)
	}
	limits := grant{usual: role.defaultTTL, max: role.maxTTL, systemDefault: c.db.mount.defaultTTL(s), systemMax: c.db.mount.maxTTL(s)}
	extender, ok := c.db.accounts(role.dbName).(Extender)
	if !ok {
		return limits, nil, nil
	}
	statements := role.renewal
	return limits, func(ctx context.Context, expires time.Time) error {
		return extender.Extend(ctx, c.user, expires, statements)
	}, nil
}

func (c *databaseCredential) ending() func(context.Context) error {
	statements, dbName := c.revoke, c.dbName
	if role := c.db.roles[c.role]; role != nil {
		statements, dbName = role.revocation, role.dbName
	}
	accounts := c.db.accounts(dbName)
	return func(ctx context.Context) error { return accounts.Drop(ctx, c.user, statements) }
}

// userName is v-<display>-<role>-<random>-<unix>, within 63 characters.
func userName(display, role string, now time.Time) string {
	name := fmt.Sprintf("v-%s-%s-%s-%d", cut(display, 8), cut(role, 8), randomBase62(20), now.Unix())
	return cut(name, 63)
}

func cut(s string, n int) string {
	if len(s) > n {
		return s[:n]
	}
	return s
}
