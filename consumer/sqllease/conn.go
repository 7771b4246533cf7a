package sqllease

import (
	"context"
	"database/sql/driver"
	"errors"
)

// conn is a driver's connection that knows whose it is. database/sql asks it
// when it comes back to the pool (IsValid) and when it is taken out again
// (ResetSession): the two tell at work from idle, and are where a connection of
// an old lease ends.
type conn struct {
	driver.Conn
	lease *leased
	idle  bool // in the pool; guarded by lease.mu
}

// Unwrapper is what sql.Conn.Raw gives of a [DB]'s connection.
type Unwrapper interface {
	// Unwrap gives the driver's own connection, such as a *stdlib.Conn of
	// pgx's. It is good until Raw's function returns.
	Unwrap() driver.Conn
}

// Unwrap implements [Unwrapper].
func (c *conn) Unwrap() driver.Conn { return c.Conn }

// IsValid implements driver.Validator.
func (c *conn) IsValid() bool {
	if v, ok := c.Conn.(driver.Validator); ok && !v.IsValid() {
		return false
	}
	c.lease.mu.Lock()
	defer c.lease.mu.Unlock()
	if c.lease.retired {
		return false
	}
	c.idle = true
	return true
}

// ResetSession implements driver.SessionResetter.
func (c *conn) ResetSession(ctx context.Context) error {
	c.lease.mu.Lock()
	over := c.lease.retired
	c.idle = false
	c.lease.mu.Unlock()
	if over {
		return driver.ErrBadConn // the pool closes it and takes another
	}
	if r, ok := c.Conn.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

// Close implements driver.Conn.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.lease.gone(c)
	return err
}

// What follows hands the driver's optional abilities through, or says that there
// are none in the way that database/sql expects.

func (c *conn) Ping(ctx context.Context) error {
	if p, ok := c.Conn.(driver.Pinger); ok {
		return p.Ping(ctx)
	}
	return nil
}

func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if e, ok := c.Conn.(driver.ExecerContext); ok {
		return e.ExecContext(ctx, query, args)
	}
	return nil, driver.ErrSkip
}

func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if q, ok := c.Conn.(driver.QueryerContext); ok {
		return q.QueryContext(ctx, query, args)
	}
	return nil, driver.ErrSkip
}

func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if p, ok := c.Conn.(driver.ConnPrepareContext); ok {
		return p.PrepareContext(ctx, query)
	}
	return c.Prepare(query)
}

var errNoTx = errors.New("the driver has no transactions with options")

func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if b, ok := c.Conn.(driver.ConnBeginTx); ok {
		return b.BeginTx(ctx, opts)
	}
	return nil, errNoTx // both drivers have them
}

func (c *conn) CheckNamedValue(v *driver.NamedValue) error {
	if n, ok := c.Conn.(driver.NamedValueChecker); ok {
		return n.CheckNamedValue(v)
	}
	return driver.ErrSkip
}
