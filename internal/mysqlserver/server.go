package mysqlserver

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/leasesvc/leasesvc/internal/process"
	"github.com/leasesvc/leasesvc/secret"
)

const (
	superuser = "root"

	// maxParent is how long the path above the server's directory may be: that
	// of a socket has at most 107 bytes.
	maxParent = 64

	installWithin = 120 * time.Second
	readyWithin   = 60 * time.Second
	stopWithin    = 20 * time.Second
	readyPoll     = 20 * time.Millisecond
	portAttempts  = 5
)

var errEnded = errors.New("ended while starting")

// Server is one private MariaDB server.
type Server struct {
	programs programs
	dir      string // data, socket, log
	password secret.String

	mu     sync.Mutex // Start, Stop, Restart, Close, and the three below
	port   int
	run    *process.Process // nil while stopped
	closed bool             // for ever: the data is gone
}

// Open makes a data directory and starts a server on it; it returns when the
// server answers, usually after some seconds. The caller must [Server.Close] it.
// The error wraps [ErrNotInstalled] where there is no MariaDB to start.
func Open() (*Server, error) {
	found, err := find()
	if err != nil {
		return nil, err
	}
	parent := ""
	if len(os.TempDir()) > maxParent {
		parent = "/tmp"
	}
	dir, err := os.MkdirTemp(parent, "leasesvc-mysql-")
	if err != nil {
		return nil, fmt.Errorf("make the server's directory: %w", err)
	}
	s := &Server{programs: found, dir: dir, password: secret.New(rand.Text())}
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
			if err = os.Remove(s.file("init.sql")); err != nil {
				break
			}
			return s, nil
		}
		if !errors.Is(err, errEnded) {
			break
		}
	}
	return nil, errors.Join(err, s.Close())
}

// initialise makes the system tables, and writes what the first start does:
// leave one account that can log in.
func (s *Server) initialise() error {
	ctx, cancel := context.WithTimeout(context.Background(), installWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.programs.install, "--no-defaults", "--datadir="+s.file("data"), "--user="+account(),
		"--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve", "--innodb-log-file-size=8M")
	cmd.Dir, cmd.Env = s.dir, s.environment()
	cmd.WaitDelay = stopWithin // killed, it can leave children that hold its output open
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mariadb-install-db in %s: %w\n%s", s.dir, err, out)
	}
	first := fmt.Sprintf(`CREATE OR REPLACE USER '%s'@'127.0.0.1' IDENTIFIED BY '%s';
GRANT ALL ON *.* TO '%[1]s'@'127.0.0.1' WITH GRANT OPTION;
DELETE FROM mysql.global_priv WHERE User <> 'mariadb.sys' AND NOT (User = '%[1]s' AND Host = '127.0.0.1');
FLUSH PRIVILEGES;
`, superuser, s.password.Reveal())
	if err := os.WriteFile(s.file("init.sql"), []byte(first), 0o600); err != nil {
		return fmt.Errorf("write the server's account: %w", err)
	}
	return nil
}

// account is who runs the server: whoever runs us, which root must say aloud.
func account() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return strconv.Itoa(os.Geteuid())
}

// Start starts the server again after [Server.Stop], on the same port and data,
// and returns when it answers.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.start()
}

// Stop shuts the server down: sessions are ended, what was committed stays. To
// stop a stopped server is no error.
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
		return fmt.Errorf("start MariaDB on port %d: it is closed and its data removed", s.port)
	}
	if s.run != nil {
		return fmt.Errorf("start MariaDB on port %d: it runs already", s.port)
	}
	run, err := process.Start(s.command(), s.Log(), syscall.SIGKILL)
	if err != nil {
		return fmt.Errorf("start MariaDB on port %d: %w", s.port, err)
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
	err := s.run.End(syscall.SIGTERM, stopWithin)
	s.run = nil
	if err != nil {
		return fmt.Errorf("stop MariaDB on port %d: %w", s.port, err)
	}
	return nil
}

