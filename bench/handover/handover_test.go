package handover

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leasesvc/leasesvc/bench/instance"
	"github.com/leasesvc/leasesvc/bench/table"
	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/internal/garbage"
	"github.com/leasesvc/leasesvc/internal/natstest"
	"github.com/leasesvc/leasesvc/service/api"
)

const (
	scope  = "prod"
	within = 5 * time.Minute // a bound on every wait
)

// bed is what hand-overs are measured on.
type bed struct {
	b       *testing.B
	nats    *natstest.Server
	api     *api.Client
	in      *instance.Instance
	inVault atomic.Int64 // ns that the Vault has worked on requests
}

func TestMain(m *testing.M) {
	garbage.Floor() // a NATS server, a Vault and applications have more on their heaps than what is needed here
	os.Exit(instance.Main(m).Run())
}

var out = flag.String("handover.out", "", "the JSON file to bring up to date; empty: none")

// server gives a NATS server that syncs always, of as many as there are replicas.
func server(b *testing.B, replicas int) *natstest.Server {
	b.Helper()
	if replicas > 1 {
		return natstest.Cluster(b, replicas, natstest.SyncAlways()).Server(0)
	}
	return natstest.Start(b, natstest.SyncAlways())
}

// newBed starts everything but the consumers, for names n0, n1, ...
func newBed(b *testing.B, names, replicas int) *bed {
	b.Helper()
	t := &bed{b: b, nats: server(b, replicas)}
	t.api = api.NewClient(t.nats.Conn(b))
	vault, err := devvault.New(devvault.Config{Accounts: &devvault.Directory{}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(vault.Close)
	timed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		vault.ServeHTTP(w, r)
		t.inVault.Add(int64(time.Since(began)))
	}))
	b.Cleanup(timed.Close)
	for path, body := range map[string]any{
		"sys/mounts/database":       map[string]any{"type": "database"},
		"auth/token/roles/leasesvc": map[string]any{"orphan": true, "renewable": true},
	} {
		t.vault(vault, path, body)
	}
	t.vault(vault, "database/config/main", map[string]any{"plugin_name": "postgresql-database-plugin", "allowed_roles": "*", "connection_url": ""})
	t.vault(vault, "database/roles/app", map[string]any{"db_name": "main", "default_ttl": "10h", "max_ttl": "20h"})

	dir := b.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	seed, err := handover.NewSeed()
	if err != nil {
		b.Fatal(err)
	}
	write("seal.key", seed.Reveal())
	var leases strings.Builder
	for i := range names {
		fmt.Fprintf(&leases, "  n%d: {}\n", i)
	}
	write("definitions.yaml", `revision: 1
defaults: {kind: postgresql, consumers: [{name: app}], good_for: 0s, prepare_timeout: 60s}
leases:
`+strings.ReplaceAll(leases.String(), "{}", "{path: database/creds/app}"))
	write("leasesvc.yaml", fmt.Sprintf(`
nats: {url: %q, replicas: %d}
state_dir: state
seal_key: {file: seal.key}
vaults:
  main: {address: %q, environment: false, token: %q}
scopes: {%s: {definitions: definitions.yaml}}
insecure_consumers: true
`, t.nats.URL(), replicas, timed.URL, vault.RootToken().Reveal(), scope))
	t.in = instance.Start(b, filepath.Join(dir, "leasesvc.yaml"))
	return t
}

func (t *bed) vault(v *devvault.Server, path string, body any) {
	t.b.Helper()
	if _, err := v.Do(context.Background(), "POST", path, body); err != nil {
		t.b.Fatal(err)
	}
}

// count gives how many events of a type there were.
func (t *bed) count(typ events.Type) int { return t.in.Figures().Events[typ] }

// await waits until there were so many events of a type.
func (t *bed) await(typ events.Type, count int) {
	t.b.Helper()
	if have := t.in.Await(typ, count, within); have < count {
		t.b.Fatalf("%d events %s in %v, not %d", have, typ, within, count)
	}
}

// prompt is a consumer that says yes at once.
type prompt struct{ told func() }

func (prompt) Prepare(context.Context, consumer.Credential) error { return nil }
func (p prompt) Commit(context.Context, consumer.Credential) error {
	p.told()
	return nil
}
func (prompt) Revert(context.Context, consumer.Credential) error { return nil }

