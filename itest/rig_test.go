package itest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/internal/natstest"
	"github.com/leasesvc/leasesvc/itest/pgtest"
	"github.com/leasesvc/leasesvc/itest/proctest"
	"github.com/leasesvc/leasesvc/itest/secrettest"
	"github.com/leasesvc/leasesvc/projector"
	"github.com/leasesvc/leasesvc/secret"
	"github.com/leasesvc/leasesvc/service/api"
)

const scope = "prod"

// rig is one deployment: NATS, PostgreSQL, a Vault, and instances of the
// program as processes of their own.
type rig struct {
	t     *testing.T
	dir   string
	nats  *natstest.Server
	store string // where NATS keeps its files
	pg    *pgtest.Server
	vault *vaultServer
	keys  *handover.Keys
	token string
	guard string // more settings of the Vault connection
	extra string // more of the service file
	prog  string
	api   *api.Client
	log   *journal.Log
	ear   *nats.Conn // of awaitLog
	// accounts lists a Vault's accounts on the server they are for; nil:
	// PostgreSQL's.
	accounts func(context.Context) ([]string, error)

	mu      sync.Mutex
	secrets map[string]string // what must never be seen, and what it is
	traffic *carried
}

// newRig starts all but the instances.
func newRig(t *testing.T, start func(*testing.T) *vaultServer, ttl, maxTTL string) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), secrets: map[string]string{}, pg: pgtest.Start(t), vault: start(t)}
	r.nats = natstest.Start(t, natstest.SyncAlways(), func(o *server.Options) { r.store = o.StoreDir })
	r.watch()
	r.token = r.vault.setUp(t, r.pg.DSN(), ttl, maxTTL)
	seed, err := handover.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	if r.keys, err = handover.NewKeys(seed); err != nil {
		t.Fatal(err)
	}
	r.secret("the seal key", seed.Reveal())
	r.secret("the service's token", r.token)
	r.secret("the root token", r.vault.root)
	r.secret("PostgreSQL's password", r.pg.Password())
	r.write("seal.key", seed.Reveal())
	r.write("token", r.token)
	r.prog = program(t)
	r.api = api.NewClient(r.nats.Conn(t))
	return r
}

// program builds leasesvc once for all tests of this binary.
func program(t *testing.T) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if built.path == "" {
		path := proctest.Build(t, "./cmd/leasesvc", append(raceFlags, "-tags", "failpoints")...)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.CreateTemp("", "leasesvc-itest-")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(b); err != nil {
			t.Fatal(err)
		}
		if err := f.Chmod(0o755); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		built.path = f.Name()
	}
	return built.path
}

var built struct {
	sync.Mutex
	path string
}

func (r *rig) secret(what, value string) {
	secrettest.Secret(what, value)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secrets[value] = what
}

