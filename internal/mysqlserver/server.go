package mysqlserver

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/leasesvc/leasesvc/internal/privateserver"
)

const (
	superuser = "root"

	// maxParent is how long the path above the server's directory may be: that
	// of a socket has at most 107 bytes.
	maxParent = 64

	installWithin = 120 * time.Second
	stopWithin    = 20 * time.Second
)

// Server is one private MariaDB server. A stop ends its sessions; what was
// committed stays.
type Server struct {
	*privateserver.Server
	programs programs
}

// Open makes a data directory and starts a server on it; it returns when the
// server answers, usually after some seconds. The caller must Close it.
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
	s := &Server{programs: found}
	s.Server = privateserver.New(privateserver.Kind{
		Name: "MariaDB", Ports: 1, Commands: s.commands, Ping: s.ping,
		Ready: 60 * time.Second, Stop: stopWithin, Poll: 20 * time.Millisecond, Ends: syscall.SIGTERM, Orphaned: syscall.SIGKILL,
	}, dir)
	if err := s.initialise(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.Server.Open(); err != nil {
		return nil, err
	}
	if err := os.Remove(s.File("init.sql")); err != nil {
		return nil, errors.Join(fmt.Errorf("remove what the first start did: %w", err), s.Close())
	}
	return s, nil
}

// initialise makes the system tables, and writes what the first start does:
// leave one account that can log in.
func (s *Server) initialise() error {
	ctx, cancel := context.WithTimeout(context.Background(), installWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.programs.install, "--no-defaults", "--datadir="+s.File("data"), "--user="+account(),
		"--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve", "--innodb-log-file-size=8M")
	cmd.Dir, cmd.Env = s.Dir(), s.environment()
	cmd.WaitDelay = stopWithin // killed, it can leave children that hold its output open
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mariadb-install-db in %s: %w\n%s", s.Dir(), err, out)
	}
	first := fmt.Sprintf(`CREATE OR REPLACE USER '%s'@'127.0.0.1' IDENTIFIED BY '%s';
GRANT ALL ON *.* TO '%[1]s'@'127.0.0.1' WITH GRANT OPTION;
DELETE FROM mysql.global_priv WHERE User <> 'mariadb.sys' AND NOT (User = '%[1]s' AND Host = '127.0.0.1');
FLUSH PRIVILEGES;
`, superuser, s.Password())
	if err := os.WriteFile(s.File("init.sql"), []byte(first), 0o600); err != nil {
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

func (s *Server) commands(ports []int) ([]privateserver.Command, error) {
	args := []string{
		"--no-defaults", "--datadir=" + s.File("data"), "--socket=" + s.File("socket"), "--pid-file=" + s.File("pid"),
		"--bind-address=127.0.0.1", "--port=" + strconv.Itoa(ports[0]), "--skip-name-resolve", "--user=" + account(),
		"--max-connections=300", "--innodb-buffer-pool-size=32M", "--innodb-log-file-size=8M",
		"--innodb-flush-log-at-trx-commit=0", "--skip-log-bin", "--performance-schema=OFF",
	}
	if _, err := os.Stat(s.File("init.sql")); err == nil {
		args = append(args, "--init-file="+s.File("init.sql"))
	}
	cmd := exec.CommandContext(context.Background(), s.programs.server, args...)
	cmd.Dir, cmd.Env = s.Dir(), s.environment()
	return []privateserver.Command{{Cmd: cmd, Log: "log"}}, nil
}

func (s *Server) environment() []string {
	return []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin", "LC_ALL=C", "TZ=UTC", "HOME=" + s.Dir(), "TMPDIR=" + s.Dir()}
}

func (s *Server) ping(ctx context.Context, ports []int) error {
	return login(ctx, privateserver.Loopback(ports[0]), superuser, s.Password())
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
func (s *Server) DB() (*sql.DB, error) { return open(s.Addr(), superuser, s.Password()) }

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

// Superuser is the name of the account that there is.
func (*Server) Superuser() string { return superuser }
