package service_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/internal/natstest"
	"github.com/leasesvc/leasesvc/service"
	"github.com/leasesvc/leasesvc/service/api"
	"github.com/leasesvc/leasesvc/service/config"
)

// rig is a NATS server, a Vault and what a service needs to run with them.
type rig struct {
	t     *testing.T
	nats  *natstest.Server
	vault *devvault.Server
	dir   string
	accts *devvault.Directory

	// More for the service file: at its end, in the Vault connection, and
	// among the scopes.
	more, moreVault, moreScopes string
	heartbeat                   string // empty: 100ms
	version                     string // of the program; empty: 1.2.3
	sealKey                     string // empty: {file: seal.key}
	// documents is what the scope's documents may refer to.
	documents string

	// before, if set, is called with an instance before it runs.
	before func(*service.Service)

	// spans, if set, gives an instance's tracer provider.
	spans func(state string) trace.TracerProvider

	// Where the token comes from, if it is not the root token itself: a file, or
	// a login.
	tokenFile, login string

	mu  sync.Mutex
	log []events.Event
	out *safeBuffer
}

// safeBuffer collects what is logged.
type safeBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func newRig(t *testing.T, leaseTTL, maxTTL string) *rig {
	t.Helper()
	r := &rig{t: t, nats: natstest.Start(t), dir: t.TempDir(), accts: &devvault.Directory{}, out: &safeBuffer{}}
	var err error
	if r.vault, err = devvault.New(devvault.Config{Accounts: r.accts}); err != nil {
		t.Fatal(err)
	}
	if err := r.vault.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.vault.Close)
	for path, body := range map[string]any{
		"sys/mounts/database":       map[string]any{"type": "database"},
		"sys/mounts/kv":             map[string]any{"type": "kv"},
		"sys/mounts/kv2":            map[string]any{"type": "kv", "options": map[string]any{"version": "2"}},
		"auth/token/roles/leasesvc": map[string]any{"orphan": true, "renewable": true},
	} {
		r.do(path, body)
	}
	r.do("database/config/main", map[string]any{"plugin_name": "postgresql-database-plugin", "allowed_roles": "*", "connection_url": ""})
	r.do("database/roles/app", map[string]any{"db_name": "main", "default_ttl": leaseTTL, "max_ttl": maxTTL})
	seed, err := handover.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	r.write("seal.key", seed.Reveal())
	return r
}

func (r *rig) do(path string, body any) {
	r.t.Helper()
	if _, err := r.vault.Do(context.Background(), "POST", path, body); err != nil {
		r.t.Fatalf("%s: %v", path, err)
	}
}

func (r *rig) write(name, text string) string {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	return path
}

func (r *rig) definitions(revision int, lines string) {
	r.write("definitions.yaml", fmt.Sprintf("revision: %d\nleases:\n%s", revision, lines))
}

const appDefinition = `  app:
    path: database/creds/app
    kind: postgresql
    consumers: [{name: shop}]
    prepare_timeout: 2s
    rollback_timeout: 1s
    good_for: 200ms
`

func (r *rig) config(state string) *config.Config {
	r.t.Helper()
	cfg, err := config.Parse(filepath.Join(r.dir, "leasesvc.yaml"), fmt.Appendf(nil, `
nats: {url: %q}
state_dir: %s
seal_key: %s
vaults:
  main: {address: %q, environment: false, %s, %s}
scopes:
  prod: {definitions: definitions.yaml, documents: {%s}}
%sinsecure_consumers: true
heartbeat: %s
%s`, r.nats.URL(), state, orElse(r.sealKey, "{file: seal.key}"), r.vault.URL(), r.credentials(), orElse(r.moreVault, "guard_role: leasesvc"), r.documents, r.moreScopes, orElse(r.heartbeat, "100ms"), r.more))
	if err != nil {
		r.t.Fatal(err)
	}
	return cfg
}

// credentials are what the connection gets its token from.
func (r *rig) credentials() string {
	switch {
	case r.tokenFile != "":
		return fmt.Sprintf("token_file: %q", r.tokenFile)
	case r.login != "":
		return r.login
	default:
		return fmt.Sprintf("token: %q", r.vault.RootToken().Reveal())
	}
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// run starts an instance; the result stops it.
func (r *rig) run(state string) (stop func() error) {
	r.t.Helper()
	_, stop = r.start(state)
	return stop
}

// start is run that gives the instance too.
func (r *rig) start(state string) (svc *service.Service, stop func() error) {
	r.t.Helper()
	var spans trace.TracerProvider
	if r.spans != nil {
		spans = r.spans(state)
	}
	svc, err := service.New(r.config(state), service.Options{
		Version:        orElse(r.version, "1.2.3"),
		TracerProvider: spans,
		Logger:         slog.New(slog.NewTextHandler(io.MultiWriter(r.out, testWriter{r.t}), nil)),
		OnEvent: func(e events.Event) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.log = append(r.log, e)
		},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	if r.before != nil {
		r.before(svc)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- svc.Run(ctx) }()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-done
	}
	r.t.Cleanup(func() {
		if err := stop(); err != nil {
			r.t.Errorf("stopping: %v", err)
		}
	})
	return svc, stop
}

// testWriter shows the log of a test that fails.
type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}

