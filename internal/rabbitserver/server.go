package rabbitserver

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"syscall"
	"time"

	"github.com/leasesvc/leasesvc/internal/privateserver"
)

const administrator = "admin"

// ports are the four that a broker takes, all on 127.0.0.1.
type ports struct{ amqp, management, distribution, epmd int }

func portsOf(found []int) ports { return ports{found[0], found[1], found[2], found[3]} }

// Server is one private RabbitMQ broker. A stop closes its connections; accounts
// and durable queues stay.
type Server struct {
	*privateserver.Server
	programs programs
}

// Open makes a directory and starts a broker in it; it returns when broker and
// management API answer, usually after 4 to 8 seconds. The caller must
// Close it. The error wraps [ErrNotInstalled] where there is no RabbitMQ to start.
func Open() (*Server, error) {
	found, err := find(places)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "leasesvc-rabbit-")
	if err != nil {
		return nil, fmt.Errorf("make the broker's directory: %w", err)
	}
	s := &Server{programs: found}
	s.Server = privateserver.New(privateserver.Kind{
		Name: "RabbitMQ", Ports: 4, Commands: s.commands, Ping: s.ping,
		Ready: 120 * time.Second, Stop: 30 * time.Second, Poll: 50 * time.Millisecond, Ends: syscall.SIGTERM, Orphaned: syscall.SIGKILL,
		Hasty: true,
	}, dir)
	if err := s.Server.Open(); err != nil {
		return nil, err
	}
	return s, nil
}

// ping logs in at both doors: another broker on our ports would refuse it.
func (s *Server) ping(ctx context.Context, found []int) error {
	p := portsOf(found)
	if err := login(ctx, privateserver.Loopback(p.amqp), administrator, s.Password(), "/"); err != nil {
		return err
	}
	return get(ctx, managementURL(p)+"/api/whoami", administrator, s.Password())
}

// Login tries a user name and password on an AMQP connection of its own, up to
// the opening of the virtual host.
func (s *Server) Login(ctx context.Context, user, password, vhost string) error {
	return login(ctx, s.Addr(), user, password, vhost)
}

// URL is the amqp:// URL of the administrator at the virtual host "/". It holds
// the password.
func (s *Server) URL() string {
	u := url.URL{Scheme: "amqp", User: url.UserPassword(administrator, s.Password()), Host: s.Addr(), Path: "/"}
	return u.String()
}

// ManagementURL is where the management API answers, without an account:
// "http://127.0.0.1:port".
func (s *Server) ManagementURL() string { return managementURL(portsOf(s.Ports())) }

func managementURL(p ports) string { return "http://" + privateserver.Loopback(p.management) }

// Administrator is the name of the account in [Server.URL].
func (*Server) Administrator() string { return administrator }
