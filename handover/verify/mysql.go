package verify

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/go-sql-driver/mysql"
)

var mysqlAddress = address{
	schemes: []string{"mysql"}, port: "3306", settings: []string{"tls", "ca", "server_name"},
	example: "mysql://{{username}}:{{password}}@HOST:PORT/DATABASE",
}

var errMySQLTLS = errors.New("the verifier's DSN has a tls that is not known: write true, false or preferred")

func checkMySQL(spec Spec) error {
	if err := mysqlAddress.check(spec.DSN); err != nil {
		return err
	}
	_, err := mysqlConfig(spec, standIns(spec.DSN))
	return err
}

func mysqlConfig(spec Spec, values map[string]any) (*mysql.Config, error) {
	u, err := mysqlAddress.parse(spec.DSN, values)
	if err != nil {
		return nil, err
	}
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.DBName = "tcp", mysqlAddress.hostPort(u), strings.TrimPrefix(u.Path, "/")
	cfg.User, cfg.Passwd = account(u)
	cfg.Logger = &mysql.NopLogger{} // what fails is in our error
	switch mode := u.Query().Get("tls"); mode {
	case "", "false":
	case "true", "preferred":
		if cfg.TLS, err = tlsOf(u); err != nil {
			return nil, err
		}
		cfg.AllowFallbackToPlaintext = mode == "preferred"
	default:
		return nil, errMySQLTLS
	}
	return cfg, nil
}

func prepareMySQL(spec Spec, values map[string]any) (attempt, error) {
	cfg, err := mysqlConfig(spec, values)
	if err != nil {
		return nil, err
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, errors.New("the verifier's DSN cannot be used") // the driver's text may quote it
	}
	return func(ctx context.Context) *Error {
		db := sql.OpenDB(connector)
		defer func() { _ = db.Close() }()
		return loginMySQL(ctx, db, cfg.User)
	}, nil
}

// loginMySQL opens one session and asks which account it was given:
// CURRENT_USER, since USER only repeats what we said, and an anonymous account
// takes anybody.
func loginMySQL(ctx context.Context, db *sql.DB, user string) *Error {
	asking, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	var is string
	if err := db.QueryRowContext(asking, "SELECT CURRENT_USER()").Scan(&is); err != nil {
		var said *mysql.MySQLError
		if errors.As(err, &said) {
			return &Error{Failure: mysqlRefusal(said.Number), Reason: "error " + itoa(said.Number)}
		}
		return unreachable(err)
	}
	if at := strings.LastIndexByte(is, '@'); at < 0 || is[:at] != user {
		return &Error{Failure: WrongUser}
	}
	return nil
}

// mysqlRefusal sorts an error number: 1045 and 1698 are a wrong user or
// password, 3118 and 4151 an account that is locked, 1820 and 1862 a password
// that has expired; 1053 is a server that stops.
func mysqlRefusal(number uint16) Failure {
	switch number {
	case 1045, 1698, 3118, 4151, 1820, 1862:
		return AuthRefused
	case 1053:
		return Unreachable
	default:
		return Refused
	}
}
