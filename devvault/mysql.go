package devvault

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/leasesvc/leasesvc/secret"
)

const (
	mysqlCreate = `CREATE USER '{{name}}'@'%' IDENTIFIED BY '{{password}}'`
	mysqlRotate = `ALTER USER '{{username}}'@'%' IDENTIFIED BY '{{password}}'`
	mysqlRevoke = `REVOKE ALL PRIVILEGES, GRANT OPTION FROM '{{name}}'@'%'`
	mysqlDrop   = `DROP USER '{{name}}'@'%'`

	// mysqlUserLength is the longest user name of MySQL.
	mysqlUserLength = 32
	// mysqlNoSuchUser is what is said of a user that is not there.
	mysqlNoSuchUser = 1396
	mysqlNoGrant    = 1269
)

// MySQL is an [Accounts] that makes users in a MySQL or MariaDB server, for the
// plugin mysql-database-plugin. It connects for each operation and keeps nothing
// open. The zero value serves what a database configuration names
// (connection_url "{{username}}:{{password}}@tcp(host:port)/"), and nothing
// before. An account has no end of its own; the sessions of a dropped user stay
// open.
type MySQL struct{ dsn secret.String }

// Connect implements Connector.
func (m *MySQL) Connect(ctx context.Context, c Connection, verify bool) (Accounts, error) {
	to := &MySQL{dsn: secret.New(strings.NewReplacer("{{username}}", c.Username, "{{password}}", c.Password.Reveal()).Replace(c.URL))}
	if !verify {
		return to, nil
	}
	if err := to.with(ctx, func(*sql.Conn) error { return nil }); err != nil {
		return nil, fmt.Errorf("error verifying connection: %w", err)
	}
	return to, nil
}

// with runs do on a connection of its own. Its errors do not carry the DSN.
func (m *MySQL) with(ctx context.Context, do func(*sql.Conn) error) error {
	cfg, err := mysql.ParseDSN(m.dsn.Reveal())
	if err != nil || m.dsn.IsZero() {
		return errors.New("the database's connection URL cannot be parsed: check connection_url")
	}
	cfg.Timeout = connectTimeout
	cfg.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return errors.New("the database's connection URL cannot be used: check connection_url")
	}
	db := sql.OpenDB(connector)
	defer func() { _ = db.Close() }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connecting to MySQL: %w", err)
	}
	defer func() { _ = conn.Close() }()
	return do(conn)
}

// run executes statements one by one, each with its placeholders filled in; one
// may hold several, separated by semicolons.
func (m *MySQL) run(ctx context.Context, statements []string, values map[string]string) error {
	pairs := make([]string, 0, 2*len(values))
	for name, v := range values {
		if strings.ContainsAny(v, "'\"\\\x00\n") {
			return fmt.Errorf("the value of {{%s}} holds a quote, a backslash or a control character, and is not put into SQL", name)
		}
		pairs = append(pairs, "{{"+name+"}}", v)
	}
	fill := strings.NewReplacer(pairs...)
	return m.with(ctx, func(conn *sql.Conn) error {
		for _, all := range statements {
			for statement := range strings.SplitSeq(all, ";") {
				if statement = strings.TrimSpace(statement); statement == "" {
					continue
				}
				if _, err := conn.ExecContext(ctx, fill.Replace(statement)); err != nil {
					return mysqlError{err, values["password"]}
				}
			}
		}
		return nil
	})
}

// mysqlError keeps a password that a syntax error quotes out of its text.
type mysqlError struct {
	error
	password string
}

func (e mysqlError) Error() string {
	return "failed to execute query: " + withoutPassword(e.error, e.password)
}

func (e mysqlError) Unwrap() error { return e.error }

// UserName implements UserNamer: MySQL's user names are short.
func (*MySQL) UserName(usual string) string { return cut(usual, mysqlUserLength) }

// Create implements Accounts.
func (m *MySQL) Create(ctx context.Context, a Account) error {
	return m.run(ctx, orOwn(a.Statements, mysqlCreate), map[string]string{
		"name": a.User, "username": a.User, "password": a.Password.Reveal(), "expiration": a.Expires.Format(time.DateTime),
	})
}

// SetPassword implements PasswordSetter.
func (m *MySQL) SetPassword(ctx context.Context, user string, password secret.String, statements []string) error {
	return m.run(ctx, orOwn(statements, mysqlRotate), map[string]string{"name": user, "username": user, "password": password.Reveal()})
}

// Drop implements Accounts. Without statements, what the user was granted is
// revoked and the user dropped.
func (m *MySQL) Drop(ctx context.Context, user string, statements []string) error {
	if len(statements) == 0 {
		statements = []string{mysqlRevoke, mysqlDrop}
	}
	err := m.run(ctx, statements, map[string]string{"name": user, "username": user})
	var said *mysql.MySQLError
	if errors.As(err, &said) && (said.Number == mysqlNoSuchUser || said.Number == mysqlNoGrant) {
		return nil
	}
	return err
}

// List implements Accounts: the users that look like ours, sorted.
func (m *MySQL) List(ctx context.Context) ([]string, error) {
	var names []string
	err := m.with(ctx, func(conn *sql.Conn) error {
		rows, err := conn.QueryContext(ctx, `SELECT User FROM mysql.user WHERE User LIKE 'v-%' ORDER BY 1`)
		if err != nil {
			return fmt.Errorf("listing users: %w", err)
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				return fmt.Errorf("listing users: %w", err)
			}
			names = append(names, name)
		}
		return rows.Err()
	})
	return names, err
}

var (
	_ Accounts       = (*MySQL)(nil)
	_ PasswordSetter = (*MySQL)(nil)
	_ Connector      = (*MySQL)(nil)
	_ UserNamer      = (*MySQL)(nil)
)
