package redisserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/leasesvc/leasesvc/internal/privateserver"
)

// superuser is the account that a connection has before it logs in, and the only
// one there is at the start.
const superuser = "default"

// Server is one private Redis server. A stop loses its data; a restart has the
// accounts that were saved last.
type Server struct {
	*privateserver.Server
	bin string
}

// Open makes a directory and starts a server in it; it returns when the
// server answers, usually within a tenth of a second. The caller must
// Close it. The error wraps [ErrNotInstalled] where there is no Redis to start.
func Open() (*Server, error) {
	bin, err := binary()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "leasesvc-redis-")
	if err != nil {
		return nil, fmt.Errorf("make the server's directory: %w", err)
	}
	s := &Server{bin: bin}
	s.Server = privateserver.New(privateserver.Kind{
		Name: "Redis", Ports: 1, Commands: s.commands, Ping: s.ping,
		Ready: 30 * time.Second, Stop: 10 * time.Second, Poll: 10 * time.Millisecond, Ends: syscall.SIGTERM, Orphaned: syscall.SIGKILL,
	}, dir)
	// Accounts stand in a file of their own, so that ACL SAVE works.
	acl := "user " + superuser + " on >" + s.Password() + " ~* &* +@all\n"
	if err := os.WriteFile(s.aclFile(), []byte(acl), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("write the server's accounts: %w", err), s.Close())
	}
	if err := s.Server.Open(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Server) commands(ports []int) ([]privateserver.Command, error) {
	cmd := exec.CommandContext(context.Background(), s.bin,
		"--bind", "127.0.0.1", "--port", strconv.Itoa(ports[0]), "--dir", s.Dir(), "--aclfile", s.aclFile(),
		"--save", "", "--appendonly", "no", "--daemonize", "no", "--logfile", "")
	cmd.Dir = s.Dir()
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "TZ=UTC", "HOME=" + s.Dir()}
	return []privateserver.Command{{Cmd: cmd, Log: "log"}}, nil
}

// ping logs in as the superuser: another server on our port would refuse it.
func (s *Server) ping(ctx context.Context, ports []int) error {
	return login(ctx, privateserver.Loopback(ports[0]), superuser, s.Password())
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

// URL is the redis:// URL of the superuser. It holds the password.
func (s *Server) URL() string {
	u := url.URL{Scheme: "redis", User: url.UserPassword(superuser, s.Password()), Host: s.Addr(), Path: "/0"}
	return u.String()
}

// Superuser is the name of the account in [Server.URL].
func (*Server) Superuser() string { return superuser }

func (s *Server) aclFile() string { return s.File("users.acl") }
