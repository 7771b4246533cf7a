package rabbitserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/leasesvc/leasesvc/internal/process"
	"github.com/leasesvc/leasesvc/secret"
)

const (
	administrator = "admin"

	readyWithin  = 120 * time.Second
	stopWithin   = 30 * time.Second
	readyPoll    = 50 * time.Millisecond
	portAttempts = 3
)

var errEnded = errors.New("ended while starting")

// ports are the four that a broker takes, all on 127.0.0.1.
type ports struct{ amqp, management, distribution, epmd int }

// Server is one private RabbitMQ broker.
type Server struct {
	programs programs
	dir      string // data, log, configuration, HOME
	password secret.String

	mu     sync.Mutex // Start, Stop, Restart, Close, and the four below
	ports  ports
	mapper *process.Process // epmd; nil while stopped
	run    *process.Process // nil while stopped
	closed bool             // for ever: the data is gone
}

// Open makes a directory and starts a broker in it; it returns when broker and
// management API answer, usually after 4 to 8 seconds. The caller must
// [Server.Close] it. The error wraps [ErrNotInstalled] where there is no
// RabbitMQ to start.
func Open() (*Server, error) {
	found, err := find(places)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "leasesvc-rabbit-")
	if err != nil {
		return nil, fmt.Errorf("make the broker's directory: %w", err)
	}
	s := &Server{programs: found, dir: dir, password: secret.New(rand.Text())}
	// Somebody else can take a port between our finding it free and the
	// broker's binding it, which ends the broker; so a first start may try
	// several.
	for range portAttempts {
		if s.ports, err = freePorts(); err != nil {
			break
		}
		if err = s.configure(); err != nil {
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

// Start starts the broker again after [Server.Stop], on the same ports and
// data, and returns when it answers.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.start()
}

// Stop shuts the broker down in order: connections are closed, accounts and
// durable queues stay. To stop a stopped broker is no error.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stop()
}

// Restart stops the broker and starts it on the same ports and data.
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
		return fmt.Errorf("start RabbitMQ on port %d: it is closed and its data removed", s.ports.amqp)
	}
	if s.run != nil {
		return fmt.Errorf("start RabbitMQ on port %d: it runs already", s.ports.amqp)
	}
	var err error
	if s.mapper, err = process.Start(s.mapperCommand(), s.file("epmd.log"), syscall.SIGKILL); err != nil {
		return fmt.Errorf("start RabbitMQ's port mapper: %w", err)
	}
	if s.run, err = process.Start(s.brokerCommand(), s.Log(), syscall.SIGKILL); err != nil {
		return errors.Join(fmt.Errorf("start RabbitMQ on port %d: %w", s.ports.amqp, err), s.stop())
	}
	if err := s.awaitReady(); err != nil {
		return errors.Join(fmt.Errorf("%w\n%s", err, s.run.LogTail()), s.stop())
	}
	return nil
}

func (s *Server) stop() error {
	var err error
	if s.run != nil {
		err = s.run.End(syscall.SIGTERM, stopWithin) // an orderly shutdown
		s.run = nil
	}
	if s.mapper != nil {
		s.mapper.Kill() // it holds nothing
		s.mapper = nil
	}
	if err != nil {
		return fmt.Errorf("stop RabbitMQ on port %d: %w", s.ports.amqp, err)
	}
	return nil
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
			return fmt.Errorf("RabbitMQ on port %d %w: %s", s.ports.amqp, errEnded, s.run.State())
		case <-ctx.Done():
			return fmt.Errorf("RabbitMQ on port %d did not answer within %v: %w", s.ports.amqp, readyWithin, err)
		case <-time.After(readyPoll):
		}
	}
}

// ping logs in at both doors: another broker on our ports would refuse it.
func (s *Server) ping(ctx context.Context) error {
	if err := login(ctx, s.addr(), administrator, s.password.Reveal(), "/"); err != nil {
		return err
	}
	return get(ctx, s.managementURL()+"/api/whoami", administrator, s.password.Reveal())
}

// Login tries a user name and password on an AMQP connection of its own, up to
// the opening of the virtual host.
func (s *Server) Login(ctx context.Context, user, password, vhost string) error {
	return login(ctx, s.Addr(), user, password, vhost)
}

// Close kills the broker and removes its files, after which it cannot be
// started. To close a closed broker is no error.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.run != nil {
		s.run.Kill() // an orderly end takes seconds, for data that goes anyway
		s.run = nil
	}
	err := s.stop()
	if rmErr := os.RemoveAll(s.dir); rmErr != nil {
		err = errors.Join(err, fmt.Errorf("remove RabbitMQ's directory: %w", rmErr))
	}
	return err
}

// String implements fmt.Stringer without the password.
func (s *Server) String() string { return "RabbitMQ on " + s.Addr() }

// GoString implements fmt.GoStringer, so that %#v shows no password either.
func (s *Server) GoString() string { return s.String() }

// URL is the amqp:// URL of the administrator at the virtual host "/". It holds
// the password.
func (s *Server) URL() string {
	u := url.URL{Scheme: "amqp", User: url.UserPassword(administrator, s.password.Reveal()), Host: s.Addr(), Path: "/"}
	return u.String()
}

// Addr is the broker's "127.0.0.1:port" for AMQP.
func (s *Server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr()
}

func (s *Server) addr() string { return loopback(s.ports.amqp) }

// Port is the broker's TCP port for AMQP; it stays the same over a restart.
func (s *Server) Port() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ports.amqp
}

// ManagementURL is where the management API answers, without an account:
// "http://127.0.0.1:port".
func (s *Server) ManagementURL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.managementURL()
}

func (s *Server) managementURL() string { return "http://" + loopback(s.ports.management) }

// Administrator is the name of the account in [Server.URL].
func (*Server) Administrator() string { return administrator }

// Password is the administrator's password.
func (s *Server) Password() string { return s.password.Reveal() }

// Log is the file with the broker's log; it is gone after [Server.Close].
func (s *Server) Log() string { return s.file("log") }

func (s *Server) file(name string) string { return filepath.Join(s.dir, name) }

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// freePorts finds four at once: one after the other might be the same.
func freePorts() (ports, error) {
	var found [4]int
	for i := range found {
		var lc net.ListenConfig
		l, err := lc.Listen(context.Background(), "tcp4", "127.0.0.1:0")
		if err != nil {
			return ports{}, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close()
		found[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports{found[0], found[1], found[2], found[3]}, nil
}
