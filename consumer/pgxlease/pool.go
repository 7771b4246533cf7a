package pgxlease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasesvc/leasesvc/consumer"
)

// Config says how pools are opened. One of DSN and Pool is needed.
type Config struct {
	// DSN is a connection string without user and password, such as
	// "host=db.internal dbname=orders sslmode=verify-full pool_max_conns=10".
	DSN string
	// Pool is a configuration from pgxpool.ParseConfig; its user and password
	// are replaced. It takes precedence over DSN.
	Pool *pgxpool.Config
	// UsernameKey and PasswordKey name the credential's keys, "username" and
	// "password" by default.
	UsernameKey, PasswordKey string
	// ProveTimeout bounds the proof of a candidate, retries of refused logins
	// included. 5 s by default; the hand-over's own deadline holds too.
	ProveTimeout time.Duration
	// Logger gets what happens, never a value; nil: nothing.
	Logger *slog.Logger
}

// What a call on a [Pool] can meet, beside pgx's own errors.
var (
	// ErrNone: until the context ended there was no credential.
	ErrNone = errors.New("there is no credential")
	// ErrClosed: the pool is closed.
	ErrClosed = errors.New("the pool is closed")
)

// Pool runs work on the pool of the lease that is current. It is the
// [consumer.Handler] of its name.
type Pool struct {
	cfg  Config
	base *pgxpool.Config
	log  *slog.Logger

	mu      sync.Mutex
	current *leased       // nil: none
	changed chan struct{} // closed and replaced whenever current changes
	closed  bool
	// others are the pools that are not current and not known to be drained:
	// the old one, kept until commit, and those that are being closed.
	others []*leased

	cancel context.CancelFunc
	served chan struct{}
	err    error // of Serve; read after served is closed
	drains sync.WaitGroup
}

// New takes part in the hand-overs of name and returns when the first
// credential is proven and current, or when ctx ends: then the error says what
// was waited for. ctx bounds only this; [Pool.Close] ends the rest.
func New(ctx context.Context, client *consumer.Client, name string, cfg Config) (*Pool, error) {
	p, err := newPool(cfg)
	if err != nil {
		return nil, fmt.Errorf("pgxlease for %s: %w", name, err)
	}
	serve, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p.cancel = cancel
	go func() {
		defer close(p.served)
		p.err = client.Serve(serve, name, p)
		if p.err != nil && serve.Err() == nil {
			p.log.Error("rotations are not followed any more", "name", name, "why", p.err)
		}
	}()
	for {
		p.mu.Lock()
		current, changed := p.current, p.changed
		p.mu.Unlock()
		if current != nil {
			return p, nil
		}
		select {
		case <-changed:
		case <-p.served:
			return nil, fmt.Errorf("pgxlease for %s: %w", name, errors.Join(p.err, ErrNone))
		case <-ctx.Done():
			p.Close()
			return nil, fmt.Errorf("pgxlease for %s: %w", name, errors.Join(context.Cause(ctx), ErrNone, p.err))
		}
	}
}

func newPool(cfg Config) (*Pool, error) {
	if cfg.UsernameKey == "" {
		cfg.UsernameKey = "username"
	}
	if cfg.PasswordKey == "" {
		cfg.PasswordKey = "password"
	}
	if cfg.ProveTimeout <= 0 {
		cfg.ProveTimeout = 5 * time.Second
	}
	p := &Pool{cfg: cfg, base: cfg.Pool, log: cfg.Logger, changed: make(chan struct{}), served: make(chan struct{})}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	if p.base == nil {
		var err error
		if p.base, err = pgxpool.ParseConfig(cfg.DSN); err != nil {
			// Not wrapped: pgx quotes the string, which may hold a password.
			return nil, errors.New("the DSN is no connection string that pgxpool.ParseConfig accepts")
		}
	}
	return p, nil
}

// Done is closed when rotations are not followed any more: after Close, or
// because another process took the instance's place ([Pool.Err] says so).
func (p *Pool) Done() <-chan struct{} { return p.served }

// Err says why rotations are not followed any more; nil before Done, and after
// an ordinary Close.
func (p *Pool) Err() error {
	select {
	case <-p.served:
		return p.err
	default:
		return nil
	}
}

// Close turns new work away, deregisters as soon as what is in flight has
// finished (at the latest after the client's LeaveTimeout), and, like pgxpool's
// Close, waits for every connection that is out.
func (p *Pool) Close() {
	p.cancel()
	<-p.served
	p.Leave(context.Background()) // in case Serve had ended before
}

