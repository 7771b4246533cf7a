package amqplease_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/consumer/amqplease"
	"github.com/leasesvc/leasesvc/consumer/consumertest"
	"github.com/leasesvc/leasesvc/itest/rabbittest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(rabbittest.Main(m),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*Server).startGoRoutine.func1"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.init.0.func1"),
	)
}

// stage is a broker, a scripted holder that makes accounts in it, and a
// client of its scope.
type stage struct {
	t      *testing.T
	srv    *rabbittest.Server
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
	s := &stage{t: t, srv: rabbittest.Shared(t), log: &lockedBuffer{}}
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
	s.holder.Define("mq")
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

// account makes a user of the broker and a candidate with it; its permissions
// are all, or those given (configure, write, read).
func (s *stage) account(permissions ...string) consumertest.State {
	s.t.Helper()
	user := fmt.Sprintf("app-%d", made.Add(1))
	s.password(user, "pw-"+user)
	if len(permissions) == 0 {
		permissions = []string{".*", ".*", ".*"}
	}
	s.api(http.MethodPut, "permissions/%2F/"+user, fmt.Sprintf(`{"configure":%q,"write":%q,"read":%q}`, permissions[0], permissions[1], permissions[2]))
	return s.holder.Candidate(user, fmt.Sprintf(`{"username":%q,"password":"pw-%s"}`, user, user))
}

func (s *stage) password(user, password string) {
	s.t.Helper()
	s.api(http.MethodPut, "users/"+user, fmt.Sprintf(`{"password":%q,"tags":""}`, password))
}

func (s *stage) api(method, path, body string) []byte {
	s.t.Helper()
	r, err := http.NewRequest(method, s.srv.ManagementURL()+"/api/"+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.SetBasicAuth(s.srv.Administrator(), s.srv.Password())
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	resp, err := client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		s.t.Fatalf("%s %s: %s %s %v", method, path, resp.Status, b, err)
	}
	return b
}

// forced counts the connections that the broker has ended because their user is
// deleted: nobody may live on a credential that is revoked.
func (s *stage) forced() int {
	s.t.Helper()
	b, err := os.ReadFile(s.srv.Log())
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.Count(string(b), "a connection exception connection_forced")
}

// revoke drops a candidate's user, as Vault does.
func (s *stage) revoke(c consumertest.State) {
	s.t.Helper()
	s.api(http.MethodDelete, "users/"+c.Public, "")
}

func (s *stage) open(queues ...string) *amqplease.Conn {
	s.t.Helper()
	c, err := amqplease.New(within(s.t, 60*time.Second), s.client, "mq", amqplease.Config{
		URL: "amqp://" + s.srv.Addr() + "/%2F", ProveTimeout: 3 * time.Second, Channels: 4, Logger: s.log.logger(),
		Setup: func(_ context.Context, ch *amqp.Channel) error {
			for _, q := range queues {
				if _, err := ch.QueueDeclare(q, true, false, false, false, nil); err != nil {
					return err
				}
			}
			return nil
		}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

// load publishes numbers to a queue and consumes them, until end, and counts what
// failed and what came.
type load struct {
	s                 *stage
	published, failed atomic.Int64
	mu                sync.Mutex
	confirmed, came   map[int64]int
	errs              []string
	stop, stopReading context.CancelFunc
	writers, readers  sync.WaitGroup
}

func startLoad(s *stage, c *amqplease.Conn, queue string, workers int) *load {
	s.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	reading, stopReading := context.WithCancel(context.Background())
	l := &load{s: s, confirmed: map[int64]int{}, came: map[int64]int{}, stop: stop, stopReading: stopReading}
	s.t.Cleanup(func() { stop(); stopReading(); l.writers.Wait(); l.readers.Wait() })
	for range workers {
		l.writers.Go(func() {
			for ctx.Err() == nil {
				n := l.published.Add(1)
				within, cancel := context.WithTimeout(context.Background(), 30*time.Second)
				err := c.Publish(within, "", queue, true, amqp.Publishing{Body: fmt.Append(nil, n), DeliveryMode: amqp.Persistent})
				cancel()
				l.mu.Lock()
				if err != nil {
					l.failed.Add(1)
					l.errs = append(l.errs, err.Error())
				} else {
					l.confirmed[n]++
				}
				l.mu.Unlock()
			}
		})
	}
	for range 2 {
		l.readers.Go(func() {
			err := c.Consume(reading, queue, amqplease.ConsumeOptions{Prefetch: 10}, func(_ context.Context, d amqp.Delivery) {
				n, err := strconv.ParseInt(string(d.Body), 10, 64)
				if err == nil {
					err = d.Ack(false)
				}
				l.mu.Lock()
				defer l.mu.Unlock()
				if l.came[n]++; err != nil {
					l.failed.Add(1)
					l.errs = append(l.errs, "ack: "+err.Error())
				}
			})
			if err != nil {
				s.t.Errorf("consuming: %v", err)
			}
		})
	}
	return l
}

// more waits for n more messages.
func (l *load) more(n int64) {
	l.s.t.Helper()
	before := l.published.Load()
	for limit := time.Now().Add(60 * time.Second); l.published.Load() < before+n; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			l.s.t.Fatal("the load has stopped")
		}
	}
}

// end stops publishing, waits until all that was confirmed has come, and gives
// how many messages there were and how many came more than once.
func (l *load) end() (messages, twice int) {
	l.s.t.Helper()
	l.stop()
	l.writers.Wait()
	missing := func() (missing []int64) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for n := range l.confirmed {
			if l.came[n] == 0 {
				missing = append(missing, n)
			}
		}
		return missing
	}
	for limit := time.Now().Add(60 * time.Second); len(missing()) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			l.s.t.Fatalf("%d of %d messages did not come: %v", len(missing()), len(l.confirmed), missing())
		}
	}
	l.stopReading()
	l.readers.Wait()
	for _, times := range l.came {
		if times > 1 {
			twice++
		}
	}
	return len(l.confirmed), twice
}
