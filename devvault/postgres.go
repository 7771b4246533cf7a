package devvault

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leasesvc/leasesvc/secret"
)

const (
	createStatement  = `CREATE ROLE "{{name}}" WITH LOGIN PASSWORD '{{password}}' VALID UNTIL '{{expiration}}';`
	extendStatement  = `ALTER ROLE "{{name}}" VALID UNTIL '{{expiration}}';`
	rotateStatement  = `ALTER ROLE "{{username}}" WITH PASSWORD '{{password}}';`
	expirationLayout = "2006-01-02 15:04:05-0700"
	connectTimeout   = 10 * time.Second
)

// Postgres is an [Accounts] that creates roles in a PostgreSQL server. It
// connects for each operation and keeps nothing open.
type Postgres struct{ dsn secret.String }

// NewPostgres makes a Postgres whose own server is at dsn (a URL or key=value
// text). A database configuration with a connection_url replaces it.
func NewPostgres(dsn secret.String) *Postgres { return &Postgres{dsn: dsn} }

// Connect implements Connector.
func (p *Postgres) Connect(ctx context.Context, c Connection, verify bool) (Accounts, error) {
	to := p
	if c.URL != "" {
		r := strings.NewReplacer("{{username}}", url.PathEscape(c.Username), "{{password}}", url.PathEscape(c.Password.Reveal()))
		to = &Postgres{dsn: secret.New(r.Replace(c.URL))}
	}
	if !verify {
		return to, nil
	}
	if err := to.with(ctx, func(conn *pgx.Conn) error { return conn.Ping(ctx) }); err != nil {
		return nil, fmt.Errorf("error verifying connection: %w", err)
	}
	return to, nil
}

// with runs do on a connection of its own. Its errors do not carry the DSN.
func (p *Postgres) with(ctx context.Context, do func(*pgx.Conn) error) error {
	cfg, err := pgx.ParseConfig(p.dsn.Reveal())
	if err != nil {
		// The driver's text repeats the DSN with a redacted password at best.
		return errors.New("the database's connection URL cannot be parsed: check connection_url")
	}
	cfg.ConnectTimeout = connectTimeout
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return fmt.Errorf("connecting to PostgreSQL: %w", plainError(err))
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return do(conn)
}

// plainError strips what a driver error could repeat of a statement or a
// configuration: statements hold passwords.
func plainError(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return fmt.Errorf("%s: %s (SQLSTATE %s)", pg.Severity, pg.Message, pg.Code)
	}
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		if inner := connect.Unwrap(); inner != nil {
			return inner
		}
	}
	return err
}

// withoutPassword strips a password that a syntax error may quote out of the
// statement it stands in.
func withoutPassword(err error, password string) string {
	if password == "" {
		return err.Error()
	}
	return strings.ReplaceAll(err.Error(), password, "[password]")
}

// run executes statements in one transaction, each with its placeholders
// filled in. A statement may hold several, separated by semicolons, and DO
// blocks: the server splits them.
func (p *Postgres) run(ctx context.Context, statements []string, values map[string]string) error {
	for name, v := range values {
		if strings.ContainsAny(v, "'\"\\\x00\n") {
			return fmt.Errorf("the value of {{%s}} holds a quote, a backslash or a control character, and is not put into SQL", name)
		}
	}
	pairs := make([]string, 0, 2*len(values))
	for name, v := range values {
		pairs = append(pairs, "{{"+name+"}}", v)
	}
	fill := strings.NewReplacer(pairs...)
	return p.with(ctx, func(conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			for _, statement := range statements {
				if err := tx.Conn().PgConn().Exec(ctx, fill.Replace(statement)).Close(); err != nil {
					return fmt.Errorf("failed to execute query: %s", withoutPassword(plainError(err), values["password"]))
				}
			}
			return nil
		})
	})
}

func orOwn(statements []string, own string) []string {
	if len(statements) == 0 {
		return []string{own}
	}
	return statements
}

// Create implements Accounts.
func (p *Postgres) Create(ctx context.Context, a Account) error {
	return p.run(ctx, orOwn(a.Statements, createStatement), map[string]string{
		"name": a.User, "username": a.User, "password": a.Password.Reveal(), "expiration": a.Expires.Format(expirationLayout),
	})
}

// Extend implements Extender: it moves VALID UNTIL.
func (p *Postgres) Extend(ctx context.Context, user string, expires time.Time, statements []string) error {
	return p.run(ctx, orOwn(statements, extendStatement), map[string]string{
		"name": user, "username": user, "expiration": expires.Format(expirationLayout),
	})
}

// SetPassword implements PasswordSetter.
func (p *Postgres) SetPassword(ctx context.Context, user string, password secret.String, statements []string) error {
	return p.run(ctx, orOwn(statements, rotateStatement), map[string]string{
		"name": user, "username": user, "password": password.Reveal(),
	})
}

// Drop implements Accounts. Without statements, what the role was granted is
// revoked schema by schema and the role dropped; sessions that are open stay
// open.
func (p *Postgres) Drop(ctx context.Context, user string, statements []string) error {
	if len(statements) > 0 {
		return p.run(ctx, statements, map[string]string{"name": user, "username": user})
	}
	return p.with(ctx, func(conn *pgx.Conn) error {
		var exists bool
		if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)", user).Scan(&exists); err != nil {
			return fmt.Errorf("looking for role %q: %w", user, plainError(err))
		}
		if !exists {
			return nil
		}
		rows, err := conn.Query(ctx, "SELECT DISTINCT table_schema FROM information_schema.role_column_grants WHERE grantee = $1", user)
		if err != nil {
			return fmt.Errorf("listing the grants of %q: %w", user, plainError(err))
		}
		schemas, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return fmt.Errorf("listing the grants of %q: %w", user, plainError(err))
		}
		role := pgx.Identifier{user}.Sanitize()
		var all []string
		for _, schema := range append(schemas, "public") {
			in := pgx.Identifier{schema}.Sanitize()
			all = append(all,
				"REVOKE ALL PRIVILEGES ON ALL TABLES IN SCHEMA "+in+" FROM "+role,
				"REVOKE ALL PRIVILEGES ON ALL SEQUENCES IN SCHEMA "+in+" FROM "+role,
				"REVOKE USAGE ON SCHEMA "+in+" FROM "+role)
		}
		all = append(all, "REVOKE CONNECT ON DATABASE "+pgx.Identifier{conn.Config().Database}.Sanitize()+" FROM "+role)
		// As much as can be revoked is, even if one of them fails.
		var failed error
		for _, statement := range all {
			if _, err := conn.Exec(ctx, statement); err != nil {
				failed = err
			}
		}
		if failed != nil {
			return fmt.Errorf("could not perform all revocation statements: %w", plainError(failed))
		}
		if _, err := conn.Exec(ctx, "DROP ROLE IF EXISTS "+role); err != nil {
			return fmt.Errorf("dropping role %q: %w", user, plainError(err))
		}
		return nil
	})
}

// List implements Accounts: the roles that look like ours, sorted.
func (p *Postgres) List(ctx context.Context) ([]string, error) {
	var names []string
	err := p.with(ctx, func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `SELECT rolname::text FROM pg_roles WHERE rolname LIKE 'v-%' ORDER BY 1`)
		if err != nil {
			return fmt.Errorf("listing roles: %w", plainError(err))
		}
		names, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return names, err
}

var (
	_ Accounts       = (*Postgres)(nil)
	_ Extender       = (*Postgres)(nil)
	_ PasswordSetter = (*Postgres)(nil)
	_ Connector      = (*Postgres)(nil)
)
