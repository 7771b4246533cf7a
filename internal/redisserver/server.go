package redisserver

import (
	"bufio"
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
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/leasesvc/leasesvc/internal/process"
	"github.com/leasesvc/leasesvc/secret"
)

const (
	// superuser is the account that a connection has before it logs in, and
	// the only one there is at the start.
	superuser = "default"

	readyWithin  = 30 * time.Second
	stopWithin   = 10 * time.Second
	readyPoll    = 10 * time.Millisecond
	portAttempts = 5
)

var errEnded = errors.New("ended while starting")

// Server is one private Redis server.
type Server struct {
	bin      string
	dir      string
	password secret.String

	mu     sync.Mutex // Start, Stop, Restart, Close, and the three below
	port   int
	run    *process.Process // nil while stopped
	closed bool             // for ever: the files are gone
}

// Open makes a directory and starts a server in it; it returns when the
// server answers, usually within a tenth of a second. The caller must
// [Server.Close] it. The error wraps [ErrNotInstalled] where there is no Redis
// to start.
func Open() (*Server, error) {
	bin, err := binary()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "leasesvc-redis-")
	if err != nil {
		return nil, fmt.Errorf("make the server's directory: %w", err)
	}
	s := &Server{bin: bin, dir: dir, password: secret.New(rand.Text())}
	// Accounts stand in a file of their own, so that ACL SAVE works.
	acl := "user " + superuser + " on >" + s.password.Reveal() + " ~* &* +@all\n"
	if err := os.WriteFile(s.aclFile(), []byte(acl), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("write the server's accounts: %w", err), s.Close())
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

// Start starts the server again after [Server.Stop], on the same port, and
// returns when it answers.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.start()
}

// Stop ends the server in order: connections are closed, data is gone. To stop
// a stopped server is no error.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stop()
}

// Restart stops the server and starts it on the same port, without data and
// with the accounts that were saved last.
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
		return fmt.Errorf("start Redis on port %d: it is closed and its files removed", s.port)
	}
	if s.run != nil {
		return fmt.Errorf("start Redis on port %d: it runs already", s.port)
	}
	run, err := process.Start(s.command(), s.Log(), syscall.SIGKILL)
	if err != nil {
		return fmt.Errorf("start Redis on port %d: %w", s.port, err)
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
		return fmt.Errorf("stop Redis on port %d: %w", s.port, err)
	}
	return nil
}

func (s *Server) command() *exec.Cmd {
	// No context ends it: its owner does, in order.
	cmd := exec.CommandContext(context.Background(), s.bin,
		"--bind", "127.0.0.1", "--port", strconv.Itoa(s.port), "--dir", s.dir, "--aclfile", s.aclFile(),
		"--save", "", "--appendonly", "no", "--daemonize", "no", "--logfile", "")
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "TZ=UTC", "HOME=" + s.dir}
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
			return fmt.Errorf("the Redis server on port %d %w: %s", s.port, errEnded, s.run.State())
		case <-ctx.Done():
			return fmt.Errorf("the Redis server on port %d did not answer within %v: %w", s.port, readyWithin, err)
		case <-time.After(readyPoll):
		}
	}
}

// ping logs in as the superuser: another server on our port would refuse it.
func (s *Server) ping(ctx context.Context) error {
	return login(ctx, s.addr(), superuser, s.password.Reveal())
}

// Login tries a user name and password on a connection of its own.
func (s *Server) Login(ctx context.Context, user, password string) error {
	return login(ctx, s.Addr(), user, password)
}

// login speaks as much of the protocol as a login takes: inline commands
// would put quotes around what they can't hold, so it is a bulk array.
func login(ctx context.Context, addr, user, password string) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp4", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(deadline)
	}
	var b strings.Builder
	args := []string{"AUTH", user, password}
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := c.Write([]byte(b.String())); err != nil {
		return fmt.Errorf("send the login: %w", err)
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return fmt.Errorf("read the answer to the login: %w", err)
	}
	if line = strings.TrimSpace(line); line != "+OK" {
		return fmt.Errorf("log in as %q: %s", user, strings.TrimPrefix(line, "-"))
	}
	return nil
}

// Close stops the server and removes its files, after which it cannot be
// started. To close a closed server is no error.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	err := s.stop()
	if rmErr := os.RemoveAll(s.dir); rmErr != nil {
		err = errors.Join(err, fmt.Errorf("remove Redis's directory: %w", rmErr))
	}
	return err
}

// String implements fmt.Stringer without the password.
func (s *Server) String() string { return "Redis on " + s.Addr() }

// GoString implements fmt.GoStringer, so that %#v shows no password either.
func (s *Server) GoString() string { return s.String() }

// URL is the redis:// URL of the superuser. It holds the password.
func (s *Server) URL() string {
	u := url.URL{Scheme: "redis", User: url.UserPassword(superuser, s.password.Reveal()), Host: s.Addr(), Path: "/0"}
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

// Superuser is the name of the account in [Server.URL].
func (*Server) Superuser() string { return superuser }

// Password is the superuser's password.
func (s *Server) Password() string { return s.password.Reveal() }

// Log is the file with the server's log; it is gone after [Server.Close].
func (s *Server) Log() string { return filepath.Join(s.dir, "log") }

func (s *Server) aclFile() string { return filepath.Join(s.dir, "users.acl") }

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
