package sqllease_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/consumer/consumertest"
	"github.com/leasesvc/leasesvc/consumer/sqllease"
	"github.com/leasesvc/leasesvc/itest/mysqltest"
	"github.com/leasesvc/leasesvc/itest/pgtest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(mysqltest.Main(pgtest.Main(m)),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*Server).startGoRoutine.func1"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.init.0.func1"),
	)
}

// engine is a server with accounts, and how the adapter speaks to it.
type engine struct {
	name                                       string
	dialect                                    sqllease.Dialect
	admin                                      *sql.DB
	create, spoil, shut, end, drop, count, who string
}

var engines = map[string]func(t *testing.T) engine{
	"PostgreSQL": func(t *testing.T) engine {
		s := pgtest.Shared(t)
		cfg, err := pgx.ParseConfig(s.DSN())
		if err != nil {
			t.Fatal(err)
		}
		dialect, err := sqllease.PostgreSQL(fmt.Sprintf("host=127.0.0.1 port=%d dbname=postgres sslmode=disable", s.Port()))
		if err != nil {
			t.Fatal(err)
		}
		return engine{name: "pg", dialect: dialect, admin: stdlib.OpenDB(*cfg),
			create: `create role %[1]q login password 'pw-%[1]s'`, spoil: `alter role %[1]q password 'other'`, shut: `alter role %[1]q nologin`,
			end:  `select pg_terminate_backend(pid) from pg_stat_activity where usename = '%[1]s'`,
			drop: `drop role %[1]q`, count: `select count(*) from pg_stat_activity where usename = '%[1]s'`, who: `select session_user::text`}
	},
	"MySQL": func(t *testing.T) engine {
		s := mysqltest.Shared(t)
		dialect, err := sqllease.MySQL("tcp(" + s.Addr() + ")/")
		if err != nil {
			t.Fatal(err)
		}
		admin, err := s.DB()
		if err != nil {
			t.Fatal(err)
		}
		return engine{name: "my", dialect: dialect, admin: admin,
			create: `create user '%[1]s'@'%%' identified by 'pw-%[1]s'`, spoil: `set password for '%[1]s'@'%%' = password('other')`,
			shut: `alter user '%[1]s'@'%%' account lock`, end: `kill user '%[1]s'`,
			drop: `drop user '%[1]s'@'%%'`, count: `select count(*) from information_schema.processlist where user = '%[1]s'`,
			who: `select substring_index(current_user(), '@', 1)`}
	},
}

// each runs a test on every engine.
func each(t *testing.T, test func(t *testing.T, s *stage)) {
	for name, start := range engines {
		t.Run(name, func(t *testing.T) { test(t, newStage(t, start(t))) })
	}
}

