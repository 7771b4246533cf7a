package itest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/itest/secrettest"
	"github.com/leasesvc/leasesvc/secret"
)

// engine is a kind of server that credentials are for, an application that works
// on it through its adapter, and how one of its accounts is broken.
type engine struct {
	kind     string
	path     string
	verifier string // the definition's
	// setUp configures the Vault for it.
	setUp func(v *vaultServer)
	// users gives the accounts of the Vault that are on the server.
	users func(ctx context.Context) ([]string, error)
	// breakNext has the next accounts made so that they cannot log in, or ends
	// that.
	breakNext func(v *vaultServer, broken bool)
	// start starts the application; its work goes on until the load ends.
	start func(r *rig, client *consumer.Client, l *load) (stop func())
}

// load is what an application has done.
type load struct {
	done, failed atomic.Int64
	mu           sync.Mutex
	errs         []string
	users        map[string]bool // whom the server saw
	ctx          context.Context
	stop         context.CancelFunc
	workers      sync.WaitGroup
}

func newLoad() *load {
	l := &load{users: map[string]bool{}}
	l.ctx, l.stop = context.WithCancel(context.Background())
	return l
}

// work repeats an operation from several goroutines, a few ms apart.
func (l *load) work(workers int, operation func(ctx context.Context, i int) (user string, err error)) {
	for w := range workers {
		l.workers.Go(func() {
			for i := w; l.ctx.Err() == nil; i++ {
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
				user, err := operation(ctx, i)
				cancel()
				l.done.Add(1)
				l.saw(user, err)
				select {
				case <-time.After(5 * time.Millisecond): // a machine with two cores has other things to do
				case <-l.ctx.Done():
				}
			}
		})
	}
}

func (l *load) saw(user string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		if l.failed.Add(1); len(l.errs) < 5 {
			l.errs = append(l.errs, err.Error())
		}
	case user != "":
		l.users[user] = true
	}
}

// gatekeeper is the second consumer of the name: it does in Prepare what it is
// told to.
type gatekeeper struct {
	rig *rig
	mu  sync.Mutex
	act func(ctx context.Context) error
}

func (g *gatekeeper) will(act func(ctx context.Context) error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.act = act
}

func (g *gatekeeper) sees(c consumer.Credential) error {
	if p, ok := c.Get("password"); ok && p.Reveal() != "" {
		g.rig.secret(fmt.Sprintf("the password of lease %d", c.Lease), p.Reveal())
	}
	return nil
}

func (g *gatekeeper) Prepare(ctx context.Context, c consumer.Credential) error {
	_ = g.sees(c)
	g.mu.Lock()
	act := g.act
	g.mu.Unlock()
	if act == nil {
		return nil
	}
	return act(ctx)
}

func (g *gatekeeper) Commit(_ context.Context, c consumer.Credential) error { return g.sees(c) }
func (g *gatekeeper) Revert(_ context.Context, c consumer.Credential) error { return g.sees(c) }

const rotationDefinitions = `revision: 1
leases:
  orders:
    path: %s
    kind: %s
    verifier: %s
    consumers:
      - {name: app, key: %s}
      - {name: gate, key: %s}
    prepare_timeout: 4s
    rollback_timeout: 5s
    good_for: 100ms
    leave_after: 1s
`

// rotations is the main job on one kind of server: an application under load
// through its adapter, at least ten rotations, an account that cannot log in, a
// consumer that says no, one that hangs and one that dies. Nothing the
// application does fails, and in the end there is nobody on the server but the
// account in force.
func rotations(t *testing.T, e engine) {
	r := newRig(t, func(t *testing.T) *vaultServer { return startVaultFor(t) }, "1h", "2h")
	e.setUp(r.vault)
	r.accounts = e.users
	app, door := r.identity("app"), r.identity("gate")
	r.write("definitions.yaml", fmt.Sprintf(rotationDefinitions, e.path, e.kind, e.verifier, app.public, door.public))
	service := r.start("a")
	r.leads(0)

	g := &gatekeeper{rig: r}
	die := r.gate(door, g)
	appClient := r.connect(app)
	l := newLoad()
	stop := e.start(r, appClient, l)
	installed := r.awaitEvent(events.TypeInstalled, 0, 60*time.Second)

	for range 5 {
		installed = r.rotated(installed, l)
	}
	// A credential that can't log in: nothing of it reaches anybody.
	e.breakNext(r.vault, true)
	r.rotate()
	broken := r.awaitEvent(events.TypeVerifyFailed, installed.Seq, 60*time.Second)
	e.breakNext(r.vault, false)
	installed = r.rotated(broken, l)

	// A consumer that says no, and one that hangs: everybody ends on the old one. (A
	// hand-over that began in an epoch that ended is rolled back before anybody is
	// asked; on a busy machine there is such a one.)
	g.will(func(context.Context) error { return errors.New("not in the middle of a job") })
	refused := r.rolledBack(installed, func(back events.Event) bool {
		log, _ := r.read()
		return saidNo(log, back.Lease)
	})
	g.will(nil)
	installed = r.rotated(refused, l)

	var hung atomic.Bool
	g.will(func(ctx context.Context) error { hung.Store(true); <-ctx.Done(); return ctx.Err() })
	late := r.rolledBack(installed, func(events.Event) bool { return hung.Load() })
	g.will(nil)
	installed = r.rotated(late, l)

	// One that dies: it is taken for gone, and the others go on.
	die()
	r.rotate()
	left := r.awaitEvent(events.TypeLeft, installed.Seq, 60*time.Second)
	r.rotated(r.rotated(left, l), l)

	l.stop()
	l.workers.Wait()
	stop()
	appClient.Close()
	await(t, 60*time.Second, "nothing but the account in force", func() bool {
		_, p := r.read()
		return len(liveUsers(p)) == 1
	})
	r.noOrphans(60 * time.Second)
	log, _ := r.read()
	if err := service.End(syscall.SIGTERM, 60*time.Second); err != nil {
		t.Errorf("SIGTERM: %v", err)
	}
	checkFaults(t, log, broken.Lease, refused.Lease)
	if !hung.Load() || left.Data.(*events.Left).Reason != events.LeftSilent {
		t.Errorf("the gate hung: %v; it left: %+v", hung.Load(), left.Data)
	}
	n, revoked := count(log, events.TypeInstalled, 0)-1, count(log, events.TypeRevoked, 0)
	if n < 10 || len(l.users) > 0 && len(l.users) < 10 {
		t.Errorf("%d rotations, %d users seen; at least 10 of each were to be", n, len(l.users))
	}
	if l.failed.Load() != 0 || l.done.Load() < 100 {
		t.Errorf("%d of %d operations failed: %v", l.failed.Load(), l.done.Load(), l.errs)
	}
	t.Logf("%s: %d operations, %d failed, %d rotations, %d leases revoked, %d users seen", e.kind, l.done.Load(), l.failed.Load(), n, revoked, len(l.users))
	r.noSecretAnywhere()
}