func (r *rig) write(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// identity is a consumer's nkey.
type identity struct{ name, public, seed string }

func (r *rig) identity(name string) identity {
	r.t.Helper()
	key, err := nkeys.CreateUser()
	if err != nil {
		r.t.Fatal(err)
	}
	seed, err := key.Seed()
	if err != nil {
		r.t.Fatal(err)
	}
	public, err := key.PublicKey()
	if err != nil {
		r.t.Fatal(err)
	}
	r.secret("the nkey of "+name, string(seed))
	return identity{name, public, string(seed)}
}

// connect connects a consumer that pins the service's key.
func (r *rig) connect(who identity) *consumer.Client {
	r.t.Helper()
	c, err := consumer.Connect(context.Background(), consumer.Options{
		URL: r.nats.URL(), Scope: scope, Consumer: who.name, Instance: who.name + "-0",
		Seed: secret.New(who.seed), ServiceKey: r.keys.Public(),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// instance is one run of the program.
type instance struct {
	*proctest.Process
	rig *rig
}

// start starts an instance with a state directory of its own and an output file
// that goes on over restarts.
func (r *rig) start(name string, env ...string) *instance {
	r.t.Helper()
	in := r.launch(name, env...)
	r.t.Cleanup(func() {
		select {
		case <-in.Exited():
		default:
			in.Kill()
		}
		if r.t.Failed() {
			r.t.Logf("%s said:\n%s", name, in.LogTail())
		}
	})
	return in
}

// launch is start for an instance that the caller ends.
func (r *rig) launch(name string, env ...string) *instance {
	r.t.Helper()
	file := filepath.Join(r.dir, name+".yaml")
	r.write(name+".yaml", fmt.Sprintf(`
nats: {url: %q}
state_dir: state-%s
seal_key: {file: seal.key}
vaults:
  main: {address: %q, environment: false, token_file: token, guard_role: leasesvc%s}
scopes:
  %s: {definitions: definitions.yaml}
%s`, r.nats.URL(), name, r.vault.address, r.guard, scope, r.extra))
	cmd := exec.Command(r.prog, "serve", "--config", file)
	cmd.Env = append(os.Environ(), env...)
	p, err := proctest.Start(cmd, filepath.Join(r.dir, name+".log"), syscall.SIGKILL)
	if err != nil {
		r.t.Fatal(err)
	}
	return &instance{Process: p, rig: r}
}

// leads waits until the scope is led in an epoch above one.
func (r *rig) leads(above uint64) (epoch uint64) {
	r.t.Helper()
	await(r.t, 60*time.Second, "the scope to be led", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		st, err := r.api.Status(ctx, scope)
		epoch = st.Epoch
		return err == nil && st.Epoch > above
	})
	return epoch
}

// read gives the scope's log as it is now, every event judged.
func (r *rig) read() ([]events.Event, *projector.Projection) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	if r.log == nil {
		log, err := journal.Open(ctx, r.nats.JS(r.t), journal.Config{})
		if err != nil {
			r.t.Fatal(err)
		}
		r.t.Cleanup(log.Close)
		r.log = log
	}
	st, err := r.log.Info(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	p := projector.New(scope, r.keys.MACKey())
	var out []events.Event
	err = r.log.Replay(ctx, scope, 1, st.LastSeq, func(m journal.Message) error {
		seq, payload := m.Seq, m.Payload
		e, err := p.Apply(seq, payload)
		if e != nil {
			out = append(out, *e)
		}
		return err
	})
	if err != nil {
		r.t.Fatalf("reading the log: %v", err)
	}
	if n, recent := p.Skipped(); n > 0 {
		r.t.Fatalf("%d events do not count: %v", n, recent)
	}
	return out, p
}

// count counts the events of a type from a sequence on.
func count(log []events.Event, t events.Type, from uint64) (n int) {
	for i := range log {
		if log[i].Type() == t && log[i].Seq >= from {
			n++
		}
	}
	return n
}

// awaitLog waits until ok holds of the log. Reading it is work for a server that
// writes everything to disk, so it is read when something was published to it, and
// now and then.
func (r *rig) awaitLog(within time.Duration, what string, ok func(log []events.Event) bool) {
	r.t.Helper()
	published := make(chan *nats.Msg, 1024)
	if r.ear == nil {
		r.ear = r.nats.Conn(r.t)
	}
	sub, err := r.ear.ChanSubscribe("lease."+scope+".>", published)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	limit := time.After(within)
	for {
		if log, _ := r.read(); ok(log) {
			return
		}
		select {
		case <-published: // before it is stored, or just after
		case <-time.After(250 * time.Millisecond):
		case <-limit:
			r.t.Fatalf("waited %s for %s", within, what)
		}
		for len(published) > 0 {
			<-published
		}
		<-time.After(10 * time.Millisecond)
	}
}

// awaitEvent waits for an event of a type above a sequence and gives it.
func (r *rig) awaitEvent(t events.Type, above uint64, within time.Duration) (found events.Event) {
	r.t.Helper()
	r.awaitLog(within, "an event "+string(t), func(log []events.Event) bool {
		for _, e := range log {
			if e.Type() == t && e.Seq > above {
				found = e
				return true
			}
		}
		return false
	})
	return found
}

// liveUsers gives the accounts of the leases that the log says are not closed.
func liveUsers(p *projector.Projection) map[string]bool {
	out := map[string]bool{}
	for n := range p.State().Names() {
		for _, l := range n.Leases {
			if u := l.Public.Get("username"); u != "" {
				out[u] = true
			}
		}
	}
	return out
}

// noOrphans waits until the accounts on the server are those of the leases that
// the log says are live.
func (r *rig) noOrphans(within time.Duration) {
	r.t.Helper()
	accounts := r.accounts
	if accounts == nil {
		accounts = r.pg.Roles
	}
	var roles []string
	var live map[string]bool
	deadline := time.Now().Add(within)
	for {
		_, p := r.read()
		live = liveUsers(p)
		var err error
		if roles, err = accounts(context.Background()); err != nil {
			r.t.Fatal(err)
		}
		roles, lost := r.vault.withoutTheServersOwn(r.t, roles)
		same := len(roles) == len(live)
		for _, role := range roles {
			same = same && live[role]
		}
		if same {
			if len(lost) > 0 {
				r.t.Logf("%d accounts that the server made and never granted to anybody: it was broken off in the middle: %v", len(lost), lost)
			}
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("accounts on the server: %v\nleases that the log says are live: %v\n%s", roles, live, p.State().Print())
		}
		<-time.After(50 * time.Millisecond)
	}
}

// withoutTheServersOwn takes out what a real server left behind by itself: when the
// connection is lost (the process was killed) while the database makes the account
// it breaks off, and may do so after the database has and before there is a lease.
// Its audit log tells: it never granted that account. A client can't help that.
func (v *vaultServer) withoutTheServersOwn(t *testing.T, roles []string) (ours, lost []string) {
	t.Helper()
	if v.dev != nil {
		return roles, nil
	}
	granted := v.granted(t)
	for _, role := range roles {
		if _, ok := granted[role]; ok {
			ours = append(ours, role)
		} else {
			lost = append(lost, role)
		}
	}
	return ours, lost
}

// stream gives how many messages the log has, whoever wrote them.
func (r *rig) messages() uint64 {
	r.t.Helper()
	js, err := jetstream.New(r.nats.Conn(r.t))
	if err != nil {
		r.t.Fatal(err)
	}
	st, err := js.Stream(context.Background(), journal.DefaultStream)
	if err != nil {
		r.t.Fatal(err)
	}
	return st.CachedInfo().State.Msgs
}
