package verify

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const applicationName = "leasesvc-verify"

var (
	errNotADSN = errors.New("the verifier's DSN cannot be read: write postgres://{{username}}:{{password}}@HOST:PORT/DATABASE" +
		" or host=HOST port=PORT dbname=DATABASE user={{username}} password={{password}}")
	errLiteralPassword = errors.New("the verifier's DSN has a password in it: write {{password}} there," +
		" the password of each new credential is put in its place")
	errNoPlaceholders = errors.New("the verifier's DSN must log in as the credential's own user:" +
		" write {{username}} as its user and {{password}} as its password")
	errNoHost         = errors.New("the verifier's DSN names no host: a default would depend on where the service runs")
	errForeignSetting = errors.New("the verifier's DSN must not use passfile, service, servicefile or sslpassword:" +
		" who logs in is decided by the credential alone")
)

// passwordSetting finds each password of a keyword DSN; the values are quoted
// or not.
var passwordSetting = regexp.MustCompile(`(?i)(?:^|\s)password\s*=\s*('(?:[^'\\]|\\.)*'|(?:[^\s\\]|\\.)*)`)

var foreignSetting = regexp.MustCompile(`(?i)(?:^|[\s?&])(passfile|service|servicefile|sslpassword)\s*=`)

// checkPostgreSQL renders the template with values that it can recognise, and
// looks where they end up.
func checkPostgreSQL(spec Spec) error {
	template := spec.DSN
	const user, password = "candidate-user", "candidate-password"
	stand := map[string]any{"username": user, "password": password}
	for _, found := range placeholder.FindAllStringSubmatch(template, -1) {
		if _, set := stand[found[1]]; !set {
			stand[found[1]] = "1" // fits a port as well as a name
		}
	}
	rendered, err := renderPostgreSQL(template, stand)
	if err != nil {
		return err
	}
	if foreignSetting.MatchString(rendered) {
		return errForeignSetting
	}
	passwords, host, err := inDSN(rendered)
	if err != nil {
		return err
	}
	for _, p := range passwords {
		if p != password {
			return errLiteralPassword
		}
	}
	cfg, err := parse(rendered)
	switch {
	case err != nil:
		return err
	case len(passwords) == 0 || cfg.User != user || cfg.Password != password:
		return errNoPlaceholders
	case !host:
		return errNoHost
	}
	return nil
}

func isURL(dsn string) bool {
	return strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://")
}

func renderPostgreSQL(template string, values map[string]any) (string, error) {
	if isURL(template) {
		return render(template, values, escapeURL)
	}
	return render(template, values, escapeKeyword)
}

// inDSN lists every password that stands in a DSN, also one that a later one
// overrides, and tells whether a host is named.
func inDSN(dsn string) (passwords []string, host bool, err error) {
	if !isURL(dsn) {
		for _, m := range passwordSetting.FindAllStringSubmatch(dsn, -1) {
			passwords = append(passwords, strings.Trim(m[1], "'"))
		}
		return passwords, regexp.MustCompile(`(?i)(?:^|\s)host(addr)?\s*=\s*[^\s]`).MatchString(dsn), nil
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return nil, false, errNotADSN // the error of url.Parse repeats the URL
	}
	if p, set := u.User.Password(); set {
		passwords = append(passwords, p)
	}
	q := u.Query()
	passwords = append(passwords, q["password"]...)
	return passwords, u.Host != "" || q.Has("host") || q.Has("hostaddr"), nil
}

// parse reads a rendered DSN; its errors don't repeat it, as pgx's do.
func parse(dsn string) (*pgx.ConnConfig, error) {
	cfg, err := pgx.ParseConfig(dsn)
	if err == nil {
		return cfg, nil
	}
	var file *fs.PathError
	if errors.As(err, &file) {
		return nil, errors.New("the verifier's DSN names a file (" + file.Path + ") that cannot be read: " + file.Err.Error())
	}
	return nil, errNotADSN
}

// preparePostgreSQL puts the values into the template and makes sure that they,
// and nothing of the process's surroundings, are what will log in.
func preparePostgreSQL(spec Spec, values map[string]any) (attempt, error) {
	dsn, err := renderPostgreSQL(spec.DSN, values)
	if err != nil {
		return nil, err
	}
	cfg, err := parse(dsn)
	if err != nil {
		return nil, err
	}
	user, err := scalar(values, "username")
	if err != nil {
		return nil, err
	}
	password, err := scalar(values, "password")
	if err != nil {
		return nil, err
	}
	if cfg.User != user || cfg.Password != password {
		return nil, errNoPlaceholders
	}
	if _, set := cfg.RuntimeParams["application_name"]; !set {
		cfg.RuntimeParams["application_name"] = applicationName
	}
	// A pooler between us and the server may know no prepared statements.
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	return func(ctx context.Context) *Error { return loginPostgreSQL(ctx, cfg.Copy()) }, nil
}

// loginPostgreSQL opens one session and asks whose it is. The question is about
// session_user, who logged in: current_user is somebody else where a role is set
// up with ALTER ROLE ... SET role, as Vault roles that own tables often are.
func loginPostgreSQL(ctx context.Context, cfg *pgx.ConnConfig) *Error {
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return failed(err)
	}
	defer func() {
		// The proof stands; a close that hangs must not keep it waiting.
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing)
	}()
	var user string
	if err := conn.QueryRow(ctx, "SELECT session_user::text").Scan(&user); err != nil {
		return failed(err)
	}
	if user != cfg.User {
		return &Error{Failure: WrongUser}
	}
	return nil
}

// failed names what pgx's error tells, without its text, which has the user,
// the host and at times the DSN in it.
func failed(err error) *Error {
	var server *pgconn.PgError
	if errors.As(err, &server) {
		return &Error{Failure: refusal(server.Code), Reason: "SQLSTATE " + server.Code}
	}
	return unreachable(err)
}

// refusal sorts an SQLSTATE: class 28 is about who asks; 57P03 is a server that
// is starting or stopping, 57P01 to 02 one that ends its sessions.
func refusal(code string) Failure {
	switch {
	case strings.HasPrefix(code, "28"):
		return AuthRefused
	case strings.HasPrefix(code, "57P"):
		return Unreachable
	default:
		return Refused
	}
}
