package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/leasesvc/leasesvc/agent"
	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/internal/natstest"
	"github.com/leasesvc/leasesvc/service"
	"github.com/leasesvc/leasesvc/service/api"
	"github.com/leasesvc/leasesvc/service/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a service on an embedded NATS server and a Vault of its own.
type rig struct {
	t     *testing.T
	dir   string
	nats  *natstest.Server
	vault *devvault.Server
	key   string
	spans trace.TracerProvider // of the agent; nil: none
	out   *text                // what service and agents log

	mu  sync.Mutex
	log []events.Event
}

// text collects what is written to it.
type text struct {
	mu sync.Mutex
	b  strings.Builder
}

func (x *text) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.Write(p)
}

func (x *text) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.String()
}

// lease is a definition of database credentials for the consumer "app".
func lease(name string) string {
	return "  " + name + ":\n    path: database/creds/app\n    kind: postgresql\n    consumers: [{name: app}]\n" +
		"    prepare_timeout: 20s\n    rollback_timeout: 10s\n    good_for: 200ms\n"
}

func newRig(t *testing.T, definitions string, more ...string) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), nats: natstest.Start(t), out: &text{}}
	var err error
	if r.vault, err = devvault.New(devvault.Config{}); err != nil {
		t.Fatal(err)
	}
	if err := r.vault.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.vault.Close)
	for path, body := range map[string]any{
		"sys/mounts/database":       map[string]any{"type": "database"},
		"sys/mounts/kv":             map[string]any{"type": "kv"},
		"auth/token/roles/leasesvc": map[string]any{"orphan": true, "renewable": true},
	} {
		r.do(path, body)
	}
	r.do("database/config/main", map[string]any{"plugin_name": "postgresql-database-plugin", "allowed_roles": "*", "connection_url": ""})
	r.do("database/roles/app", map[string]any{"db_name": "main", "default_ttl": "1h", "max_ttl": "2h"})
	seed, err := handover.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	r.write("seal.key", seed.Reveal())
	r.write("definitions.yaml", "revision: 1\nleases:\n"+definitions)
	cfg, err := config.Parse(filepath.Join(r.dir, "leasesvc.yaml"), fmt.Appendf(nil, `
nats: {url: %q}
state_dir: state
seal_key: {file: seal.key}
vaults:
  main: {address: %q, environment: false, token: %q, guard_role: leasesvc}
scopes:
  prod: {definitions: definitions.yaml}
insecure_consumers: true
heartbeat: 100ms
shutdown_timeout: 45s # longer than any hand-over that a test leaves behind
%s`, r.nats.URL(), r.vault.URL(), r.vault.RootToken().Reveal(), strings.Join(more, "")))
	if err != nil {
		t.Fatal(err)
	}
	svc, err := service.New(cfg, service.Options{Logger: slog.New(slog.NewTextHandler(r.out, nil)), OnEvent: func(e events.Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.log = append(r.log, e)
	}})
	if err != nil {
		t.Fatal(err)
	}
	r.key = svc.ServiceKey()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- svc.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the service ended with: %v", err)
		}
		if t.Failed() {
			t.Log(r.out.String())
		}
	})
	r.await("a holder", func() bool { return r.count(events.TypeApplied) > 0 })
	return r
}

func (r *rig) do(path string, body any) {
	r.t.Helper()
	if _, err := r.vault.Do(context.Background(), "POST", path, body); err != nil {
		r.t.Fatalf("%s: %v", path, err)
	}
}

func (r *rig) write(name, content string) string {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
		r.t.Fatal(err)
	}
	return path
}

func (r *rig) path(name string) string { return filepath.Join(r.dir, name) }

func (r *rig) await(what string, ok func() bool) {
	r.t.Helper()
	deadline := time.Now().Add(40 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			r.t.Fatalf("waited for %s", what)
		}
		<-time.After(10 * time.Millisecond)
	}
}

func (r *rig) events(t events.Type, name string) (out []events.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.log {
		if e.Type() == t && (name == "" || e.Name == name) {
			out = append(out, e)
		}
	}
	return out
}

func (r *rig) count(t events.Type) int { return len(r.events(t, "")) }

func (r *rig) api() *api.Client { return api.NewClient(r.nats.Conn(r.t)) }

func (r *rig) rotate(name string) {
	r.t.Helper()
	if _, err := r.api().Rotate(r.t.Context(), "prod", name); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) put(name string, expected uint64, content string) {
	r.t.Helper()
	_, err := r.api().UpdateDocument(r.t.Context(), "prod", name, r.key, api.DocumentUpdate{
		Expected: expected, Content: json.RawMessage(content), Until: time.Now().Add(time.Minute),
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// client gives a consumer of the service.
func (r *rig) client(instance string) *consumer.Client {
	r.t.Helper()
	c, err := consumer.Connect(context.Background(), consumer.Options{
		URL: r.nats.URL(), Scope: "prod", Consumer: "app", Instance: instance, ServiceKey: r.key, Insecure: true, TracerProvider: r.spans,
		Logger: slog.New(slog.NewTextHandler(r.out, nil)),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// committed gives a value of what is committed for a lease; empty: nothing is.
func (r *rig) committed(name, key string) string {
	r.t.Helper()
	c := r.client("reader")
	defer c.Close()
	cred, err := c.Get(r.t.Context(), name)
	if err != nil {
		return ""
	}
	v, _ := cred.Get(key)
	return v.Reveal()
}

func (r *rig) parse(targets string) *config.Agent {
	r.t.Helper()
	cfg, err := config.ParseAgent(r.path("agent.yaml"), fmt.Appendf(nil,
		"nats: {url: %q}\nscope: prod\nconsumer: app\ninstance: app-0\ninsecure: true\nrefresh: 200ms\ntargets:\n%s", r.nats.URL(), targets))
	if err != nil {
		r.t.Fatal(err)
	}
	return cfg
}

func (r *rig) agent(targets string) (*agent.Agent, *consumer.Client) {
	r.t.Helper()
	client := r.client("app-0")
	a, err := agent.New(agent.Options{
		Config: r.parse(targets), Client: client, Logger: slog.New(slog.NewTextHandler(r.out, nil)), Stdout: io.Discard, Stderr: io.Discard,
	})
	if err != nil {
		client.Close()
		r.t.Fatal(err)
	}
	return a, client
}

// run runs an agent; stop ends it.
func (r *rig) run(targets string) (stop func()) {
	r.t.Helper()
	a, client := r.agent(targets)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				r.t.Errorf("the agent ended with: %v", err)
			}
			client.Close()
		})
	}
	r.t.Cleanup(stop)
	return stop
}

// file gives what a file has; empty: there is none.
func (r *rig) file(name string) string {
	b, err := os.ReadFile(r.path(name))
	if err != nil {
		return ""
	}
	return string(b)
}

// noSecretsShow looks for values in everything that was logged or recorded.
func (r *rig) noSecretsShow(values ...string) {
	r.t.Helper()
	r.mu.Lock()
	recorded, err := json.Marshal(r.log)
	r.mu.Unlock()
	if err != nil {
		r.t.Fatal(err)
	}
	all := r.out.String() + string(recorded)
	for _, v := range values {
		if v == "" {
			r.t.Error("a value is empty: the test shows nothing")
		} else if strings.Contains(all, v) {
			r.t.Errorf("a value shows in what was logged")
		}
	}
}
