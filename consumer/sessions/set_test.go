package sessions_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/consumer/consumertest"
	"github.com/leasesvc/leasesvc/consumer/sessions"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*Server).startGoRoutine.func1"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.init.0.func1"),
	)
}

var errRefused = errors.New("the login is refused")

// memory is a driver in memory: sessions are the user's name, and what happens to
// them is written down.
type memory struct {
	mu      sync.Mutex
	did     []string
	refuses map[string]bool // by user
	reports map[string]func(error)
}

func (m *memory) note(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.did = append(m.did, fmt.Sprintf(format, args...))
}

func (m *memory) all() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.did)
}

func (m *memory) refuse(user string, refuse bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refuses[user] = refuse
}

func (m *memory) login(user string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refuses[user] {
		return errRefused
	}
	return nil
}

func (m *memory) driver() sessions.Driver[string] {
	isRefused := func(err error) bool { return errors.Is(err, errRefused) }
	return sessions.Driver[string]{
		Open: func(ctx context.Context, c consumer.Credential, refused func(error)) (string, error) {
			user, _ := c.Get("username")
			err := sessions.Prove(ctx, 300*time.Millisecond, isRefused, func(context.Context) error { return m.login(user.Reveal()) })
			if err != nil {
				return "", err
			}
			m.mu.Lock()
			m.reports[user.Reveal()] = refused
			m.mu.Unlock()
			m.note("open %s", user.Reveal())
			return user.Reveal(), nil
		},
		Prove: func(ctx context.Context, user string) error {
			m.note("prove %s", user)
			return sessions.Prove(ctx, 300*time.Millisecond, isRefused, func(context.Context) error { return m.login(user) })
		},
		Close:    func(user string) { m.note("close %s", user) },
		Current:  func(user string) { m.note("current %s", user) },
		Replaced: func(user string) { m.note("replaced %s", user) },
		Refused:  isRefused,
	}
}

type stage struct {
	t      *testing.T
	holder *consumertest.Holder
	client *consumer.Client
	memory *memory
	set    *sessions.Set[string]
}

