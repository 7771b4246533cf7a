package pgxlease

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/multitracer"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/consumer/sessions"
)

// leased is one lease's pool. A connection that is out holds its closing up.
type leased struct {
	user string
	pool *pgxpool.Pool
}

// open opens a pool with the credential and proves it: a login whose session
// user is the credential's.
func (p *Pool) open(ctx context.Context, cred consumer.Credential, refused func(error)) (*leased, error) {
	user, okUser := cred.Get(p.cfg.UsernameKey)
	password, okPassword := cred.Get(p.cfg.PasswordKey)
	if !okUser || !okPassword {
		return nil, fmt.Errorf("%s has no %s or no %s", cred, p.cfg.UsernameKey, p.cfg.PasswordKey)
	}
	pc := p.base.Copy()
	pc.ConnConfig.User, pc.ConnConfig.Password = user.Reveal(), password.Reveal()
	pc.ConnConfig.Tracer = watching(pc.ConnConfig.Tracer, refused)
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), pc)
	if err != nil {
		return nil, fmt.Errorf("opening a pool for %s: %w", cred, err)
	}
	l := &leased{user: user.Reveal(), pool: pool}
	if err := sessions.Prove(ctx, p.cfg.ProveTimeout, refusedLogin, l.login); err != nil {
		pool.Close()
		return nil, fmt.Errorf("proving a login with %s: %w", cred, shortened(err))
	}
	return l, nil
}

// prove proves a pool that was kept, on a connection of its own, since the
// pool's prove nothing any more.
func (p *Pool) prove(ctx context.Context, l *leased) error {
	return sessions.Prove(ctx, p.cfg.ProveTimeout, refusedLogin, l.freshLogin)
}

// refusal keeps of a refused login what fits into an answer: pgx tells every
// address and TLS mode that was tried.
type refusal struct{ *pgconn.PgError }

func (r refusal) Error() string {
	return fmt.Sprintf("the login is refused (%s): %s", r.Code, r.Message)
}

func (r refusal) Unwrap() error { return r.PgError }

func shortened(err error) error {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return err
	}
	return refusal{pgErr}
}

const whoAmI = "select session_user::text"

// login asks the server who it takes us for, on a connection of the pool: of a
// new pool that is a new login.
func (l *leased) login(ctx context.Context) error {
	return l.itsMe(l.pool.QueryRow(ctx, whoAmI))
}

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

// watching adds to a tracer one that reports refused logins (C58).
func watching(tracer pgx.QueryTracer, refused func(error)) pgx.QueryTracer {
	w := connectWatch{refused}
	if tracer == nil {
		return w
	}
	return multitracer.New(tracer, w)
}

// connectWatch sees each new connection's login.
type connectWatch struct{ refused func(error) }

func (connectWatch) TraceConnectStart(ctx context.Context, _ pgx.TraceConnectStartData) context.Context {
	return ctx
}

func (w connectWatch) TraceConnectEnd(_ context.Context, d pgx.TraceConnectEndData) {
	if refusedLogin(d.Err) {
		w.refused(shortened(d.Err))
	}
}

func (connectWatch) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (connectWatch) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