// await waits until ok holds, within a bound.
func (r *rig) await(what string, ok func() bool) {
	r.t.Helper()
	r.within(40*time.Second, what, ok)
}

func (r *rig) within(bound time.Duration, what string, ok func() bool) {
	r.t.Helper()
	deadline := time.Now().Add(bound)
	for !ok() {
		if time.Now().After(deadline) {
			r.t.Fatalf("waited for %s", what)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// events gives those recorded so far that are of a type.
func (r *rig) events(t events.Type) (out []events.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.log {
		if e.Type() == t {
			out = append(out, e)
		}
	}
	return out
}

// api is a client of an operator.
func (r *rig) api() *api.Client { return api.NewClient(r.nats.Conn(r.t)) }

// done checks an operator's request.
func (r *rig) done(_ api.Done, err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// reader is a consumer's client, for its gets alone.
func (r *rig) reader() *consumer.Client {
	r.t.Helper()
	c, err := consumer.Connect(context.Background(), consumer.Options{
		URL: r.nats.URL(), Scope: "prod", Consumer: "reader", Instance: "reader-0", Insecure: true,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(c.Close)
	return c
}

// count gives how many events of a type are recorded.
func (r *rig) count(t events.Type) int { return len(r.events(t)) }

// active gives the number of a name's active lease; 0: none.
func (r *rig) active(name string) uint64 {
	r.t.Helper()
	table, err := r.api().Leases(context.Background(), "prod")
	if err != nil {
		return 0 // nobody leads yet
	}
	for _, l := range table.Names {
		if l.Name == name {
			return l.Active
		}
	}
	return 0
}

// lastSeq gives the sequence of the last event recorded.
func (r *rig) lastSeq() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log[len(r.log)-1].Seq
}

// gate is a fault that holds requests until it is opened, and then lets them
// through.
type gate struct {
	*devvault.Injected
	once sync.Once
	open chan struct{}
}

func (r *rig) hold(method, path string) *gate {
	g := &gate{open: make(chan struct{})}
	g.Injected = r.vault.Inject(devvault.Fault{Method: method, Path: path, Do: func(w http.ResponseWriter, q *http.Request, next http.Handler) {
		select {
		case <-g.open:
			next.ServeHTTP(w, q)
		case <-q.Context().Done():
			panic(http.ErrAbortHandler)
		}
	}})
	r.t.Cleanup(g.pass)
	return g
}

func (g *gate) pass() {
	g.once.Do(func() {
		g.Remove()
		close(g.open)
	})
}

// shop is a consumer that logs in with what it is given.
type shop struct {
	rig   *rig
	mu    sync.Mutex
	say   error         // what it answers to a prepare instead
	hung  chan struct{} // closed when it answers again; nil: it answers
	asked uint64        // the last lease that it was asked to prepare
	now   consumer.Credential
}

func (s *shop) login(c consumer.Credential) error {
	user, _ := c.Get("username")
	password, _ := c.Get("password")
	return s.rig.accts.Login(user.Reveal(), password.Reveal())
}

func (s *shop) Prepare(ctx context.Context, c consumer.Credential) error {
	s.mu.Lock()
	s.asked = c.Lease
	if hung := s.hung; hung != nil {
		s.mu.Unlock()
		select {
		case <-hung:
		case <-ctx.Done():
		}
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	if s.say != nil {
		return s.say
	}
	return s.login(c)
}

func (s *shop) Commit(_ context.Context, c consumer.Credential) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.login(c); err != nil {
		return err
	}
	s.now = c
	return nil
}

func (s *shop) Revert(_ context.Context, c consumer.Credential) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = c
	return nil
}

func (s *shop) lease() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now.Lease
}

// wasAsked tells whether it was asked to prepare a lease later than another. From
// then on a hand-over holds what it touches: its beginning is in the log before.
func (s *shop) wasAsked(after uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked > after
}

// hang has it answer no prepare until it is told to again.
func (s *shop) hang(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hung != nil {
		close(s.hung)
		s.hung = nil
	}
	if on {
		s.hung = make(chan struct{})
	}
}

func (s *shop) answer(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.say = err
}

// serve runs the consumer until the test ends.
func (r *rig) serve(s *shop) {
	r.t.Helper()
	client, err := consumer.Connect(context.Background(), consumer.Options{
		URL: r.nats.URL(), Scope: "prod", Consumer: "shop", Instance: "shop-0", Insecure: true,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { done <- client.Serve(ctx, "app", s) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Errorf("the consumer ended with: %v", err)
		}
		client.Close()
	})
}