// stage is a database, a scripted holder that makes accounts in it, and a
// client of its scope.
type stage struct {
	t *testing.T
	engine
	holder *consumertest.Holder
	client *consumer.Client
	log    *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string { l.mu.Lock(); defer l.mu.Unlock(); return l.b.String() }

func (l *lockedBuffer) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func newStage(t *testing.T, e engine) *stage {
	t.Helper()
	s := &stage{t: t, engine: e, log: &lockedBuffer{}}
	t.Cleanup(func() { _ = e.admin.Close() })
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(30 * time.Second) {
		t.Fatal("the NATS server is not ready after 30 s")
	}
	connect := func() *nats.Conn {
		nc, err := nats.Connect(srv.ClientURL())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	s.holder = consumertest.Start(t, connect(), "prod")
	s.holder.Define("db")
	s.client, err = consumer.Connect(context.Background(), consumer.Options{Conn: connect(), Scope: "prod", Consumer: "api",
		Instance: "api-0", Insecure: true, ServiceKey: s.holder.ServiceKey(), Logger: s.log.logger(), LeaveTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.Close)
	t.Cleanup(func() {
		if strings.Contains(s.log.String(), "pw-") {
			t.Errorf("a password is in the log:\n%s", s.log.String())
		}
		if t.Failed() {
			t.Log(s.log.String())
		}
	})
	return s
}

func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func (s *stage) admins(statement, user string) {
	s.t.Helper()
	if _, err := s.admin.ExecContext(within(s.t, 30*time.Second), fmt.Sprintf(statement, user)); err != nil {
		s.t.Fatalf("%s: %v", statement, err)
	}
}

var made atomic.Int64

// account makes a user in the database and a candidate with it.
func (s *stage) account() consumertest.State {
	s.t.Helper()
	user := fmt.Sprintf("v-%s-%d", s.name, made.Add(1))
	s.admins(s.create, user)
	return s.holder.Candidate(user, fmt.Sprintf(`{"username":%q,"password":"pw-%s"}`, user, user))
}

// revoke drops a candidate's user, as Vault does. It fails the test if a
// session of it is open: nobody may live on a credential that is revoked.
func (s *stage) revoke(c consumertest.State) {
	s.t.Helper()
	// A closed socket's session takes a moment to go.
	var n int
	for limit := time.Now().Add(10 * time.Second); time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
		if err := s.admin.QueryRow(fmt.Sprintf(s.count, c.Public)).Scan(&n); err != nil {
			s.t.Fatal(err)
		}
		if n == 0 {
			break
		}
	}
	if n != 0 {
		s.t.Errorf("%d sessions of %s are open when it is revoked", n, c.Public)
	}
	s.admins(s.drop, c.Public)
}

func (s *stage) open() *sqllease.DB {
	s.t.Helper()
	db, err := sqllease.Open(within(s.t, 30*time.Second), s.client, "db", s.dialect, sqllease.Config{ProveTimeout: time.Second, Logger: s.log.logger()})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(4)
	db.SetMaxIdleConns(4)
	return db
}

// load queries from several goroutines until end, in each of the ways a DB can
// be used, and counts what failed and whom the server saw.
type load struct {
	s               *stage
	queries, failed atomic.Int64
	mu              sync.Mutex
	users           map[string]bool
	errs            []string
	stop            context.CancelFunc
	all             sync.WaitGroup
}

func startLoad(s *stage, db *sqllease.DB, workers int) *load {
	s.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	l := &load{s: s, users: map[string]bool{}, stop: stop}
	stmt, err := db.PrepareContext(ctx, s.who)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { l.end(); _ = stmt.Close() })
	for w := range workers {
		l.all.Go(func() {
			for i := w; ctx.Err() == nil; i++ {
				user, err := l.one(db, stmt, i%5)
				l.queries.Add(1)
				l.mu.Lock()
				if err != nil {
					l.failed.Add(1)
					l.errs = append(l.errs, fmt.Sprintf("%d: %v", i%5, err))
				} else {
					l.users[user] = true
				}
				l.mu.Unlock()
			}
		})
	}
	return l
}

func (l *load) end() { l.stop(); l.all.Wait() }

// more waits for n more queries.
func (l *load) more(n int64) {
	l.s.t.Helper()
	before := l.queries.Load()
	for limit := time.Now().Add(30 * time.Second); l.queries.Load() < before+n; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			l.s.t.Fatal("the load has stopped")
		}
	}
}

func (l *load) one(db *sqllease.DB, stmt *sql.Stmt, how int) (user string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	who := l.s.who
	switch how {
	case 0:
		err = db.QueryRowContext(ctx, who).Scan(&user)
	case 1:
		rows, queryErr := db.QueryContext(ctx, who)
		if queryErr != nil {
			return "", queryErr
		}
		defer rows.Close()
		for rows.Next() {
			if err := rows.Scan(&user); err != nil {
				return "", err
			}
		}
		err = rows.Err()
	case 2:
		tx, beginErr := db.BeginTx(ctx, nil)
		if beginErr != nil {
			return "", beginErr
		}
		defer tx.Rollback()
		var again string
		if err = tx.QueryRowContext(ctx, who).Scan(&user); err == nil {
			time.Sleep(2 * time.Millisecond) // a transaction that lasts
			err = tx.QueryRowContext(ctx, who).Scan(&again)
		}
		if err == nil && again != user {
			err = fmt.Errorf("the user changed from %s to %s within a transaction", user, again)
		}
		if err == nil {
			err = tx.Commit()
		}
	case 3:
		conn, connErr := db.Conn(ctx)
		if connErr != nil {
			return "", connErr
		}
		defer conn.Close()
		err = conn.QueryRowContext(ctx, who).Scan(&user)
	case 4:
		err = stmt.QueryRowContext(ctx).Scan(&user)
	}
	return user, err
}