func (s *Server) command() *exec.Cmd {
	args := []string{
		"--no-defaults", "--datadir=" + s.file("data"), "--socket=" + s.file("socket"), "--pid-file=" + s.file("pid"),
		"--bind-address=127.0.0.1", "--port=" + strconv.Itoa(s.port), "--skip-name-resolve", "--user=" + account(),
		"--max-connections=300", "--innodb-buffer-pool-size=32M", "--innodb-log-file-size=8M",
		"--innodb-flush-log-at-trx-commit=0", "--skip-log-bin", "--performance-schema=OFF",
	}
	if _, err := os.Stat(s.file("init.sql")); err == nil {
		args = append(args, "--init-file="+s.file("init.sql"))
	}
	// No context ends it: its owner does, in order.
	cmd := exec.CommandContext(context.Background(), s.programs.server, args...)
	cmd.Dir, cmd.Env = s.dir, s.environment()
	return cmd
}

func (s *Server) environment() []string {
	return []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin", "LC_ALL=C", "TZ=UTC", "HOME=" + s.dir, "TMPDIR=" + s.dir}
}

func (s *Server) awaitReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
	defer cancel()
	for {
		err := login(ctx, s.addr(), superuser, s.password.Reveal())
		if err == nil {
			return nil
		}
		select {
		case <-s.run.Exited():
			return fmt.Errorf("the MariaDB server on port %d %w: %s", s.port, errEnded, s.run.State())
		case <-ctx.Done():
			return fmt.Errorf("the MariaDB server on port %d did not answer within %v: %w", s.port, readyWithin, err)
		case <-time.After(readyPoll):
		}
	}
}

// Login tries a user name and password on a connection of its own.
func (s *Server) Login(ctx context.Context, user, password string) error {
	return login(ctx, s.Addr(), user, password)
}

func login(ctx context.Context, addr, user, password string) error {
	db, err := open(addr, user, password)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.PingContext(ctx); err != nil {
		return fmt.Errorf("log in as %q: %w", user, err)
	}
	return nil
}

func open(addr, user, password string) (*sql.DB, error) {
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.User, cfg.Passwd = "tcp", addr, user, password
	cfg.Logger = &mysql.NopLogger{} // a server that is just starting is no news
	c, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("open %s as %q: %w", addr, user, err)
	}
	return sql.OpenDB(c), nil
}

// DB opens the server as the superuser. The caller closes it.
func (s *Server) DB() (*sql.DB, error) { return open(s.Addr(), superuser, s.password.Reveal()) }

// Users gives the accounts that look like a Vault's ("v-..."), sorted.
func (s *Server) Users(ctx context.Context) ([]string, error) {
	db, err := s.DB()
	if err != nil {
		return nil, err
	}
	defer db.Close()
	rows, err := db.QueryContext(ctx, `SELECT User FROM mysql.global_priv WHERE User LIKE 'v-%' ORDER BY 1`)
	if err != nil {
		return nil, fmt.Errorf("list the accounts: %w", err)
	}
	defer rows.Close()
	var users []string
	for rows.Next() {
		var u string
		if err := rows.Scan(&u); err != nil {
			return nil, fmt.Errorf("list the accounts: %w", err)
		}
		users = append(users, u)
	}
	return users, rows.Err()
}

// Close stops the server and removes its files, after which it cannot be
// started. To close a closed server is no error.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	err := s.stop()
	if rmErr := os.RemoveAll(s.dir); rmErr != nil {
		err = errors.Join(err, fmt.Errorf("remove MariaDB's directory: %w", rmErr))
	}
	return err
}

// String implements fmt.Stringer without the password.
func (s *Server) String() string { return "MariaDB on " + s.Addr() }

// GoString implements fmt.GoStringer, so that %#v shows no password either.
func (s *Server) GoString() string { return s.String() }

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

// Superuser is the name of the account that there is.
func (*Server) Superuser() string { return superuser }

// Password is the superuser's password.
func (s *Server) Password() string { return s.password.Reveal() }

// Log is the file with the server's log; it is gone after [Server.Close].
func (s *Server) Log() string { return s.file("log") }

func (s *Server) file(name string) string { return filepath.Join(s.dir, name) }

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
