package sqllease

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/consumer/sessions"
)

// Config says how sessions are opened and proven.
type Config struct {
	// UsernameKey and PasswordKey name the credential's keys, "username" and
	// "password" by default.
	UsernameKey, PasswordKey string
	// ProveTimeout bounds the proof of a candidate, retries of refused logins
	// included. 5 s by default; the hand-over's own deadline holds too.
	ProveTimeout time.Duration
	// Logger gets what happens, never a value; nil: nothing.
	Logger *slog.Logger
}

// What a call on a [DB] can meet, beside the driver's own errors.
var (
	// ErrNone: until the context ended there was no credential.
	ErrNone = sessions.ErrNone
	// ErrClosed: the DB is closed.
	ErrClosed = sessions.ErrClosed
)

// DB is a sql.DB whose connections are those of the lease that is current.
// Limits of the pool are set as ever (SetMaxOpenConns and its like).
type DB struct {
	*sql.DB
	cfg     Config
	dialect Dialect
	set     *sessions.Set[*leased]

	mu      sync.Mutex
	maxIdle int
}

// defaultMaxIdle is database/sql's.
const defaultMaxIdle = 2

// SetMaxIdleConns is sql.DB's.
func (db *DB) SetMaxIdleConns(n int) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.maxIdle = n
	db.DB.SetMaxIdleConns(n)
}

// purge has the pool close what lies idle in it: there is no other way to make
// it let go of some.
func (db *DB) purge() {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.DB.SetMaxIdleConns(0)
	db.DB.SetMaxIdleConns(db.maxIdle)
}

// replaced has the connections of a lease closed that is not current any more.
// At this moment there are hardly others in the pool.
func (db *DB) replaced(l *leased) {
	l.retire()
	l.purges.Go(db.purge) // a server that hangs makes it long
}

// Open takes part in the hand-overs of name and returns when the first
// credential is proven and current, or when ctx ends: then the error says what
// was waited for. ctx bounds only this; [DB.Close] ends the rest.
func Open(ctx context.Context, client *consumer.Client, name string, d Dialect, cfg Config) (*DB, error) {
	if cfg.UsernameKey == "" {
		cfg.UsernameKey = "username"
	}
	if cfg.PasswordKey == "" {
		cfg.PasswordKey = "password"
	}
	if cfg.ProveTimeout <= 0 {
		cfg.ProveTimeout = 5 * time.Second
	}
	db := &DB{cfg: cfg, dialect: d, maxIdle: defaultMaxIdle}
	db.DB = sql.OpenDB(connector{db})
	var err error
	db.set, err = sessions.Start(ctx, client, name, sessions.Driver[*leased]{
		Open: db.open, Prove: db.prove, Close: db.close, Refused: db.refusedLogin,
		Current: (*leased).unretire, Replaced: db.replaced,
	}, cfg.Logger)
	if err != nil {
		_ = db.DB.Close()
		return nil, fmt.Errorf("sqllease for %s: %w", name, err)
	}
	return db, nil
}

func (db *DB) refusedLogin(err error) bool {
	_, ok := db.dialect.refused(err)
	return ok
}

// Done is closed when rotations are not followed any more: after Close, or
// because another process took the instance's place ([DB.Err] says so).
func (db *DB) Done() <-chan struct{} { return db.set.Done() }

// Err says why rotations are not followed any more; nil before Done, and after
// an ordinary Close.
func (db *DB) Err() error { return db.set.Err() }

// Lease tells which lease is current, 0 for none.
func (db *DB) Lease() uint64 { return db.set.Lease() }

// Close closes the sql.DB, waits until what is in flight has finished, and
// deregisters (at the latest after the client's LeaveTimeout).
func (db *DB) Close() error {
	err := db.DB.Close()
	db.set.Close()
	return err
}

// connector opens the pool's connections with the lease that is current then.
type connector struct{ db *DB }

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	l, err := c.db.set.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer l.Leave() // the connection itself holds the closing up from here
	return l.Sessions.connect(ctx)
}

// Driver implements driver.Connector; nobody can open another DB with it.
func (c connector) Driver() driver.Driver { return noDriver{} }

type noDriver struct{}

func (noDriver) Open(string) (driver.Conn, error) {
	return nil, fmt.Errorf("sqllease: %w: use sqllease.Open", ErrNone)
}