// newStage starts a set on the lease of user "a".
func newStage(t *testing.T, change ...func(*consumer.Options)) *stage {
	t.Helper()
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
	s := &stage{t: t, memory: &memory{refuses: map[string]bool{}, reports: map[string]func(error){}}}
	s.holder = consumertest.Start(t, connect(), "prod")
	opts := consumer.Options{Conn: connect(), Scope: "prod", Consumer: "api",
		Instance: "api-0", Insecure: true, ServiceKey: s.holder.ServiceKey(), LeaveTimeout: 5 * time.Second}
	for _, f := range change {
		f(&opts)
	}
	s.client, err = consumer.Connect(context.Background(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.Close)
	s.holder.Install("db", s.candidate("a"))
	s.set, err = sessions.Start(s.within(30*time.Second), s.client, "db", s.memory.driver(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.set.Close)
	return s
}

func (s *stage) candidate(user string) consumertest.State {
	return s.holder.Candidate(user, fmt.Sprintf(`{"username":%q}`, user))
}

func (s *stage) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	s.t.Cleanup(cancel)
	return ctx
}

func (s *stage) did(want ...string) {
	s.t.Helper()
	if got := s.memory.all(); !slices.Equal(got, want) {
		s.t.Errorf("did %q, want %q", got, want)
	}
}

func (s *stage) prepare(c consumertest.State, yes bool) {
	s.t.Helper()
	to := s.holder.AwaitRegistered("db", 1)[0].To()
	if got, err := s.holder.Prepare(s.within(30*time.Second), to, c, 30*time.Second); err != nil || got.Yes() != yes {
		s.t.Fatalf("%+v, %v", got, err)
	}
}

func (s *stage) follow(state consumertest.State, revert bool) {
	s.t.Helper()
	to := s.holder.AwaitRegistered("db", 1)[0].To()
	if got, err := s.holder.Follow(s.within(30*time.Second), to, state, revert); err != nil || !got.Confirmed() {
		s.t.Fatalf("%+v, %v", got, err)
	}
}

func TestCommitClosesWhatWasKept(t *testing.T) {
	s := newStage(t)
	b := s.candidate("b")
	s.prepare(b, true)
	s.did("open a", "current a", "open b", "current b", "replaced a")
	s.follow(s.holder.Install("db", b), false)
	s.did("open a", "current a", "open b", "current b", "replaced a", "close a")
	s.set.Close()
	s.did("open a", "current a", "open b", "current b", "replaced a", "close a", "replaced b", "close b")
}

func TestL21_AWayBackProvesWhatWasKept(t *testing.T) {
	s := newStage(t)
	s.prepare(s.candidate("b"), true)
	s.follow(s.holder.RollBack("db"), true)
	s.did("open a", "current a", "open b", "current b", "replaced a", "prove a", "current a", "replaced b", "close b")
	s.memory.refuse("c", true)
	s.prepare(s.candidate("c"), false)
	if s.set.Lease() != 1 {
		t.Errorf("on lease %d", s.set.Lease())
	}
}

func TestKeptSessionsThatDoNotLogInAreOpenedAnew(t *testing.T) {
	s := newStage(t)
	s.prepare(s.candidate("b"), true)
	s.memory.refuse("a", true)
	late := time.AfterFunc(400*time.Millisecond, func() { s.memory.refuse("a", false) }) // past the proof, within the opening
	defer late.Stop()
	s.follow(s.holder.RollBack("db"), true)
	got := s.memory.all()
	if slices.Index(got, "prove a") < 0 || s.set.Lease() != 1 {
		t.Errorf("did %q, on lease %d", got, s.set.Lease())
	}
}

func TestWhoIsInsideHoldsTheConfirmationUp(t *testing.T) {
	s := newStage(t)
	held, err := s.set.Enter(s.within(30 * time.Second))
	if err != nil || held.Sessions != "a" || held.Credential().Lease != 1 {
		t.Fatalf("%+v, %v", held, err)
	}
	select {
	case <-held.Replaced():
		t.Error("replaced before anything happened")
	default:
	}
	b := s.candidate("b")
	s.prepare(b, true)
	<-held.Replaced()
	to := s.holder.AwaitRegistered("db", 1)[0].To()
	state := s.holder.Install("db", b)
	if got, err := s.holder.Follow(s.within(300*time.Millisecond), to, state, false); err == nil {
		t.Fatalf("confirmed with somebody inside: %+v", got)
	}
	held.Leave()
	held.Leave() // once is enough
	s.follow(state, false)
}

// TestC58_OnlyTheCommittedCredentialIsReported, once, and only a refusal.
func TestC58_OnlyTheCommittedCredentialIsReported(t *testing.T) {
	s := newStage(t)
	b := s.candidate("b")
	s.prepare(b, true)
	s.memory.reports["b"](errRefused) // its hand-over says so
	s.memory.reports["a"](errors.New("the network"))
	s.memory.reports["a"](errRefused)
	for limit := time.Now().Add(30 * time.Second); len(s.holder.Reports()) == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("not reported")
		}
	}
	for range 10 {
		s.memory.reports["a"](errRefused)
	}
	s.follow(s.holder.Install("db", b), false)
	s.memory.reports["a"](errRefused) // nobody uses it
	s.set.Close()
	s.memory.reports["b"](errRefused)
	if got := s.holder.Reports(); len(got) != 1 || got[0].Lease != 1 || got[0].Reason != errRefused.Error() {
		t.Errorf("reported: %+v", got)
	}
}

func TestAClosedSetTakesNothing(t *testing.T) {
	s := newStage(t)
	s.set.Close()
	if _, err := s.set.Enter(s.within(time.Second)); !errors.Is(err, sessions.ErrClosed) {
		t.Error(err)
	}
	if err := s.set.Prepare(s.within(30*time.Second), consumer.Credential{Lease: 7}); !errors.Is(err, sessions.ErrClosed) {
		t.Error(err)
	}
	if s.set.Lease() != 0 || s.set.Err() != nil {
		t.Errorf("on lease %d: %v", s.set.Lease(), s.set.Err())
	}
	s.set.Close()
}

func TestProveSaysWhatTheServerSaid(t *testing.T) {
	isRefused := func(err error) bool { return errors.Is(err, errRefused) }
	tries := 0
	err := sessions.Prove(context.Background(), 450*time.Millisecond, isRefused, func(context.Context) error { tries++; return errRefused })
	if !errors.Is(err, errRefused) || tries < 2 {
		t.Errorf("%d tries: %v", tries, err)
	}
	other := errors.New("another")
	if err := sessions.Prove(context.Background(), time.Minute, isRefused, func(context.Context) error { return other }); !errors.Is(err, other) {
		t.Error(err)
	}
	tries = 0
	err = sessions.Prove(context.Background(), time.Minute, isRefused, func(context.Context) error {
		if tries++; tries < 3 {
			return errRefused
		}
		return nil
	})
	if err != nil || tries != 3 {
		t.Errorf("%d tries: %v", tries, err)
	}
}
