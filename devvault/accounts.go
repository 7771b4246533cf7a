package devvault

import (
	"context"
	"errors"
	"time"

	"github.com/leasesvc/leasesvc/secret"
)

// Account is a login that a backend is asked to create.
type Account struct {
	User     string
	Password secret.String
	// Expires is when the backend itself should refuse the login, some
	// seconds after the lease ends.
	Expires time.Time
	// Statements create it, with {{name}}, {{username}}, {{password}} and
	// {{expiration}} to be filled in. Empty means the backend's own.
	Statements []string
}

// Accounts is where the database engine creates logins. Implementations are
// safe for concurrent use.
type Accounts interface {
	// Create makes the account, or fails and leaves nothing.
	Create(ctx context.Context, a Account) error
	// Drop removes the account; one that is not there is no error.
	Drop(ctx context.Context, user string, statements []string) error
	// List names the accounts that are there.
	List(ctx context.Context) ([]string, error)
}

// Extender is an [Accounts] that is told when a lease is renewed. Without it
// a renewal does not reach the account.
type Extender interface {
	Extend(ctx context.Context, user string, expires time.Time, statements []string) error
}

// PasswordSetter is an [Accounts] that can change the password of an account
// that exists; static roles need it.
type PasswordSetter interface {
	SetPassword(ctx context.Context, user string, password secret.String, statements []string) error
}

// UserNamer is an [Accounts] whose user names are of another form than
// "v-token-role-random-time".
type UserNamer interface {
	UserName(usual string) string
}

// Connection is what database/config/:name says about a server.
type Connection struct {
	// URL may hold {{username}} and {{password}}.
	URL      string
	Username string
	Password secret.String
	// Details are all other fields of the configuration, as they came: text,
	// bool, json.Number.
	Details map[string]any
}

// Connector is an [Accounts] that can serve the server that a configuration
// names instead of its own. With verify, it must be reachable now.
type Connector interface {
	Connect(ctx context.Context, c Connection, verify bool) (Accounts, error)
}

// expiryMargin is how much longer than its lease an account lives, so that it
// is the lease that ends it.
const expiryMargin = 5 * time.Second

// Errors of a login or of an account.
var (
	// ErrNoAccount: there is no such account (never was, or dropped).
	ErrNoAccount = errors.New("no such account")
	// ErrWrongPassword: the account has another password.
	ErrWrongPassword = errors.New("password authentication failed")
	// ErrAccountExpired: the account is past its time.
	ErrAccountExpired = errors.New("account has expired")
	// ErrAccountExists: an account of that name is there already.
	ErrAccountExists = errors.New("account exists")
	// ErrNoPermission: the account may not go there.
	ErrNoPermission = errors.New("access refused")
	// ErrDirectoryDown: [Directory.SetDown] or [MemoryBroker.SetDown] is in
	// force.
	ErrDirectoryDown = errors.New("directory is down")
)
