package itest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/consumer/pgxlease"
	"github.com/leasesvc/leasesvc/events"
)

// query is one query of the application.
type query struct {
	began time.Time
	user  string
	err   error
}

// application queries through a rotating pool, at 100 queries a second, with
// connections that live at most 1 s.
type application struct {
	pool *pgxlease.Pool
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	queries []query
}

func startApplication(r *rig, client *consumer.Client) *application {
	r.t.Helper()
	cfg, err := pgxpool.ParseConfig("postgres://" + r.pg.Addr() + "/postgres?sslmode=disable&pool_max_conns=10")
	if err != nil {
		r.t.Fatal(err)
	}
	cfg.MaxConnLifetime = time.Second
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	pool, err := pgxlease.New(ctx, client, "orders", pgxlease.Config{Pool: cfg})
	if err != nil {
		r.t.Fatal(err)
	}
	running, stop := context.WithCancel(context.Background())
	app := &application{pool: pool, stop: stop}
	const workers, each = 10, 100 * time.Millisecond
	for range workers {
		app.wg.Go(func() {
			tick := time.NewTicker(each)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					app.query()
				case <-running.Done():
					return
				}
			}
		})
	}
	return app
}

func (a *application) query() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	q := query{began: time.Now()}
	q.err = a.pool.QueryRow(ctx, "SELECT current_user").Scan(&q.user)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queries = append(a.queries, q)
}

// made is how many queries were made.
func (a *application) made() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.queries)
}

// end stops querying and gives what was done.
func (a *application) end() []query {
	a.stop()
	a.wg.Wait()
	a.pool.Close()
	return a.queries
}

// gate is a second consumer of the name, which sees every credential, and says
// no when it is told to.
type gate struct {
	rig *rig
	mu  sync.Mutex
	no  error
}

func (g *gate) sees(c consumer.Credential) {
	if p, ok := c.Get("password"); ok && p.Reveal() != "" {
		g.rig.secret(fmt.Sprintf("the password of lease %d", c.Lease), p.Reveal())
	}
}

func (g *gate) Prepare(_ context.Context, c consumer.Credential) error {
	g.sees(c)
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.no
}

func (g *gate) Commit(_ context.Context, c consumer.Credential) error {
	g.sees(c)
	return nil
}

func (g *gate) Revert(_ context.Context, c consumer.Credential) error {
	g.sees(c)
	return nil
}

func (g *gate) say(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.no = err
}

const zeroDowntimeDefinitions = `revision: 1
leases:
  orders:
    path: database/creds/orders
    kind: postgresql
    verifier: {kind: postgresql, dsn: "postgres://{{username}}:{{password}}@%s/postgres?sslmode=disable", timeout: 1s}
    consumers:
      - {name: app, key: %s}
      - {name: gate, key: %s}
    prepare_timeout: 2s
    rollback_timeout: 1s
    good_for: 500ms
`

// TestZeroDowntime is the main job: an application that queries a real
// PostgreSQL through rotating credentials without one failed query, while
// accounts are broken, a consumer refuses, and the service is killed and
// restarted under it. Its leases live for seconds, so nothing else of this package
// runs beside it.
func TestZeroDowntime(t *testing.T) {
	for name, start := range vaultTargets(t) {
		t.Run(name, func(t *testing.T) { zeroDowntime(t, start) })
	}
}

const (
	zeroDowntimeRuns      = 60 * time.Second // and longer until there are as many as these
	zeroDowntimeQueries   = 5000
	zeroDowntimeRotations = 10
	leaseTTL              = "6s"
	leaseMaxTTL           = "9s"
)

func zeroDowntime(t *testing.T, start func(*testing.T) *vaultServer) {
	r := newRig(t, start, leaseTTL, leaseMaxTTL)
	app, door := r.identity("app"), r.identity("gate")
	r.write("definitions.yaml", fmt.Sprintf(zeroDowntimeDefinitions, r.pg.Addr(), app.public, door.public))
	service := r.start("a")
	firstEpoch := r.leads(0)

	// The gate, then the application.
	g := &gate{rig: r}
	gateClient := r.connect(door)
	gateEnded := make(chan error, 1)
	gateCtx, stopGate := context.WithCancel(context.Background())
	go func() { gateEnded <- gateClient.Serve(gateCtx, "orders", g) }()
	appClient := r.connect(app)
	application := startApplication(r, appClient)
	began := time.Now()

	// A credential that can't log in: nothing of it reaches anybody.
	installed := r.awaitEvent(events.TypeInstalled, 0, 60*time.Second)
	r.vault.role(t, nologinRole, leaseTTL, leaseMaxTTL)
	r.rotate()
	broken := r.awaitEvent(events.TypeVerifyFailed, installed.Seq, 60*time.Second)
	r.vault.role(t, loginRole, leaseTTL, leaseMaxTTL)

	// A consumer that says no: everybody ends on the old one.
	installed = r.awaitEvent(events.TypeInstalled, broken.Seq, 60*time.Second)
	g.say(errors.New("not in the middle of a job"))
	r.rotate()
	back := r.awaitEvent(events.TypeRolledBack, installed.Seq, 60*time.Second)
	g.say(nil)

	// The service is killed just after a commit, and restarted.
	installed = r.awaitEvent(events.TypeInstalled, back.Seq, 60*time.Second)
	service.Kill()
	service = r.start("a")
	epoch := r.leads(firstEpoch)
	enough := func() bool {
		log, _ := r.read()
		return application.made() >= zeroDowntimeQueries && count(log, events.TypeInstalled, 0) > zeroDowntimeRotations
	}
	for time.Since(began) < zeroDowntimeRuns || !enough() && time.Since(began) < 3*zeroDowntimeRuns {
		installed = r.awaitEvent(events.TypeInstalled, installed.Seq, 60*time.Second)
	}

	queries := application.end()
	appClient.Close()
	stopGate()
	if err := <-gateEnded; err != nil {
		t.Errorf("the gate ended with: %v", err)
	}
	gateClient.Close()
	r.noOrphans(60 * time.Second)
	if err := service.End(syscall.SIGTERM, 60*time.Second); err != nil {
		t.Errorf("SIGTERM: %v", err)
	}
	if code := service.State().ExitCode(); code != 0 {
		t.Errorf("the service ended with %d", code)
	}

	log, _ := r.read()
	if last := log[len(log)-1]; last.Type() != events.TypeReleased {
		t.Errorf("the log ends with %s, not with the release", last.Type())
	}
	checkFaults(t, log, broken.Lease, back.Lease)
	checkRestart(t, log, epoch)
	checkQueries(t, log, queries)
	r.noSecretAnywhere()
}

