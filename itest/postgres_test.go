package itest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/consumer/pgxlease"
	"github.com/leasesvc/leasesvc/consumer/sqllease"
	"github.com/leasesvc/leasesvc/itest/pgtest"
)

// postgres is a PostgreSQL server of its own, on which an application works
// through an adapter.
func postgres(t *testing.T, start func(pg *pgtest.Server, r *rig, client *consumer.Client, l *load) func()) engine {
	pg := pgtest.Start(t)
	return engine{
		kind: "postgresql", path: "database/creds/app",
		verifier: `{kind: postgresql, dsn: "postgres://{{username}}:{{password}}@` + pg.Addr() + `/postgres?sslmode=disable", timeout: 1s}`,
		setUp: func(v *vaultServer) {
			v.database(t, map[string]any{"plugin_name": "postgresql-database-plugin", "connection_url": pg.DSN()}, loginRole)
		},
		users: pg.Roles,
		breakNext: func(v *vaultServer, broken bool) {
			statement := loginRole
			if broken {
				statement = nologinRole
			}
			v.must(t, "POST", "database/roles/app", map[string]any{"db_name": "db", "default_ttl": "1h", "max_ttl": "2h", "creation_statements": []string{statement}})
		},
		start: func(r *rig, client *consumer.Client, l *load) func() { return start(pg, r, client, l) },
	}
}

func TestPostgresPgx(t *testing.T) {
	t.Parallel()
	rotations(t, postgres(t, func(pg *pgtest.Server, r *rig, client *consumer.Client, l *load) func() {
		cfg, err := pgxpool.ParseConfig("postgres://" + pg.Addr() + "/postgres?sslmode=disable&pool_max_conns=8")
		if err != nil {
			t.Fatal(err)
		}
		cfg.MaxConnLifetime = time.Second
		pool, err := pgxlease.New(within(t, 60*time.Second), client, "orders", pgxlease.Config{Pool: cfg})
		if err != nil {
			t.Fatal(err)
		}
		l.work(8, func(ctx context.Context, i int) (user string, err error) {
			if i%4 > 0 {
				return user, pool.QueryRow(ctx, "SELECT session_user::text").Scan(&user)
			}
			tx, err := pool.Begin(ctx)
			if err != nil {
				return "", err
			}
			if err := tx.QueryRow(ctx, "SELECT session_user::text, pg_sleep(0.01)").Scan(&user, nil); err != nil {
				return "", err
			}
			return user, tx.Commit(ctx)
		})
		return pool.Close
	}))
}

func TestPostgresSQL(t *testing.T) {
	t.Parallel()
	rotations(t, postgres(t, func(pg *pgtest.Server, r *rig, client *consumer.Client, l *load) func() {
		dialect, err := sqllease.PostgreSQL("postgres://" + pg.Addr() + "/postgres?sslmode=disable")
		if err != nil {
			t.Fatal(err)
		}
		return workOnSQL(t, client, l, dialect, "SELECT session_user::text")
	}))
}

// workOnSQL is an application on database/sql.
func workOnSQL(t *testing.T, client *consumer.Client, l *load, dialect sqllease.Dialect, who string) (stop func()) {
	t.Helper()
	db, err := sqllease.Open(within(t, 60*time.Second), client, "orders", dialect, sqllease.Config{})
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(8)
	db.SetMaxIdleConns(8)
	l.work(8, func(ctx context.Context, i int) (user string, err error) {
		if i%4 > 0 {
			return user, db.QueryRowContext(ctx, who).Scan(&user)
		}
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return "", err
		}
		defer tx.Rollback()
		if err := tx.QueryRowContext(ctx, who).Scan(&user); err != nil {
			return "", err
		}
		return user, tx.Commit()
	})
	return func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}
