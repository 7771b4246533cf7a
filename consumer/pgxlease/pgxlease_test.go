package pgxlease_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/consumer/consumertest"
	"github.com/leasesvc/leasesvc/consumer/pgxlease"
	"github.com/leasesvc/leasesvc/itest/pgtest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(pgtest.Main(m),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*Server).startGoRoutine.func1"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.init.0.func1"),
	)
}

// stage is a database, a scripted holder that makes accounts in it, and a
// client of its scope.
type stage struct {
	t      *testing.T
	pg     *pgtest.Server
	admin  *pgx.Conn
	holder *consumertest.Holder
	client *consumer.Client
	log    *lockedBuffer
	made   atomic.Int64
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

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, pg: pgtest.Shared(t), log: &lockedBuffer{}}
	var err error
	if s.admin, err = pgx.Connect(within(t, 10*time.Second), s.pg.DSN()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.admin.Close(context.Background()) })
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(10 * time.Second) {
		t.Fatal("the NATS server is not ready after 10 s")
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
		Instance: "api-0", Insecure: true, ServiceKey: s.holder.ServiceKey(), Logger: s.log.logger(), LeaveTimeout: 2 * time.Second})
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

// account makes a user in the database and a candidate with it.
func (s *stage) account() consumertest.State {
	s.t.Helper()
	user := fmt.Sprintf("v-%s-%d", strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(s.t.Name())), s.made.Add(1))
	_, err := s.admin.Exec(context.Background(), fmt.Sprintf(`create role %q login password 'pw-%s'`, user, user))
	if err != nil {
		s.t.Fatal(err)
	}
	return s.holder.Candidate(user, fmt.Sprintf(`{"username":%q,"password":"pw-%s"}`, user, user))
}

// revoke drops a candidate's user, as Vault does. It fails the test if a
// session of it is open: nobody may live on a credential that is revoked.
func (s *stage) revoke(c consumertest.State) {
	s.t.Helper()
	if n := s.sessions(c.Public); n != 0 {
		s.t.Errorf("%d sessions of %s are open when it is revoked", n, c.Public)
	}
	if _, err := s.admin.Exec(context.Background(), fmt.Sprintf(`drop role %q`, c.Public)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) sessions(user string) (n int) {
	s.t.Helper()
	// A closed socket's backend takes a moment to go.
	for limit := time.Now().Add(2 * time.Second); time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
		if err := s.admin.QueryRow(context.Background(), `select count(*) from pg_stat_activity where usename = $1`, user).Scan(&n); err != nil {
			s.t.Fatal(err)
		}
		if n == 0 {
			return 0
		}
	}
	return n
}

func (s *stage) pool(prove time.Duration) *pgxlease.Pool {
	s.t.Helper()
	p, err := pgxlease.New(within(s.t, 10*time.Second), s.client, "db", pgxlease.Config{
		DSN:          fmt.Sprintf("host=127.0.0.1 port=%d dbname=postgres sslmode=disable pool_max_conns=4 pool_max_conn_lifetime=1s", s.pg.Port()),
		ProveTimeout: prove, Logger: s.log.logger()})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(p.Close)
	return p
}

// load queries from several goroutines until stop is called, in each of the
// ways a pool can be used, and counts what failed and whom the server saw.
type load struct {
	queries, failed atomic.Int64
	mu              sync.Mutex
	users           map[string]bool
	errs            []string
	stop            context.CancelFunc
	all             sync.WaitGroup
}

