package devvault

import (
	"context"
	"crypto/subtle"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/leasesvc/leasesvc/secret"
)

// Permission is what a user may do, as regular expressions on names; an empty
// one allows nothing. Configure does not count for topics.
type Permission struct {
	Configure string `json:"configure"`
	Write     string `json:"write"`
	Read      string `json:"read"`
}

// BrokerUser is a user that a [Broker] is asked to create.
type BrokerUser struct {
	Name     string
	Password secret.String
	Tags     string                           // separated by commas
	VHosts   map[string]Permission            // by virtual host
	Topics   map[string]map[string]Permission // by virtual host and exchange
}

// Broker is where the RabbitMQ engine creates users. Implementations are safe
// for concurrent use.
type Broker interface {
	// CreateUser makes the user with all its permissions, or fails and leaves
	// nothing.
	CreateUser(ctx context.Context, u BrokerUser) error
	// DropUser removes the user; one that is not there is no error.
	DropUser(ctx context.Context, name string) error
	// Users names the users that are there, sorted.
	Users(ctx context.Context) ([]string, error)
}

// BrokerConnector is a [Broker] that can serve the broker that a
// configuration names. With verify, it must be reachable now.
type BrokerConnector interface {
	ConnectBroker(ctx context.Context, c Connection, verify bool) (Broker, error)
}

// MemoryBroker is a [Broker] in memory, with a login to try. The zero value is
// ready for use.
type MemoryBroker struct {
	mu    sync.Mutex
	users map[string]BrokerUser
	down  bool
}

// SetDown makes everything fail with [ErrDirectoryDown], or ends that.
func (b *MemoryBroker) SetDown(down bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down = down
}

// Login tries a user name and password at a virtual host. It returns nil, or
// ErrNoAccount, ErrWrongPassword, ErrNoPermission or ErrDirectoryDown, wrapped.
func (b *MemoryBroker) Login(user, password, vhost string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	u, ok := b.users[user]
	var err error
	switch {
	case b.down:
		err = ErrDirectoryDown
	case !ok:
		err = ErrNoAccount
	case subtle.ConstantTimeCompare([]byte(u.Password.Reveal()), []byte(password)) != 1:
		err = ErrWrongPassword
	default:
		if _, ok := u.VHosts[vhost]; ok {
			return nil
		}
		err = ErrNoPermission
	}
	return fmt.Errorf("logging in as %q at virtual host %q: %w", user, vhost, err)
}

// CreateUser implements Broker.
func (b *MemoryBroker) CreateUser(_ context.Context, u BrokerUser) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return ErrDirectoryDown
	}
	if b.users == nil {
		b.users = map[string]BrokerUser{}
	}
	b.users[u.Name] = u
	return nil
}

// DropUser implements Broker.
func (b *MemoryBroker) DropUser(_ context.Context, name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return ErrDirectoryDown
	}
	delete(b.users, name)
	return nil
}

// Users implements Broker.
func (b *MemoryBroker) Users(context.Context) ([]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return nil, ErrDirectoryDown
	}
	return slices.Sorted(maps.Keys(b.users)), nil
}

var _ Broker = (*MemoryBroker)(nil)
