package pgtest

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
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasesvc/leasesvc/itest/proctest"
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

// Server is one private PostgreSQL server.
type Server struct {
	bin      string // directory of initdb and postgres
	dir      string // data, socket, log; owned by account
	account  account
	password string

	mu   sync.Mutex // Start, Stop, Restart, and the two below
	port int
	run  *proctest.Process // nil while stopped
}

// Start starts a server for t and stops it at t's end. It ends t when there is
// no PostgreSQL to start.
func Start(t testing.TB) *Server {
	t.Helper()
	s, err := open()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return s
}

// open makes the data directory and starts a server on it.
func open() (*Server, error) {
	bin, err := binaries()
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
	s := &Server{bin: bin, dir: dir, account: acc, password: rand.Text()}
	if err := s.initialise(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	// Somebody else can take a port between our finding it free and the
	// server's binding it, so a first start may try several.
	for range portAttempts {
		if s.port, err = freePort(); err != nil {
			break
		}
		if err = s.Start(); err == nil {
			return s, nil
		}
	}
	return nil, errors.Join(err, s.close())
}

func (s *Server) initialise() error {
	pwfile := filepath.Join(s.dir, "password")
	if err := os.WriteFile(pwfile, []byte(s.password+"\n"), 0o600); err != nil {
		return fmt.Errorf("write the superuser's password: %w", err)
	}
	if err := s.account.own(pwfile); err != nil {
		return err
	}
	// initdb inherits nothing: a PGDATA or LC_* of the caller's would change
	// what the test runs on.
	cmd := exec.Command(filepath.Join(s.bin, "initdb"),
		"--pgdata", s.data(), "--username", superuser, "--pwfile", pwfile,
		"--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync")
	cmd.Dir, cmd.Env = s.dir, s.environment()
	cmd.SysProcAttr = s.account.attributes()
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
	if s.run != nil {
		return fmt.Errorf("start PostgreSQL on port %d: it runs already", s.port)
	}
	// SIGQUIT is PostgreSQL's immediate shutdown, children included.
	run, err := proctest.Start(s.command(), s.Log(), syscall.SIGQUIT)
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
	}
	args := []string{"-D", s.data(), "-p", strconv.Itoa(s.port)}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	cmd := exec.Command(filepath.Join(s.bin, "postgres"), args...)
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
			return fmt.Errorf("PostgreSQL on port %d ended while starting: %s", s.port, s.run.State())
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

func (s *Server) close() error {
	return errors.Join(s.Stop(), os.RemoveAll(s.dir))
}

// DSN is the URL the superuser connects with, over TCP.
func (s *Server) DSN() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dsn()
}

func (s *Server) dsn() string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(superuser, s.password),
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
func (s *Server) Password() string { return s.password }

// Log is where the server writes its log, for a test that wants to show it or
// to search it.
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
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return 0, fmt.Errorf("let go of the free port %d: %w", port, err)
	}
	return port, nil
}