// Leave implements [consumer.Leaver]: all pools are closed before the
// incarnation deregisters.
func (p *Pool) Leave(ctx context.Context) {
	p.mu.Lock()
	p.closed = true
	p.swap(nil)
	p.mu.Unlock()
	if err := p.drainOthers(ctx); err != nil {
		p.log.Warn("leaving with sessions still open", "why", err)
	}
}

// Prepare implements [consumer.Handler]: new work goes to a proven pool of the
// candidate, the pool that was current is kept.
func (p *Pool) Prepare(ctx context.Context, candidate consumer.Credential) error {
	return p.move(ctx, candidate)
}

// Commit implements [consumer.Handler]: it returns nil when only the given
// credential's pool has sessions.
func (p *Pool) Commit(ctx context.Context, current consumer.Credential) error {
	if err := p.move(ctx, current); err != nil {
		return err
	}
	return p.drainOthers(ctx)
}

// Revert implements [consumer.Handler], like Commit; with no credential, work
// waits until there is one.
func (p *Pool) Revert(ctx context.Context, current consumer.Credential) error {
	if current.None() {
		p.mu.Lock()
		p.swap(nil)
		p.mu.Unlock()
		return p.drainOthers(ctx)
	}
	return p.Commit(ctx, current)
}

// move makes the credential's pool the current one, after a proven login. A
// pool that is current has had its own.
func (p *Pool) move(ctx context.Context, cred consumer.Credential) error {
	l, current := p.kept(cred.Lease)
	if current {
		return nil
	}
	if l != nil {
		if err := prove(ctx, p.cfg.ProveTimeout, l.freshLogin); err != nil {
			p.log.Warn("the pool that was kept does not log in, opening another", "credential", cred, "why", refusal(err))
			l = nil
		}
	}
	if l == nil {
		var err error
		if l, err = openLeased(ctx, p.cfg, p.base, cred); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		l.drain(&p.drains)
		p.others = append(p.others, l)
		return ErrClosed
	}
	p.swap(l)
	return nil
}

// refusal names what a server said without quoting it.
func refusal(err error) string {
	if refusedLogin(err) {
		return "the login is refused"
	}
	return "no session can be had"
}

// kept finds the pool of a lease that is current or kept open.
func (p *Pool) kept(lease uint64) (l *leased, current bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current != nil && p.current.lease == lease {
		return p.current, true
	}
	for _, o := range p.others {
		if o.lease == lease && o.open() {
			return o, false
		}
	}
	return nil, false
}

// swap makes l current (nil: none) and keeps what was. p.mu is held.
func (p *Pool) swap(l *leased) {
	if l == p.current {
		return
	}
	if p.current != nil {
		p.others = append(p.others, p.current)
	}
	for i, o := range p.others {
		if o == l {
			p.others = append(p.others[:i], p.others[i+1:]...)
			break
		}
	}
	p.current = l
	close(p.changed)
	p.changed = make(chan struct{})
}

// drainOthers closes every pool but the current one and waits until none has
// a session, or ctx ends; the closing goes on then.
func (p *Pool) drainOthers(ctx context.Context) error {
	p.mu.Lock()
	others := append([]*leased(nil), p.others...)
	p.mu.Unlock()
	for _, l := range others {
		l.drain(&p.drains)
	}
	for _, l := range others {
		select {
		case <-l.drained:
			p.forget(l)
		case <-ctx.Done():
			return fmt.Errorf("draining the sessions of lease %d: %d still in use: %w",
				l.lease, l.pool.Stat().AcquiredConns(), context.Cause(ctx))
		}
	}
	return nil
}

func (p *Pool) forget(l *leased) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, o := range p.others {
		if o == l {
			p.others = append(p.others[:i], p.others[i+1:]...)
			return
		}
	}
}

// enter chooses the current pool and holds its closing up until leave. While
// there is none it waits.
func (p *Pool) enter(ctx context.Context) (*leased, error) {
	for {
		p.mu.Lock()
		current, changed, closed := p.current, p.changed, p.closed
		p.mu.Unlock()
		switch {
		case closed:
			return nil, ErrClosed
		case current != nil && current.enter():
			return current, nil
		case current != nil:
			continue // it was swapped between the two locks
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, errors.Join(ErrNone, context.Cause(ctx))
		}
	}
}
