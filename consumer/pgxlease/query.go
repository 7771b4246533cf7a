package pgxlease

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Acquire takes a connection of the current lease; release it soon, since it
// holds the next rotation's confirmation up.
func (p *Pool) Acquire(ctx context.Context) (*pgxpool.Conn, error) {
	l, err := p.set.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer l.Leave()
	return l.Sessions.pool.Acquire(ctx)
}

// Exec is pgxpool's Exec on the current lease.
func (p *Pool) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	l, err := p.set.Enter(ctx)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	defer l.Leave()
	return l.Sessions.pool.Exec(ctx, sql, args...)
}

// Query is pgxpool's Query on the current lease. Close the rows.
func (p *Pool) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	l, err := p.set.Enter(ctx)
	if err != nil {
		return noRows{err: err}, err
	}
	defer l.Leave() // the rows' own connection holds the closing up from here
	return l.Sessions.pool.Query(ctx, sql, args...)
}

// QueryRow is pgxpool's QueryRow on the current lease. Scan the row.
func (p *Pool) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	l, err := p.set.Enter(ctx)
	if err != nil {
		return noRows{err: err}
	}
	defer l.Leave()
	return l.Sessions.pool.QueryRow(ctx, sql, args...)
}

// Begin starts a transaction on the current lease; it stays there, whatever
// rotates meanwhile.
func (p *Pool) Begin(ctx context.Context) (pgx.Tx, error) { return p.BeginTx(ctx, pgx.TxOptions{}) }

// BeginTx is Begin with options.
func (p *Pool) BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error) {
	l, err := p.set.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer l.Leave()
	return l.Sessions.pool.BeginTx(ctx, opts)
}

// SendBatch is pgxpool's SendBatch on the current lease. Close the results.
func (p *Pool) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	l, err := p.set.Enter(ctx)
	if err != nil {
		return noResults{err: err}
	}
	defer l.Leave()
	return l.Sessions.pool.SendBatch(ctx, b)
}

// CopyFrom is pgxpool's CopyFrom on the current lease.
func (p *Pool) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error) {
	l, err := p.set.Enter(ctx)
	if err != nil {
		return 0, err
	}
	defer l.Leave()
	return l.Sessions.pool.CopyFrom(ctx, table, columns, rows)
}

// Ping asks the server for a sign of life on the current lease.
func (p *Pool) Ping(ctx context.Context) error {
	l, err := p.set.Enter(ctx)
	if err != nil {
		return err
	}
	defer l.Leave()
	return l.Sessions.pool.Ping(ctx)
}

// noRows is what a query gives that found no pool.
type noRows struct {
	pgx.Rows
	err error
}

func (r noRows) Close()                                       {}
func (r noRows) Err() error                                   { return r.err }
func (r noRows) CommandTag() pgconn.CommandTag                { return pgconn.CommandTag{} }
func (r noRows) FieldDescriptions() []pgconn.FieldDescription { return nil }
func (r noRows) Next() bool                                   { return false }
func (r noRows) Scan(...any) error                            { return r.err }
func (r noRows) Values() ([]any, error)                       { return nil, r.err }
func (r noRows) RawValues() [][]byte                          { return nil }
func (r noRows) Conn() *pgx.Conn                              { return nil }

// noResults is what a batch gives that found no pool.
type noResults struct{ err error }

func (r noResults) Exec() (pgconn.CommandTag, error) { return pgconn.CommandTag{}, r.err }
func (r noResults) Query() (pgx.Rows, error)         { return noRows{err: r.err}, r.err }
func (r noResults) QueryRow() pgx.Row                { return noRows{err: r.err} }
func (r noResults) Close() error                     { return r.err }
func (r noResults) Tx() pgx.Tx                       { return nil }
