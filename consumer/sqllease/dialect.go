package sqllease

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// Dialect is a kind of server.
type Dialect struct {
	// connector makes a driver's connector that logs in as user.
	connector func(user, password string) (driver.Connector, error)
	// whoAmI asks the server whose session it is; isMe compares the answer.
	whoAmI string
	isMe   func(answer, user string) bool
	// refused gives a refused login's code and text; ok is false for any other
	// error.
	refused func(err error) (said string, ok bool)
}

// PostgreSQL is a PostgreSQL server behind pgx: dsn is a connection string
// without user and password, such as "host=db.internal dbname=orders
// sslmode=verify-full".
func PostgreSQL(dsn string) (Dialect, error) {
	base, err := pgx.ParseConfig(dsn)
	if err != nil {
		// Not wrapped: pgx quotes the string, which may hold a password.
		return Dialect{}, errors.New("sqllease: the DSN is no connection string that pgx.ParseConfig accepts")
	}
	return Dialect{
		connector: func(user, password string) (driver.Connector, error) {
			cfg := base.Copy()
			cfg.User, cfg.Password = user, password
			return stdlib.GetConnector(*cfg), nil
		},
		whoAmI: "select session_user::text",
		isMe:   func(answer, user string) bool { return answer == user },
		refused: func(err error) (string, bool) {
			var said *pgconn.PgError
			if !errors.As(err, &said) || !strings.HasPrefix(said.Code, "28") {
				return "", false
			}
			return said.Code + ": " + said.Message, true
		},
	}, nil
}

// MySQL is a MySQL or MariaDB server: dsn is one of go-sql-driver's without user
// and password, such as "tcp(db.internal:3306)/orders?parseTime=true&tls=true".
func MySQL(dsn string) (Dialect, error) {
	base, err := mysql.ParseDSN(dsn)
	if err != nil {
		return Dialect{}, errors.New("sqllease: the DSN is none that mysql.ParseDSN accepts") // it quotes it
	}
	return Dialect{
		connector: func(user, password string) (driver.Connector, error) {
			cfg := base.Clone()
			cfg.User, cfg.Passwd = user, password
			return mysql.NewConnector(cfg)
		},
		// Not user(), which only repeats what we said: an anonymous account takes
		// anybody.
		whoAmI: "select current_user()",
		isMe: func(answer, user string) bool {
			at := strings.LastIndexByte(answer, '@')
			return at >= 0 && answer[:at] == user
		},
		refused: func(err error) (string, bool) {
			var said *mysql.MySQLError
			if !errors.As(err, &said) {
				return "", false
			}
			switch said.Number { // wrong user or password, locked, expired
			case 1045, 1698, 3118, 4151, 1820, 1862:
				return fmt.Sprintf("%d: %s", said.Number, said.Message), true
			}
			return "", false
		},
	}, nil
}

// refusal is a refused login with what fits into an answer of it.
type refusal struct {
	error
	said string
}

func (r refusal) Error() string { return "the login is refused (" + r.said + ")" }
func (r refusal) Unwrap() error { return r.error }

// shortened makes a refusal of a refused login; pgx tells every address and TLS
// mode that was tried.
func (d *Dialect) shortened(err error) error {
	if said, ok := d.refused(err); ok {
		return refusal{err, said}
	}
	return err
}