// consumers has incarnations take part, each of a client of its own, over a few
// connections; name gives what the i-th serves.
func (t *bed) consumers(count int, name func(i int) string, told func()) {
	t.b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	t.b.Cleanup(func() { cancel(); serving.Wait() })
	conns := make([]*nats.Conn, min(count, 16))
	for i := range conns {
		conns[i] = t.nats.Conn(t.b)
	}
	for i := range count {
		c, err := consumer.Connect(ctx, consumer.Options{Conn: conns[i%len(conns)], Scope: scope, Consumer: "app",
			Instance: fmt.Sprintf("app-%d", i), Insecure: true, LeaveTimeout: time.Second})
		if err != nil {
			t.b.Fatal(err)
		}
		serving.Go(func() { _ = c.Serve(ctx, name(i), prompt{told}); c.Close() })
	}
	t.await(events.TypeRegistered, count)
}

func (t *bed) rotate(name string) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if _, err := t.api.Rotate(ctx, scope, name); err != nil {
		t.b.Errorf("rotating %s: %v", name, err)
	}
}

// BenchmarkOverhead measures a hand-over from the wish for it until the consumer is
// told that it is committed, less the time that Vault worked.
func BenchmarkOverhead(b *testing.B) {
	for _, replicas := range []int{1, 3} {
		b.Run(fmt.Sprintf("R%d", replicas), func(b *testing.B) { overhead(b, replicas) })
	}
}

func overhead(b *testing.B, replicas int) {
	t := newBed(b, 1, replicas)
	told := make(chan time.Time, 16)
	t.consumers(1, func(int) string { return "n0" }, func() { told <- time.Now() })
	t.await(events.TypeInstalled, 1)
	<-told
	hand := newByHand(t, replicas)
	var took, raw []time.Duration
	for b.Loop() {
		revoked := t.count(events.TypeRevoked)
		vault, began := t.inVault.Load(), time.Now()
		t.rotate("n0")
		at := <-told
		took = append(took, at.Sub(began)-time.Duration(t.inVault.Load()-vault))
		t.await(events.TypeRevoked, revoked+1) // of the lease before it, which is Vault's time too
		raw = append(raw, hand.once())
	}
	b.ReportMetric(table.MS(table.Percentile(took, 50)), "p50-ms")
	b.ReportMetric(table.MS(table.Percentile(took, 99)), "p99-ms")
	var tb table.Table
	target := map[int]time.Duration{1: 10 * time.Millisecond}[replicas] // of three replicas it is reported
	tb.Spread(b, fmt.Sprintf("hand-over overhead, R%d, sync always", replicas), took, target,
		"from asking for a rotation until the consumer is told of the commit, less what Vault worked; one consumer, which answers at once, and no verifier")
	tb.Spread(b, fmt.Sprintf("hand-over, its messages by hand, R%d, sync always", replicas), raw, 0,
		"the same appends, values, requests to a Vault that does nothing and messages to a consumer, one after the other, in turns with hand-overs: the engine's part")
	tb.Write(b, *out)
}

func BenchmarkThousandConsumers(b *testing.B) {
	const consumers = 1000
	b.Run("one name", func(b *testing.B) {
		t := newBed(b, 1, 1)
		t.consumers(consumers, func(int) string { return "n0" }, func() {})
		t.await(events.TypeInstalled, 1)
		n := t.count(events.TypeInstalled)
		for b.Loop() {
			t.rotate("n0")
			n++
			t.await(events.TypeInstalled, n)
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "hand-overs/s")
		b.ReportMetric(float64(b.N*consumers)/b.Elapsed().Seconds(), "answers/s")
		keep(b, "hand-overs of one name with 1,000 instances of its consumer", b.N)
	})
	b.Run("1000 names", func(b *testing.B) {
		t := newBed(b, consumers, 1)
		t.consumers(consumers, func(i int) string { return fmt.Sprintf("n%d", i) }, func() {})
		t.await(events.TypeInstalled, consumers)
		n := t.count(events.TypeInstalled)
		for b.Loop() {
			var asking sync.WaitGroup
			for w := range 16 {
				asking.Go(func() {
					for i := w; i < consumers; i += 16 {
						t.rotate(fmt.Sprintf("n%d", i))
					}
				})
			}
			asking.Wait()
			n += consumers
			t.await(events.TypeInstalled, n)
		}
		b.ReportMetric(float64(b.N*consumers)/b.Elapsed().Seconds(), "hand-overs/s")
		keep(b, "hand-overs of 1,000 names with a consumer each", b.N*consumers)
	})
}

func keep(b *testing.B, name string, handovers int) {
	var tb table.Table
	tb.Figure(b, name, "hand-overs/s", table.Rate(handovers, b.Elapsed()), fmt.Sprintf("acquired, prepared, committed and told; R1, sync always; Vault, NATS, service and consumers in one process; n=%d", handovers))
	tb.Write(b, *out)
}
