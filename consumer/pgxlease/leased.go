package pgxlease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasesvc/leasesvc/consumer"
)

// leased is one lease's pool. Who begins work on it enters first, so that it
// is never closed between being chosen and a connection being taken; from then
// on the connection itself holds the closing up.
type leased struct {
	lease uint64
	user  string
	pool  *pgxpool.Pool

	mu       sync.Mutex
	entered  int
	closing  bool
	lastLeft chan struct{} // closed when closing and nobody is inside
	drained  chan struct{} // closed when no session is open any more
}

// enter holds the closing up until leave; false when it has begun.
func (l *leased) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing {
		return false
	}
	l.entered++
	return true
}

func (l *leased) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entered--
	if l.closing && l.entered == 0 {
		close(l.lastLeft)
	}
}

// open tells whether the closing has not begun.
func (l *leased) open() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.closing
}

// drain begins the closing, once, in a goroutine that work counts. New work is
// turned away, what is in flight finishes.
func (l *leased) drain(work *sync.WaitGroup) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing {
		return
	}
	l.closing = true
	if l.entered == 0 {
		close(l.lastLeft)
	}
	work.Add(1)
	go func() {
		defer work.Done()
		<-l.lastLeft
		l.pool.Close() // waits for every connection that is out
		close(l.drained)
	}()
}

// openLeased opens a pool with the credential and proves it: a login whose
// session user is the credential's. A login that is refused is tried again for
// a while, since a new account can take time to reach every server.
func openLeased(ctx context.Context, cfg Config, base *pgxpool.Config, cred consumer.Credential) (*leased, error) {
	user, okUser := cred.Get(cfg.UsernameKey)
	password, okPassword := cred.Get(cfg.PasswordKey)
	if !okUser || !okPassword {
		return nil, fmt.Errorf("%s has no %s or no %s", cred, cfg.UsernameKey, cfg.PasswordKey)
	}
	pc := base.Copy()
	pc.ConnConfig.User, pc.ConnConfig.Password = user.Reveal(), password.Reveal()
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), pc)
	if err != nil {
		return nil, fmt.Errorf("opening a pool for %s: %w", cred, err)
	}
	l := &leased{lease: cred.Lease, user: user.Reveal(), pool: pool,
		lastLeft: make(chan struct{}), drained: make(chan struct{})}
	if err := prove(ctx, cfg.ProveTimeout, l.login); err != nil {
		pool.Close()
		return nil, fmt.Errorf("proving a login with %s: %w", cred, err)
	}
	return l, nil
}

// provePause is the time between two tries of a login.
const provePause = 200 * time.Millisecond

func prove(ctx context.Context, budget time.Duration, login func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	var refused error
	for {
		err := login(ctx)
		switch {
		case err == nil:
			return nil
		case refusedLogin(err):
			refused = shortened(err)
		case refused == nil || ctx.Err() == nil:
			return err
		}
		select {
		case <-ctx.Done():
			return refused // what the server said tells more than that time is up
		case <-time.After(provePause):
		}
	}
}

// shortened keeps of a refused login what fits into an answer: pgx tells every
// address and TLS mode that was tried.
func shortened(err error) error {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return err
	}
	return fmt.Errorf("the login is refused (%s): %s", pgErr.Code, pgErr.Message)
}

const whoAmI = "select session_user::text"

// login asks the server who it takes us for, on a connection of the pool: of a
// new pool that is a new login.
func (l *leased) login(ctx context.Context) error {
	return l.itsMe(l.pool.QueryRow(ctx, whoAmI))
}

// freshLogin does so on a connection of its own, since those of a pool that
// was kept prove nothing any more.
func (l *leased) freshLogin(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, l.pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	err = l.itsMe(conn.QueryRow(ctx, whoAmI))
	return errors.Join(err, conn.Close(ctx))
}

func (l *leased) itsMe(row pgx.Row) error {
	var is string
	if err := row.Scan(&is); err != nil {
		return err
	}
	if is != l.user {
		return errors.New("the server takes the session for another user")
	}
	return nil
}

// refusedLogin tells a refused login (invalid authorization, wrong password,
// no such role) from a server that is not there.
func refusedLogin(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && len(pgErr.Code) == 5 && pgErr.Code[:2] == "28"
}
