package redislease_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/consumer/consumertest"
	"github.com/leasesvc/leasesvc/consumer/redislease"
	"github.com/leasesvc/leasesvc/itest/redistest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(redistest.Main(m),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*Server).startGoRoutine.func1"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.init.0.func1"),
	)
}

// stage is a Redis, a scripted holder that makes accounts in it, and a
// client of its scope.
type stage struct {
	t      *testing.T
	srv    *redistest.Server
	admin  *redis.Client
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

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, srv: redistest.Shared(t), log: &lockedBuffer{}}
	o, err := redis.ParseURL(s.srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	s.admin = redis.NewClient(o)
	t.Cleanup(func() { _ = s.admin.Close() })
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
	s.holder.Define("cache")
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

var made atomic.Int64

// account makes a user in Redis and a candidate with it.
func (s *stage) account(rules ...any) consumertest.State {
	s.t.Helper()
	user := fmt.Sprintf("V_APP_%d", made.Add(1))
	if len(rules) == 0 {
		rules = []any{"~*", "&*", "+@all"}
	}
	s.acl(append([]any{"SETUSER", user, "on", ">pw-" + user}, rules...)...)
	return s.holder.Candidate(user, fmt.Sprintf(`{"username":%q,"password":"pw-%s"}`, user, user))
}

func (s *stage) acl(args ...any) {
	s.t.Helper()
	if err := s.admin.Do(within(s.t, 30*time.Second), append([]any{"ACL"}, args...)...).Err(); err != nil {
		s.t.Fatalf("%v: %v", args[:2], err)
	}
}

func (s *stage) connections(user string) int {
	s.t.Helper()
	list, err := s.admin.ClientList(within(s.t, 30*time.Second)).Result()
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.Count(list, " user="+user+" ")
}

// revoke drops a candidate's user, as Vault does. It fails the test if a
// connection of it is open: nobody may live on a credential that is revoked.
func (s *stage) revoke(c consumertest.State) {
	s.t.Helper()
	n := s.connections(c.Public)
	// A closed socket's connection takes a moment to go.
	for limit := time.Now().Add(10 * time.Second); n > 0 && time.Now().Before(limit); n = s.connections(c.Public) {
		time.Sleep(5 * time.Millisecond)
	}
	if n != 0 {
		s.t.Errorf("%d connections of %s are open when it is revoked", n, c.Public)
	}
	s.acl("DELUSER", c.Public)
}

func (s *stage) open() *redislease.Client {
	s.t.Helper()
	c, err := redislease.New(within(s.t, 30*time.Second), s.client, "cache", redislease.Config{
		Options: &redis.Options{Addr: s.srv.Addr(), PoolSize: 8, ContextTimeoutEnabled: true, MaxRetries: -1}, ProveTimeout: time.Second, Logger: s.log.logger()})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

// load runs commands from several goroutines until end, in each of the ways a
// client can be used, and counts what failed and whom the server saw.
type load struct {
	s             *stage
	calls, failed atomic.Int64
	mu            sync.Mutex
	users         map[string]bool
	errs          []string
	stop          context.CancelFunc
	all           sync.WaitGroup
}

func startLoad(s *stage, c *redislease.Client, workers int) *load {
	s.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	l := &load{s: s, users: map[string]bool{}, stop: stop}
	s.t.Cleanup(l.end)
	for w := range workers {
		l.all.Go(func() {
			for i := w; ctx.Err() == nil; i++ {
				user, err := one(c, fmt.Sprintf("%s-%d", s.t.Name(), w), i%6)
				l.calls.Add(1)
				l.mu.Lock()
				switch {
				case err != nil:
					l.failed.Add(1)
					l.errs = append(l.errs, fmt.Sprintf("%d: %v", i%6, err))
				case user != "":
					l.users[user] = true
				}
				l.mu.Unlock()
			}
		})
	}
	return l
}

func (l *load) end() { l.stop(); l.all.Wait() }

// more waits for n more calls.
func (l *load) more(n int64) {
	l.s.t.Helper()
	before := l.calls.Load()
	for limit := time.Now().Add(30 * time.Second); l.calls.Load() < before+n; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			l.s.t.Fatal("the load has stopped")
		}
	}
}

func one(c *redislease.Client, key string, how int) (user string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	switch how {
	case 0:
		return c.Do(ctx, "ACL", "WHOAMI").Text()
	case 1:
		return "", c.Set(ctx, key, "x", time.Minute).Err()
	case 2: // a pipeline
		var who *redis.Cmd
		cmds, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.Incr(ctx, key+"-n")
			who = p.Do(ctx, "ACL", "WHOAMI")
			return nil
		})
		if err != nil || len(cmds) != 2 {
			return "", fmt.Errorf("%d answers: %w", len(cmds), err)
		}
		return who.Text()
	case 3: // a transaction
		var n *redis.IntCmd
		_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Set(ctx, key+"-t", 1, time.Minute)
			n = p.Incr(ctx, key+"-t")
			return nil
		})
		if err == nil && n.Val() != 2 {
			err = fmt.Errorf("the transaction gave %d", n.Val())
		}
		return "", err
	case 4: // an optimistic one
		return "", c.Watch(ctx, func(tx *redis.Tx) error {
			if _, err := tx.Get(ctx, key+"-w").Int(); err != nil && err != redis.Nil {
				return err
			}
			_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Incr(ctx, key+"-w").Err() })
			return err
		}, key+"-w")
	default: // one that blocks a while
		err := c.Do(ctx, "BLPOP", key+"-none", "0.01").Err()
		if err == redis.Nil {
			err = nil
		}
		return "", err
	}
}
