package sqllease

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/consumer/sessions"
)

// leased is one lease's connector and the connections that it made and that are
// still open.
type leased struct {
	dialect   *Dialect
	user      string
	connector driver.Connector
	refused   func(error)

	mu    sync.Mutex
	conns map[*conn]struct{}
	// retired: the lease is not current, so what is not at work is closed.
	// Taken back when a hand-over goes back to it.
	retired bool
	empty   chan struct{} // closed and replaced when the last connection closed
	purges  sync.WaitGroup
}

// open makes a connector with the credential and proves it by a session whose
// user is the credential's.
func (db *DB) open(ctx context.Context, cred consumer.Credential, refused func(error)) (*leased, error) {
	user, okUser := cred.Get(db.cfg.UsernameKey)
	password, okPassword := cred.Get(db.cfg.PasswordKey)
	if !okUser || !okPassword {
		return nil, fmt.Errorf("%s has no %s or no %s", cred, db.cfg.UsernameKey, db.cfg.PasswordKey)
	}
	connector, err := db.dialect.connector(user.Reveal(), password.Reveal())
	if err != nil {
		return nil, fmt.Errorf("a connector for %s cannot be made: check the DSN", cred) // the driver's text may quote it
	}
	l := &leased{dialect: &db.dialect, user: user.Reveal(), connector: connector, refused: refused,
		conns: map[*conn]struct{}{}, empty: make(chan struct{})}
	if err := db.prove(ctx, l); err != nil {
		return nil, fmt.Errorf("proving a login with %s: %w", cred, l.dialect.shortened(err))
	}
	return l, nil
}

// prove logs in on a session of its own and asks whose it is.
func (db *DB) prove(ctx context.Context, l *leased) error {
	return sessions.Prove(ctx, db.cfg.ProveTimeout, db.refusedLogin, l.login)
}

func (l *leased) login(ctx context.Context) error {
	once := sql.OpenDB(l.connector)
	defer func() { _ = once.Close() }()
	once.SetMaxIdleConns(0)
	var is string
	if err := once.QueryRowContext(ctx, l.dialect.whoAmI).Scan(&is); err != nil {
		return err
	}
	if !l.dialect.isMe(is, l.user) {
		return errors.New("the server takes the session for another user")
	}
	return nil
}

// connect opens a connection for the pool.
func (l *leased) connect(ctx context.Context) (driver.Conn, error) {
	under, err := l.connector.Connect(ctx)
	if err != nil {
		if err = l.dialect.shortened(err); errors.As(err, new(refusal)) {
			l.refused(err)
		}
		return nil, err
	}
	c := &conn{Conn: under, lease: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[c] = struct{}{}
	return c, nil
}

// retire has each connection closed as it comes back or is taken out again.
// What lies idle is the pool's to close (see [DB.purge]): it may close a
// statement of an idle connection at any time.
func (l *leased) retire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retired = true
}

// unretire makes the connections that are still open the pool's again.
func (l *leased) unretire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retired = false
}

// idlePause is how often the pool is told to let go of a connection that came
// back to it just as its lease retired.
const idlePause = 10 * time.Millisecond

// close waits until the last connection is closed.
func (db *DB) close(l *leased) {
	l.retire()
	for {
		idle, left, empty := l.open()
		if left == 0 {
			break
		}
		if !idle {
			<-empty
			continue
		}
		db.purge()
		select {
		case <-empty:
		case <-time.After(idlePause):
		}
	}
	l.purges.Wait()
}

// open tells whether any connection is idle, how many are open, and gives what
// is closed with the last.
func (l *leased) open() (idle bool, left int, empty <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		idle = idle || c.idle
	}
	return idle, len(l.conns), l.empty
}

// gone takes a closed connection off the list.
func (l *leased) gone(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, there := l.conns[c]; !there {
		return
	}
	delete(l.conns, c)
	if len(l.conns) == 0 {
		close(l.empty)
		l.empty = make(chan struct{})
	}
}
