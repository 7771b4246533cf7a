package pgserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasesvc/leasesvc/internal/process"
	"github.com/leasesvc/leasesvc/secret"
)

const (
	superuser = "postgres"
	database  = "postgres"

	maxConnections = 300
	readyWithin    = 60 * time.Second
	stopWithin     = 15 * time.Second
	readyPoll      = 20 * time.Millisecond
	portAttempts   = 5
)

var errEnded = errors.New("ended while starting")

// Server is one private PostgreSQL server.
type Server struct {
	bin      string // directory of initdb and postgres
	dir      string // data, socket, log; owned by account
	account  account
	password secret.String

	mu     sync.Mutex // Start, Stop, Restart, Close, and the three below
	port   int
	run    *process.Process // nil while stopped
	closed bool             // for ever: the data is gone
}

// Open makes a data directory and starts a server on it; it returns when the
// server answers, usually within a few seconds. The caller must [Server.Close]
// it. The error wraps [ErrNotInstalled] where there is no PostgreSQL to start.
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
	s := &Server{bin: bin, dir: dir, account: acc, password: secret.New(rand.Text())}
	if err := s.initialise(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	// Somebody else can take a port between our finding it free and the
	// server's binding it, which ends the server; so a first start may try
	// several.
	for range portAttempts {
		if s.port, err = freePort(); err != nil {
			break
		}
		if err = s.Start(); err == nil {
			return s, nil
		}
		if !errors.Is(err, errEnded) {
			break
		}
	}
	return nil, errors.Join(err, s.Close())
}

func (s *Server) initialise() error {
	pwfile := filepath.Join(s.dir, "password")
	if err := os.WriteFile(pwfile, []byte(s.password.Reveal()+"\n"), 0o600); err != nil {
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
	cmd.Dir, cmd.Env = s.dir, s.environment()
	cmd.SysProcAttr = s.account.attributes()
	cmd.WaitDelay = stopWithin // killed, it can leave children that hold its output open
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb in %s: %w\n%s", s.dir, err, out)
	}
	if err := os.Remove(pwfile); err != nil {
		return fmt.Errorf("remove the superuser's password file: %w", err)
	}
	return nil
}

// Start starts the server again after [Server.Stop], on the same port and
// data, and returns when it answers.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.start()
}

// Stop shuts the server down: sessions are ended, what was committed stays.
// To stop a stopped server is no error.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stop()
}

// Restart stops the server and starts it on the same port and data.
func (s *Server) Restart() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.stop(); err != nil {
		return err
	}
	return s.start()
}

func (s *Server) start() error {
	if s.closed {
		return fmt.Errorf("start PostgreSQL on port %d: it is closed and its data removed", s.port)
	}
	if s.run != nil {
		return fmt.Errorf("start PostgreSQL on port %d: it runs already", s.port)
	}
	// SIGQUIT is PostgreSQL's immediate shutdown, children included.
	run, err := process.Start(s.command(), s.Log(), syscall.SIGQUIT)
	if err != nil {
		return fmt.Errorf("start PostgreSQL on port %d: %w", s.port, err)
	}
	s.run = run
	if err := s.awaitReady(); err != nil {
		return errors.Join(fmt.Errorf("%w\n%s", err, s.run.LogTail()), s.stop())
	}
	return nil
}

func (s *Server) stop() error {
	if s.run == nil {
		return nil
	}
	err := s.run.End(syscall.SIGINT, stopWithin) // a fast shutdown
	s.run = nil
	if err != nil {
		return fmt.Errorf("stop PostgreSQL on port %d: %w", s.port, err)
	}
	return nil
}

func (s *Server) command() *exec.Cmd {
	settings := []string{
		"listen_addresses=127.0.0.1",
		"unix_socket_directories=" + s.dir,
		"max_connections=" + strconv.Itoa(maxConnections),
		"shared_buffers=32MB",
		"fsync=off", "synchronous_commit=off", "full_page_writes=off",
		"logging_collector=off",
		// A statement that fails may be one that sets a password.
		"log_min_error_statement=panic",
	}
	args := []string{"-D", s.data(), "-p", strconv.Itoa(s.port)}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	// No context ends it: its owner does, in order.
	cmd := exec.CommandContext(context.Background(), filepath.Join(s.bin, "postgres"), args...)
	cmd.Dir, cmd.Env = s.dir, s.environment()
	cmd.SysProcAttr = s.account.attributes()
	return cmd
}

func (s *Server) awaitReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
	defer cancel()
	for {
		err := s.ping(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.run.Exited():
			return fmt.Errorf("PostgreSQL on port %d %w: %s", s.port, errEnded, s.run.State())
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL on port %d did not answer within %v: %w", s.port, readyWithin, err)
		case <-time.After(readyPoll):
		}
	}
}

func (s *Server) ping(ctx context.Context) error {
	c, err := pgx.Connect(ctx, s.dsn())
	if err != nil {
		return err
	}
	return errors.Join(c.Ping(ctx), c.Close(ctx))
}

// Close stops the server and removes its files, after which it cannot be
// started. To close a closed server is no error.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	err := s.stop()
	if rmErr := os.RemoveAll(s.dir); rmErr != nil {
		err = errors.Join(err, fmt.Errorf("remove PostgreSQL's directory: %w", rmErr))
	}
	return err
}

// String implements fmt.Stringer without the password.
func (s *Server) String() string { return "PostgreSQL on " + s.Addr() }

// GoString implements fmt.GoStringer, so that %#v shows no password either.
func (s *Server) GoString() string { return s.String() }

// DSN is the URL the superuser connects with, over TCP. It holds the password.
func (s *Server) DSN() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dsn()
}

func (s *Server) dsn() string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(superuser, s.password.Reveal()),
		Host: s.addr(), Path: "/" + database, RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Addr is the server's "127.0.0.1:port".
func (s *Server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr()
}

func (s *Server) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Port is the server's TCP port; it stays the same over a restart.
func (s *Server) Port() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.port
}

// Superuser is the name of the account in [Server.DSN].
func (*Server) Superuser() string { return superuser }

// Password is the superuser's password.
func (s *Server) Password() string { return s.password.Reveal() }

// Log is the file with the server's log, for who wants to show it or to search
// it; it is gone after [Server.Close].
func (s *Server) Log() string { return filepath.Join(s.dir, "log") }

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

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) environment() []string {
	return []string{"PATH=" + s.bin + ":/usr/bin:/bin", "LC_ALL=C", "TZ=UTC", "HOME=" + s.dir}
}

func freePort() (int, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return 0, fmt.Errorf("let go of the free port %d: %w", port, err)
	}
	return port, nil
}