func startLoad(t *testing.T, p *pgxlease.Pool, workers int) *load {
	ctx, stop := context.WithCancel(context.Background())
	l := &load{users: map[string]bool{}, stop: stop}
	t.Cleanup(l.end)
	for w := range workers {
		l.all.Go(func() {
			for i := w; ctx.Err() == nil; i++ {
				user, err := oneQuery(p, i%5)
				l.queries.Add(1)
				l.mu.Lock()
				if err != nil {
					l.failed.Add(1)
					l.errs = append(l.errs, err.Error())
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

const who = "select current_user::text"

func oneQuery(p *pgxlease.Pool, how int) (user string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	switch how {
	case 0:
		err = p.QueryRow(ctx, who).Scan(&user)
	case 1:
		rows, queryErr := p.Query(ctx, who)
		if queryErr != nil {
			return "", queryErr
		}
		user, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[string])
	case 2:
		tx, beginErr := p.Begin(ctx)
		if beginErr != nil {
			return "", beginErr
		}
		if err = tx.QueryRow(ctx, who+", pg_sleep(0.01)").Scan(&user, nil); err == nil {
			var again string
			if err = tx.QueryRow(ctx, who).Scan(&again); err == nil && again != user {
				err = errors.New("the user changed within a transaction")
			}
		}
		err = errors.Join(err, tx.Commit(ctx))
	case 3:
		conn, acquireErr := p.Acquire(ctx)
		if acquireErr != nil {
			return "", acquireErr
		}
		defer conn.Release()
		err = conn.QueryRow(ctx, who).Scan(&user)
	case 4:
		b := &pgx.Batch{}
		b.Queue("select 1")
		b.Queue(who)
		r := p.SendBatch(ctx, b)
		_, err = r.Exec()
		err = errors.Join(err, r.QueryRow().Scan(&user), r.Close())
	}
	return user, err
}

func TestRotationUnderLoadFailsNoQuery(t *testing.T) {
	s := newStage(t)
	current := s.account()
	s.holder.Install("db", current)
	l := startLoad(t, s.pool(time.Second), 8)
	rotations, rolledBack := 0, 0
	for i := range 12 {
		next := s.account()
		if i%4 == 3 { // this one does not log in
			if _, err := s.admin.Exec(context.Background(), fmt.Sprintf(`alter role %q password 'another'`, next.Public)); err != nil {
				t.Fatal(err)
			}
		}
		before := l.queries.Load()
		_, err := s.holder.Rotate(within(t, 20*time.Second), "db", next, 10*time.Second)
		switch {
		case err == nil:
			rotations++
			s.revoke(current)
			current = next
		case errors.Is(err, consumertest.ErrRolledBack) && i%4 == 3:
			rolledBack++
			if strings.Contains(err.Error(), "pw-") || !strings.Contains(err.Error(), "28P01") {
				t.Errorf("the reason is %v", err)
			}
			s.revoke(next)
		default:
			t.Fatal(err)
		}
		for limit := time.Now().Add(10 * time.Second); l.queries.Load() < before+50; time.Sleep(time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatal("the load has stopped")
			}
		}
	}
	l.end()
	if l.failed.Load() != 0 || len(l.users) != rotations+1 || rotations != 9 || rolledBack != 3 {
		t.Errorf("%d of %d queries failed over %d rotations and %d ways back, %d users seen: %v",
			l.failed.Load(), l.queries.Load(), rotations, rolledBack, len(l.users), l.errs)
	}
	t.Logf("%d queries, %d rotations, %d rolled back, 0 failed", l.queries.Load(), rotations, rolledBack)
}

func TestL21_RevertGoesBackToThePoolThatWasKept(t *testing.T) {
	s := newStage(t)
	one, two := s.account(), s.account()
	s.holder.Install("db", one)
	p := s.pool(time.Second)
	l := startLoad(t, p, 4)
	to := s.holder.AwaitRegistered("db", 1)[0].To()
	if got, err := s.holder.Prepare(within(t, 10*time.Second), to, two, 10*time.Second); err != nil || !got.Yes() {
		t.Fatalf("%+v, %v", got, err)
	}
	if p.Lease() != two.Lease {
		t.Errorf("new work is on lease %d after yes", p.Lease())
	}
	if got, err := s.holder.Follow(within(t, 10*time.Second), to, s.holder.RollBack("db"), true); err != nil || !got.Confirmed() {
		t.Fatalf("%+v, %v", got, err)
	}
	if p.Lease() != one.Lease {
		t.Errorf("on lease %d after the way back", p.Lease())
	}
	s.revoke(two)
	l.end()
	if l.failed.Load() != 0 {
		t.Errorf("%d of %d failed: %v", l.failed.Load(), l.queries.Load(), l.errs)
	}
}

func TestATransactionHoldsTheConfirmationUp(t *testing.T) {
	s := newStage(t)
	one, two := s.account(), s.account()
	s.holder.Install("db", one)
	p := s.pool(time.Second)
	ctx := within(t, 20*time.Second)
	tx, err := p.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) }) // Close waits for it
	to := s.holder.AwaitRegistered("db", 1)[0].To()
	if got, err := s.holder.Prepare(ctx, to, two, 10*time.Second); err != nil || !got.Yes() {
		t.Fatalf("%+v, %v", got, err)
	}
	state := s.holder.Install("db", two)
	if got, err := s.holder.Follow(within(t, 300*time.Millisecond), to, state, false); err == nil {
		t.Fatalf("confirmed %+v with a transaction open on the old user", got)
	}
	// The next rotation goes on beside it: the drain is interrupted, not lost.
	three := s.account()
	if got, err := s.holder.Prepare(ctx, to, three, 10*time.Second); err != nil || !got.Yes() {
		t.Fatalf("%+v, %v", got, err)
	}
	state = s.holder.Install("db", three)
	if got, err := s.holder.Follow(within(t, 300*time.Millisecond), to, state, false); err == nil {
		t.Fatalf("confirmed %+v with a transaction open on the user before the last", got)
	}
	var user string
	if err := tx.QueryRow(ctx, who).Scan(&user); err != nil || user != one.Public {
		t.Errorf("%s, %v", user, err)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if got, err := s.holder.Follow(ctx, to, state, false); err != nil || !got.Confirmed() {
		t.Fatalf("%+v, %v", got, err)
	}
	s.revoke(one)
	s.revoke(two)
}

func TestC49_YesNeedsALoginAsTheCandidate(t *testing.T) {
	s := newStage(t)
	one, two := s.account(), s.account()
	s.holder.Install("db", one)
	p := s.pool(4 * time.Second)
	to := s.holder.AwaitRegistered("db", 1)[0].To()
	for name, change := range map[string]string{
		"may not log in": `alter role %q nologin`,
		"another user":   `alter role %q login`, // and its name is not the candidate's
	} {
		candidate := s.account()
		if _, err := s.admin.Exec(context.Background(), fmt.Sprintf(change, candidate.Public)); err != nil {
			t.Fatal(err)
		}
		if name == "another user" {
			candidate.Values = []byte(`{"username":"nobody","password":"pw-nobody"}`)
		}
		got, err := s.holder.Prepare(within(t, 10*time.Second), to, candidate, 5*time.Second)
		if err != nil || got.Yes() || got.Reason == "" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if p.Lease() != one.Lease {
			t.Errorf("%s: on lease %d", name, p.Lease())
		}
	}
	// C48: an account that works only after a moment.
	if _, err := s.admin.Exec(context.Background(), fmt.Sprintf(`alter role %q nologin`, two.Public)); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(300*time.Millisecond, func() {
		conn, err := pgx.Connect(context.Background(), s.pg.DSN())
		if err == nil {
			_, err = conn.Exec(context.Background(), fmt.Sprintf(`alter role %q login`, two.Public))
			_ = conn.Close(context.Background())
		}
		if err != nil {
			t.Error(err)
		}
	})
	defer late.Stop()
	if got, err := s.holder.Prepare(within(t, 10*time.Second), to, two, 5*time.Second); err != nil || !got.Yes() || got.Took < 300*time.Millisecond {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestC58_ARefusedLoginIsReported(t *testing.T) {
	s := newStage(t)
	one := s.account()
	s.holder.Install("db", one)
	p := s.pool(time.Second)
	if err := p.Ping(within(t, 30*time.Second)); err != nil {
		t.Fatal(err)
	}
	// Behind everybody's back; sessions that are open are ended too.
	for _, sql := range []string{`alter role %[1]q nologin`, `select pg_terminate_backend(pid) from pg_stat_activity where usename = '%[1]s'`} {
		if _, err := s.admin.Exec(context.Background(), fmt.Sprintf(sql, one.Public)); err != nil {
			t.Fatal(err)
		}
	}
	refused := 0
	for limit := time.Now().Add(30 * time.Second); len(s.holder.Reports()) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("nothing was reported, though %d logins were refused", refused)
		}
		if _, err := p.Exec(within(t, 10*time.Second), "select 1"); err != nil {
			refused++
		}
	}
	for range 20 { // told once
		_, _ = p.Exec(within(t, 10*time.Second), "select 1")
	}
	got := s.holder.Reports()
	if len(got) != 1 || got[0].Lease != one.Lease || !strings.Contains(got[0].Reason, "28000") || refused == 0 {
		t.Errorf("%d refused logins were reported as %+v", refused, got)
	}
}

func TestNoneMakesWorkWait(t *testing.T) {
	s := newStage(t)
	one := s.account()
	s.holder.Install("db", one)
	p := s.pool(time.Second)
	to := s.holder.AwaitRegistered("db", 1)[0].To()
	none := consumertest.State{N: s.holder.Next()}
	if got, err := s.holder.Follow(within(t, 10*time.Second), to, none, true); err != nil || !got.Confirmed() {
		t.Fatalf("%+v, %v", got, err)
	}
	s.revoke(one)
	short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := p.Exec(short, "select 1"); !errors.Is(err, pgxlease.ErrNone) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	waited := make(chan error, 1)
	go func() { _, err := p.Exec(within(t, 10*time.Second), "select 1"); waited <- err }()
	state := s.holder.Install("db", s.account())
	if got, err := s.holder.Follow(within(t, 10*time.Second), to, state, false); err != nil || !got.Confirmed() {
		t.Fatalf("%+v, %v", got, err)
	}
	if err := <-waited; err != nil {
		t.Error(err)
	}
}

func TestCloseEndsItsSessionsBeforeItLeaves(t *testing.T) {
	s := newStage(t)
	one := s.account()
	s.holder.Install("db", one)
	p := s.pool(time.Second)
	if err := p.Ping(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	s.holder.AwaitRegistered("db", 1)
	p.Close()
	if len(s.holder.Registered("db")) != 0 {
		t.Error("still registered")
	}
	s.revoke(one)
	if _, err := p.Exec(within(t, time.Second), "select 1"); !errors.Is(err, pgxlease.ErrClosed) {
		t.Error(err)
	}
	if err := p.QueryRow(within(t, time.Second), "select 1").Scan(nil); !errors.Is(err, pgxlease.ErrClosed) {
		t.Error(err)
	}
	if err := p.SendBatch(within(t, time.Second), &pgx.Batch{}).Close(); !errors.Is(err, pgxlease.ErrClosed) {
		t.Error(err)
	}
	if p.Err() != nil {
		t.Error(p.Err())
	}
}

func TestNewSaysWhatItWaitedFor(t *testing.T) {
	s := newStage(t)
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err := pgxlease.New(ctx, s.client, "nope", pgxlease.Config{DSN: "host=127.0.0.1"})
	if !errors.Is(err, consumer.ErrUnknownName) || !errors.Is(err, pgxlease.ErrNone) {
		t.Error(err)
	}
	if _, err := pgxlease.New(ctx, s.client, "db", pgxlease.Config{DSN: "postgres://u:pw-secret@[::1"}); err == nil || strings.Contains(err.Error(), "pw-secret") {
		t.Error(err)
	}
}
