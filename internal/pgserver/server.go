package pgserver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasesvc/leasesvc/internal/privateserver"
)

const (
	superuser = "postgres"
	database  = "postgres"

	maxConnections = 300
	readyWithin    = 60 * time.Second
	stopWithin     = 15 * time.Second
)

// Server is one private PostgreSQL server. A stop ends its sessions; what was
// committed stays.
type Server struct {
	*privateserver.Server
	bin     string // directory of initdb and postgres
	account account
}

// Open makes a data directory and starts a server on it; it returns when the
// server answers, usually within a few seconds. The caller must Close it. The
// error wraps [ErrNotInstalled] where there is no PostgreSQL to start.
func Open() (*Server, error) {
	bin, err := binaries(debianBinaries)
	if err != nil {
		return nil, err
	}
	acc, err := serverAccount()
	if err != nil {
		return nil, err
	}
	dir, err := acc.directory()
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, account: acc}
	s.Server = privateserver.New(privateserver.Kind{
		Name: "PostgreSQL", Ports: 1, Commands: s.commands, Ping: s.ping,
		Ready: readyWithin, Stop: stopWithin, Poll: 20 * time.Millisecond,
		Ends: syscall.SIGINT, Orphaned: syscall.SIGQUIT, // a fast shutdown, and an immediate one, children included
	}, dir)
	if err := s.initialise(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.Server.Open(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Server) initialise() error {
	pwfile := filepath.Join(s.Dir(), "password")
	if err := os.WriteFile(pwfile, []byte(s.Password()+"\n"), 0o600); err != nil {
		return fmt.Errorf("write the superuser's password: %w", err)
	}
	if err := s.account.own(pwfile); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
	defer cancel()
	// initdb inherits nothing: a PGDATA or LC_* of the caller's would change
	// what the server is.
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, "initdb"),
		"--pgdata", s.data(), "--username", superuser, "--pwfile", pwfile,
		"--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync")
	cmd.Dir, cmd.Env = s.Dir(), s.environment()
	cmd.SysProcAttr = s.account.attributes()
	cmd.WaitDelay = stopWithin // killed, it can leave children that hold its output open
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb in %s: %w\n%s", s.Dir(), err, out)
	}
	if err := os.Remove(pwfile); err != nil {
		return fmt.Errorf("remove the superuser's password file: %w", err)
	}
	return nil
}

func (s *Server) commands(ports []int) ([]privateserver.Command, error) {
	settings := []string{
		"listen_addresses=127.0.0.1",
		"unix_socket_directories=" + s.Dir(),
		"max_connections=" + strconv.Itoa(maxConnections),
		"shared_buffers=32MB",
		"fsync=off", "synchronous_commit=off", "full_page_writes=off",
		"logging_collector=off",
		// A statement that fails may be one that sets a password.
		"log_min_error_statement=panic",
	}
	args := []string{"-D", s.data(), "-p", strconv.Itoa(ports[0])}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	cmd := exec.CommandContext(context.Background(), filepath.Join(s.bin, "postgres"), args...)
	cmd.Dir, cmd.Env = s.Dir(), s.environment()
	cmd.SysProcAttr = s.account.attributes()
	return []privateserver.Command{{Cmd: cmd, Log: "log"}}, nil
}

func (s *Server) ping(ctx context.Context, ports []int) error {
	c, err := pgx.Connect(ctx, s.dsn(ports[0]))
	if err != nil {
		return err
	}
	return errors.Join(c.Ping(ctx), c.Close(ctx))
}

// DSN is the URL the superuser connects with, over TCP. It holds the password.
func (s *Server) DSN() string { return s.dsn(s.Port()) }

func (s *Server) dsn(port int) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(superuser, s.Password()),
		Host: privateserver.Loopback(port), Path: "/" + database, RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Superuser is the name of the account in [Server.DSN].
func (*Server) Superuser() string { return superuser }

// Roles lists, sorted, the login roles a Vault made: those whose name begins
// with "v-".
func (s *Server) Roles(ctx context.Context) ([]string, error) {
	c, err := pgx.Connect(ctx, s.DSN())
	if err != nil {
		return nil, fmt.Errorf("list the roles: %w", err)
	}
	defer c.Close(context.WithoutCancel(ctx))
	rows, err := c.Query(ctx, `SELECT rolname::text FROM pg_roles WHERE rolcanlogin AND rolname LIKE 'v-%' ORDER BY 1`)
	if err != nil {
		return nil, fmt.Errorf("list the roles: %w", err)
	}
	roles, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("list the roles: %w", err)
	}
	return roles, nil
}

func (s *Server) data() string { return s.File("data") }

func (s *Server) environment() []string {
	return []string{"PATH=" + s.bin + ":/usr/bin:/bin", "LC_ALL=C", "TZ=UTC", "HOME=" + s.Dir()}
}
