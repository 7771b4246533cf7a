package devvault

import (
	"context"
	"crypto/subtle"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/leasesvc/leasesvc/secret"
)

// Directory is an [Accounts] in memory, with a login to try. The zero value
// is ready for use.
type Directory struct {
	// Clock decides what has expired; nil is time.Now. It must not be changed
	// after the first use.
	Clock func() time.Time

	mu       sync.Mutex
	accounts map[string]directoryAccount
	down     bool
	logins   int
}

type directoryAccount struct {
	password secret.String
	expires  time.Time
}

func (d *Directory) now() time.Time {
	if d.Clock != nil {
		return d.Clock()
	}
	return time.Now()
}

// SetDown makes everything fail with [ErrDirectoryDown], or ends that.
func (d *Directory) SetDown(down bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.down = down
}

// Login tries a user name and password. It returns nil, or ErrNoAccount,
// ErrWrongPassword, ErrAccountExpired or ErrDirectoryDown, wrapped.
func (d *Directory) Login(user, password string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.login(user, password)
	if err != nil {
		return fmt.Errorf("logging in as %q: %w", user, err)
	}
	d.logins++
	return nil
}

func (d *Directory) login(user, password string) error {
	if d.down {
		return ErrDirectoryDown
	}
	a, ok := d.accounts[user]
	switch {
	case !ok:
		return ErrNoAccount
	case subtle.ConstantTimeCompare([]byte(a.password.Reveal()), []byte(password)) != 1:
		return ErrWrongPassword
	case !a.expires.IsZero() && !a.expires.After(d.now()):
		return ErrAccountExpired
	}
	return nil
}

// Logins counts the successful ones.
func (d *Directory) Logins() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.logins
}

// Create implements Accounts.
func (d *Directory) Create(_ context.Context, a Account) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down {
		return ErrDirectoryDown
	}
	if _, ok := d.accounts[a.User]; ok {
		return fmt.Errorf("creating %q: %w", a.User, ErrAccountExists)
	}
	if d.accounts == nil {
		d.accounts = map[string]directoryAccount{}
	}
	d.accounts[a.User] = directoryAccount{password: a.Password, expires: a.Expires}
	return nil
}

// Drop implements Accounts.
func (d *Directory) Drop(_ context.Context, user string, _ []string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down {
		return ErrDirectoryDown
	}
	delete(d.accounts, user)
	return nil
}

// Extend implements Extender.
func (d *Directory) Extend(_ context.Context, user string, expires time.Time, _ []string) error {
	return d.change(user, func(a *directoryAccount) { a.expires = expires })
}

// SetPassword implements PasswordSetter.
func (d *Directory) SetPassword(_ context.Context, user string, password secret.String, _ []string) error {
	return d.change(user, func(a *directoryAccount) { a.password = password })
}

func (d *Directory) change(user string, change func(*directoryAccount)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down {
		return ErrDirectoryDown
	}
	a, ok := d.accounts[user]
	if !ok {
		return fmt.Errorf("changing %q: %w", user, ErrNoAccount)
	}
	change(&a)
	d.accounts[user] = a
	return nil
}

// List implements Accounts; names are sorted.
func (d *Directory) List(context.Context) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down {
		return nil, ErrDirectoryDown
	}
	names := make([]string, 0, len(d.accounts))
	for n := range d.accounts {
		names = append(names, n)
	}
	slices.Sort(names)
	return names, nil
}

var (
	_ Accounts       = (*Directory)(nil)
	_ Extender       = (*Directory)(nil)
	_ PasswordSetter = (*Directory)(nil)
)