// rolledBack rotates until a hand-over above an event is rolled back that was in
// vain for the reason that ok looks for, at most five times.
func (r *rig) rolledBack(after events.Event, ok func(back events.Event) bool) (back events.Event) {
	r.t.Helper()
	back = after
	for range 5 {
		r.rotate()
		if back = r.awaitEvent(events.TypeRolledBack, back.Seq, 60*time.Second); ok(back) {
			return back
		}
	}
	return back
}

// rotated rotates until a lease is installed above an event, and the one before
// it revoked, with the load going on.
func (r *rig) rotated(after events.Event, l *load) events.Event {
	r.t.Helper()
	before := l.done.Load()
	r.rotate()
	installed := r.awaitEvent(events.TypeInstalled, after.Seq, 60*time.Second)
	previous := installed.Data.(*events.Installed).Previous
	r.awaitLog(60*time.Second, "the lease before it to be revoked", func(log []events.Event) bool {
		return slices.ContainsFunc(log, func(e events.Event) bool { return e.Type() == events.TypeRevoked && e.Lease == previous })
	})
	await(r.t, 60*time.Second, "the application to go on", func() bool { return l.done.Load() > before })
	return installed
}

// gate has a second consumer take part, on a connection of its own, and gives
// what makes it die without a word.
func (r *rig) gate(who identity, h consumer.Handler) (die func()) {
	r.t.Helper()
	nc, err := nats.Connect(r.nats.URL())
	if err != nil {
		r.t.Fatal(err)
	}
	c, err := consumer.Connect(context.Background(), consumer.Options{
		Conn: nc, Scope: scope, Consumer: who.name, Instance: who.name + "-0",
		Seed: secret.New(who.seed), ServiceKey: r.keys.Public(), LeaveTimeout: time.Second,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	var ended sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	ended.Go(func() { _ = c.Serve(ctx, "orders", h) })
	r.t.Cleanup(func() { nc.Close(); cancel(); ended.Wait(); c.Close() })
	await(r.t, 60*time.Second, who.name+" to be registered", func() bool {
		log, _ := r.read()
		return slices.ContainsFunc(log, func(e events.Event) bool {
			d, ok := e.Data.(*events.Registered)
			return ok && d.Consumer == who.name
		})
	})
	return nc.Close
}

// startVaultFor starts a devvault that makes accounts on every kind of server.
func startVaultFor(t *testing.T) *vaultServer { return startVaultTelling(t, secrettest.Answered) }

// startVaultTelling is startVaultFor, which tells what it answers.
func startVaultTelling(t *testing.T, answered func(path string, body []byte)) *vaultServer {
	t.Helper()
	srv, err := devvault.New(devvault.Config{
		Accounts: devvault.NewPostgres(secret.String{}), Broker: &devvault.RabbitMQ{}, Answered: answered,
		Plugins: map[string]devvault.Accounts{"mysql-database-plugin": &devvault.MySQL{}, "redis-database-plugin": &devvault.Redis{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	return &vaultServer{name: "devvault", address: srv.URL(), root: srv.RootToken().Reveal(), dev: srv}
}

// database configures the database "db" and the role "app" on it.
func (v *vaultServer) database(t *testing.T, config map[string]any, statements ...string) {
	t.Helper()
	config["allowed_roles"] = "*"
	v.must(t, "POST", "database/config/db", config)
	v.must(t, "POST", "database/roles/app", map[string]any{"db_name": "db", "default_ttl": "1h", "max_ttl": "2h", "creation_statements": statements})
}
