package privateserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/leasesvc/leasesvc/internal/process"
	"github.com/leasesvc/leasesvc/secret"
)

// portAttempts is how often a first start tries other ports: somebody else can
// take one between our finding it free and the server's binding it, which ends the
// server.
const portAttempts = 5

var errEnded = errors.New("ended while starting")

// Kind says what a server is and how it is run. Its functions are called one at a
// time, with the ports in use; the first of these is the server's.
type Kind struct {
	// Name is what errors call it: "PostgreSQL".
	Name string
	// Ports is how many ports it takes.
	Ports int
	// Commands gives what is to run, the server last; what runs before it serves it,
	// and holds nothing. No context ends them: their owner does, in order.
	Commands func(ports []int) ([]Command, error)
	// Ping tells whether the server answers; another one on its port would not.
	Ping func(ctx context.Context, ports []int) error
	// Ready bounds the wait for that, asked every Poll; Stop that for its end.
	Ready, Stop, Poll time.Duration
	// Ends is the signal that ends the server in order, Orphaned the one that the
	// kernel sends it when its owner is killed.
	Ends, Orphaned syscall.Signal
	// Hasty: an orderly end takes long, for data that goes anyway, so Close kills.
	Hasty bool
}

// Command is a program to run, with the name of its log in the directory.
type Command struct {
	*exec.Cmd
	Log string
}

// Server is one private server.
type Server struct {
	kind     Kind
	dir      string
	password secret.String

	mu      sync.Mutex // Start, Stop, Restart, Close, and those below
	ports   []int
	running []*process.Process // the server is the last; nil while stopped
	closed  bool               // for ever: the files are gone
}

// New gives a server, not started, with a directory that is to be its own and a
// random password. The caller must [Server.Close] it.
func New(kind Kind, dir string) *Server {
	return &Server{kind: kind, dir: dir, password: secret.New(rand.Text())}
}

// Open starts the server for the first time, and returns when it answers. Where
// that fails it is closed.
func (s *Server) Open() error {
	var err error
	for range portAttempts {
		if s.ports, err = freePorts(s.kind.Ports); err != nil {
			break
		}
		if err = s.Start(); err == nil {
			return nil
		}
		if !errors.Is(err, errEnded) {
			break
		}
	}
	return errors.Join(err, s.Close())
}

// Start starts the server again after [Server.Stop], on the same ports and files,
// and returns when it answers.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.start()
}

// Stop ends the server in order. To stop a stopped server is no error.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stop()
}

// Restart stops the server and starts it on the same ports and files.
func (s *Server) Restart() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.stop(); err != nil {
		return err
	}
	return s.start()
}

// Close ends the server and removes its files, after which it cannot be started.
// To close a closed server is no error.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if n := len(s.running); n > 0 && s.kind.Hasty {
		s.running[n-1].Kill()
	}
	err := s.stop()
	if rmErr := os.RemoveAll(s.dir); rmErr != nil {
		err = errors.Join(err, fmt.Errorf("remove the directory of %s: %w", s.kind.Name, rmErr))
	}
	return err
}

func (s *Server) start() error {
	fail := func(err error) error { return fmt.Errorf("start %s: %w", s, err) }
	if s.closed {
		return fail(errors.New("it is closed and its files removed"))
	}
	if s.running != nil {
		return fail(errors.New("it runs already"))
	}
	commands, err := s.kind.Commands(s.ports)
	if err != nil {
		return fail(err)
	}
	for _, c := range commands {
		run, err := process.Start(c.Cmd, s.File(c.Log), s.kind.Orphaned)
		if err != nil {
			return errors.Join(fail(err), s.stop())
		}
		s.running = append(s.running, run)
	}
	server := s.running[len(s.running)-1]
	if err := s.awaitReady(server); err != nil {
		return errors.Join(fmt.Errorf("%w\n%s", err, server.LogTail()), s.stop())
	}
	return nil
}

func (s *Server) stop() error {
	if s.running == nil {
		return nil
	}
	last := len(s.running) - 1
	err := s.running[last].End(s.kind.Ends, s.kind.Stop)
	for _, p := range s.running[:last] {
		p.Kill()
	}
	s.running = nil
	if err != nil {
		return fmt.Errorf("stop %s: %w", s, err)
	}
	return nil
}

func (s *Server) awaitReady(server *process.Process) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.kind.Ready)
	defer cancel()
	for {
		err := s.kind.Ping(ctx, s.ports)
		if err == nil {
			return nil
		}
		select {
		case <-server.Exited():
			return fmt.Errorf("%s %w: %s", s, errEnded, server.State())
		case <-ctx.Done():
			return fmt.Errorf("%s did not answer within %v: %w", s, s.kind.Ready, err)
		case <-time.After(s.kind.Poll):
		}
	}
}

// String implements fmt.Stringer without the password. The ports are settled
// before anybody has the server.
func (s *Server) String() string {
	if len(s.ports) == 0 {
		return s.kind.Name
	}
	return s.kind.Name + " on " + s.Addr()
}

// GoString implements fmt.GoStringer, so that %#v shows no password either.
func (s *Server) GoString() string { return s.String() }

// Port is the server's TCP port; it stays the same over a restart.
func (s *Server) Port() int { return s.ports[0] }

// Addr is the server's "127.0.0.1:port".
func (s *Server) Addr() string { return Loopback(s.ports[0]) }

// Ports are all of the server's ports.
func (s *Server) Ports() []int { return s.ports }

// Password is the random one, for the server's first account.
func (s *Server) Password() string { return s.password.Reveal() }

// Log is the file with the server's log, for who wants to show it or to search it;
// it is gone after [Server.Close].
func (s *Server) Log() string { return s.File("log") }

// File gives the path of a file in the server's directory.
func (s *Server) File(name string) string { return filepath.Join(s.dir, name) }

// Dir is the server's directory.
func (s *Server) Dir() string { return s.dir }

// Loopback gives "127.0.0.1:port".
func Loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// freePorts finds them all at once: one after the other might be the same.
func freePorts(n int) ([]int, error) {
	found := make([]int, n)
	for i := range found {
		var lc net.ListenConfig
		l, err := lc.Listen(context.Background(), "tcp4", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close()
		found[i] = l.Addr().(*net.TCPAddr).Port
	}
	return found, nil
}
