package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/bench/instance"
	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/secret"
	"github.com/leasesvc/leasesvc/service"
	"github.com/leasesvc/leasesvc/service/config"
)

// vaultTakes is what the Vault of these benchmarks needs for a renewal.
const vaultTakes = 2 * time.Millisecond

// rig is what an instance needs to run: NATS, a Vault and a directory.
type rig struct {
	t     *testing.T
	place *place
	vault *devvault.Server
	dir   string
	seed  secret.String
	keys  *handover.Keys
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir()}
	var err error
	if r.vault, err = devvault.New(devvault.Config{Accounts: &devvault.Directory{}}); err != nil {
		t.Fatal(err)
	}
	if err := r.vault.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.vault.Close)
	for _, q := range []struct {
		path string
		body map[string]any
	}{
		{"sys/mounts/database", map[string]any{"type": "database"}},
		{"auth/token/roles/leasesvc", map[string]any{"orphan": true, "renewable": true}},
		{"database/config/main", map[string]any{"plugin_name": "postgresql-database-plugin", "allowed_roles": "*", "connection_url": ""}},
		{"database/roles/app", map[string]any{"db_name": "main", "default_ttl": "1h", "max_ttl": "2h"}},
	} {
		if _, err := r.vault.Do(context.Background(), http.MethodPost, q.path, q.body); err != nil {
			t.Fatal(err)
		}
	}
	if r.seed, err = handover.NewSeed(); err != nil {
		t.Fatal(err)
	}
	if r.keys, err = handover.NewKeys(r.seed); err != nil {
		t.Fatal(err)
	}
	r.write("seal.key", r.seed.Reveal())
	r.write("none.yaml", "revision: 1\nleases: {}\n")
	return r
}

func (r *rig) write(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// renewable has the Vault renew every lease for an hour and extend every guard as far
// as is asked for then, in vaultTakes.
func (r *rig) renewable() {
	answer := func(body map[string]any) func(http.ResponseWriter, *http.Request, http.Handler) {
		b, err := json.Marshal(body)
		if err != nil {
			r.t.Fatal(err)
		}
		return func(w http.ResponseWriter, q *http.Request, _ http.Handler) {
			_, _ = io.Copy(io.Discard, q.Body)
			<-time.After(vaultTakes)
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(b) // a client that has gone
		}
	}
	r.vault.Inject(devvault.Fault{Path: "sys/leases/renew", Do: answer(map[string]any{"lease_id": "", "lease_duration": 3600, "renewable": true})})
	r.vault.Inject(devvault.Fault{Path: "auth/token/renew-accessor", Do: answer(map[string]any{"auth": map[string]any{"accessor": "a", "lease_duration": 7260, "renewable": true, "token_type": "service"}})})
}

// configured writes the service file of an instance with these scopes.
func (r *rig) configured(scopes string) (file string, text []byte) {
	r.t.Helper()
	const name = "leasesvc.yaml"
	text = fmt.Appendf(nil, `
nats: {url: %q, max_bytes: 3GiB}
state_dir: state
seal_key: {file: seal.key}
vaults:
  main: {address: %q, environment: false, token: %q, guard_role: leasesvc, limits: {in_flight: 64, per_mount: 64}}
scopes: %s
insecure_consumers: true
`, r.place.url, r.vault.URL(), r.vault.RootToken().Reveal(), scopes)
	r.write(name, string(text))
	return filepath.Join(r.dir, name), text
}

// apart runs an instance in a process of its own.
func (r *rig) apart(scopes string) *instance.Instance {
	r.t.Helper()
	file, _ := r.configured(scopes)
	return instance.Start(r.t, file)
}

// within runs an instance in this process until the test ends.
func (r *rig) within(scopes string) *service.Service {
	r.t.Helper()
	cfg, err := config.Parse(r.configured(scopes))
	if err != nil {
		r.t.Fatal(err)
	}
	svc, err := service.New(cfg, service.Options{Version: "bench", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- svc.Run(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Errorf("the instance ended with: %v", err)
		}
	})
	return svc
}

// await waits until ok holds, within a bound.
func (r *rig) await(what string, ok func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); <-time.After(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("waited for %s", what)
		}
	}
}

// on gives the rig a NATS server.
func (r *rig) on(replicas int, always bool) *rig {
	r.place = newPlace(r.t, replicas, always)
	return r
}