func (r *rig) rotate() {
	r.t.Helper()
	await(r.t, 60*time.Second, "a rotation to begin", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_, err := r.api.Rotate(ctx, scope, "orders")
		return err == nil
	})
}

// checkFaults makes sure that the faults happened, and that what failed was
// never installed.
func checkFaults(t *testing.T, log []events.Event, broken, refused uint64) {
	t.Helper()
	for _, e := range log {
		if e.Type() == events.TypeInstalled && (e.Lease == broken || e.Lease == refused) {
			t.Errorf("lease %d failed and was installed at %d", e.Lease, e.Seq)
		}
		if e.Type() == events.TypeHandoverStarted && e.Lease == broken {
			t.Errorf("lease %d can't log in and was handed over at %d", e.Lease, e.Seq)
		}
	}
	if !saidNo(log, refused) {
		t.Errorf("nobody said no to lease %d", refused)
	}
}

func saidNo(log []events.Event, lease uint64) bool {
	return slices.ContainsFunc(log, func(e events.Event) bool {
		p, ok := e.Data.(*events.Prepared)
		return ok && e.Lease == lease && !p.Yes
	})
}

// checkRestart makes sure that the restart acquired nothing: what was requested
// after it was requested for the usual reasons.
func checkRestart(t *testing.T, log []events.Event, epoch uint64) {
	t.Helper()
	caused, opened := 0, 0
	for _, e := range log {
		if e.Epoch < epoch {
			continue
		}
		switch d := e.Data.(type) {
		case *events.Opened:
			opened++
		case *events.Requested:
			if d.Reason != events.ReasonShortGrant && d.Reason != events.ReasonDue && d.Reason != events.ReasonRotate {
				caused++
				t.Errorf("lease %d was requested after the restart: %s", e.Lease, d.Reason)
			}
		case *events.Orphaned:
			t.Errorf("lease %d was orphaned by the restart", e.Lease)
		}
	}
	if opened == 0 {
		t.Error("the restarted service did not open an epoch")
	}
	t.Logf("acquisitions caused by the restart: %d", caused)
}

// checkQueries holds the application's queries to the log.
func checkQueries(t *testing.T, log []events.Event, queries []query) {
	t.Helper()
	user := map[uint64]string{}
	gone := map[string]time.Time{}
	rotations := 0
	for _, e := range log {
		switch d := e.Data.(type) {
		case *events.Acquired:
			user[e.Lease] = d.Public["username"]
		case *events.Installed:
			if d.Previous != 0 {
				rotations++
			}
		case *events.Revoking:
			gone[user[e.Lease]] = e.Time
		}
	}
	users := map[string]int{}
	failed, late := 0, 0
	for _, q := range queries {
		if q.err != nil {
			failed++
			if failed <= 5 {
				t.Errorf("a query at %s failed: %v", q.began.Format(time.StampMilli), q.err)
			}
			continue
		}
		users[q.user]++
		if at, ok := gone[q.user]; ok && q.began.After(at) {
			late++
			t.Errorf("a query began as %s at %s, revoked at %s", q.user, q.began.UTC().Format(time.StampMilli), at.Format(time.StampMilli))
		}
	}
	if rotations < zeroDowntimeRotations || len(users) < zeroDowntimeRotations {
		t.Errorf("%d rotations, %d users seen; at least %d of each were to be", rotations, len(users), zeroDowntimeRotations)
	}
	if len(queries) < zeroDowntimeQueries {
		t.Errorf("only %d queries were made", len(queries))
	}
	t.Logf("%d queries, %d failed, %d users, %d after their end; %d rotations, %d leases revoked", len(queries), failed, len(users), late, rotations, len(gone))
}
