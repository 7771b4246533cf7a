package itest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/consumer/pgxlease"
	"github.com/leasesvc/leasesvc/events"
)

// TestC31_EditingTheRenewalFractionTakesNoLease: a definition whose renewal
// changes is applied to the lease there is.
func TestC31_EditingTheRenewalFractionTakesNoLease(t *testing.T) {
	t.Parallel()
	r := newRig(t, startDevvault, "1h", "2h")
	r.write("definitions.yaml", quietDefinitions)
	service := r.start("a")
	r.leads(0)
	installed := r.awaitEvent(events.TypeInstalled, 0, 60*time.Second)
	r.write("definitions.yaml", strings.Replace(quietDefinitions, "revision: 1", "revision: 2", 1)+"    renew_at: 0.75\n")
	if _, err := r.api.Apply(within(t, 60*time.Second), scope); err != nil {
		t.Fatal(err)
	}
	applied := r.awaitEvent(events.TypeApplied, installed.Seq, 60*time.Second)
	if d := applied.Data.(*events.Applied); d.Definition.RenewAt.String() != "0.75" {
		t.Errorf("applied: %+v", d.Definition)
	}
	if err := service.End(syscall.SIGTERM, 60*time.Second); err != nil {
		t.Error(err)
	}
	log, _ := r.read()
	if n := count(log, events.TypeRequested, 0); n != 1 || count(log, events.TypeRevoked, 0) != 0 {
		t.Errorf("%d leases were asked for, 1 was needed", n)
	}
}

// slow is a consumer whose old work ends when the test says so.
type slow struct {
	rig     *rig
	release chan struct{}
	asked   chan uint64
}

func (s *slow) Prepare(context.Context, consumer.Credential) error { return nil }
func (s *slow) Commit(ctx context.Context, c consumer.Credential) error {
	select {
	case s.asked <- c.Lease:
	default:
	}
	select {
	case <-s.release:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
func (s *slow) Revert(ctx context.Context, c consumer.Credential) error { return s.Commit(ctx, c) }

// TestC43_TheOldUserStaysWhileAnInstanceRolls: it goes after the last has
// confirmed, not before.
func TestC43_TheOldUserStaysWhileAnInstanceRolls(t *testing.T) {
	t.Parallel()
	r := newRig(t, startDevvault, "1h", "2h")
	app, door := r.identity("app"), r.identity("gate")
	r.write("definitions.yaml", fmt.Sprintf(`revision: 1
leases:
  orders:
    path: database/creds/orders
    kind: postgresql
    consumers: [{name: app, key: %s}, {name: gate, key: %s}]
    good_for: 0s
`, app.public, door.public))
	service := r.start("a")
	r.leads(0)
	s := &slow{rig: r, release: make(chan struct{}, 1), asked: make(chan uint64, 8)}
	r.gate(door, &gatekeeper{rig: r})
	client := r.connect(app)
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { _ = client.Serve(ctx, "orders", s) })
	t.Cleanup(func() { cancel(); serving.Wait(); client.Close() })
	first := r.awaitEvent(events.TypeInstalled, 0, 60*time.Second)
	<-s.asked
	s.release <- struct{}{}

	r.rotate()
	second := r.awaitEvent(events.TypeInstalled, first.Seq, 60*time.Second)
	for lease := uint64(0); lease != second.Lease; {
		select {
		case lease = <-s.asked:
		case <-time.After(60 * time.Second):
			t.Fatal("the slow instance is not told of the commit")
		}
	}
	// Asked, and at it: for as long as this takes the old user stays.
	for until := time.Now().Add(2 * time.Second); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		log, p := r.read()
		if count(log, events.TypeRevoking, 0) != 0 || len(liveUsers(p)) != 2 {
			t.Fatal("a lease was revoked while an instance still rolled")
		}
	}
	if roles, err := r.pg.Roles(context.Background()); err != nil || len(roles) != 2 {
		t.Errorf("roles: %v, %v", roles, err)
	}
	close(s.release)
	r.awaitLog(60*time.Second, "the old lease to be revoked", func(log []events.Event) bool {
		return slices.ContainsFunc(log, func(e events.Event) bool { return e.Type() == events.TypeRevoked && e.Lease == first.Lease })
	})
	r.noOrphans(60 * time.Second)
	if err := service.End(syscall.SIGTERM, 60*time.Second); err != nil {
		t.Error(err)
	}
}

// TestC58_AnAccountThatIsDroppedIsReplaced: the application's adapter reports it,
// the service has another one made, and the application goes on.
func TestC58_AnAccountThatIsDroppedIsReplaced(t *testing.T) {
	t.Parallel()
	r := newRig(t, startDevvault, "1h", "2h")
	app := r.identity("app")
	r.write("definitions.yaml", fmt.Sprintf(`revision: 1
leases:
  orders:
    path: database/creds/orders
    kind: postgresql
    verifier: {kind: postgresql, dsn: "postgres://{{username}}:{{password}}@%s/postgres?sslmode=disable"}
    consumers: [{name: app, key: %s}]
    good_for: 0s
`, r.pg.Addr(), app.public))
	service := r.start("a")
	r.leads(0)
	client := r.connect(app)
	pool, err := pgxlease.New(within(t, 60*time.Second), client, "orders", pgxlease.Config{
		DSN: "postgres://" + r.pg.Addr() + "/postgres?sslmode=disable", ProveTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	first := r.awaitEvent(events.TypeInstalled, 0, 60*time.Second)
	who := func() (user string, err error) {
		err = pool.QueryRow(within(t, 60*time.Second), "SELECT session_user::text").Scan(&user)
		return user, err
	}
	dropped, err := who()
	if err != nil {
		t.Fatal(err)
	}

	admin, err := pgx.Connect(within(t, 60*time.Second), r.pg.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.Background())
	// A session outlives its role, so it is ended before, and cannot come back.
	role := pgx.Identifier{dropped}.Sanitize()
	for _, sql := range []string{"ALTER ROLE " + role + " NOLOGIN",
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '" + dropped + "'", "DROP ROLE " + role} {
		if _, err := admin.Exec(within(t, 60*time.Second), sql); err != nil {
			t.Fatal(err)
		}
	}
	refused := 0
	await(t, 90*time.Second, "the application to go on with another account", func() bool {
		user, err := who()
		if err != nil {
			refused++
		}
		return err == nil && user != dropped
	})
	second := r.awaitEvent(events.TypeInstalled, first.Seq, 60*time.Second)
	log, _ := r.read()
	if !slices.ContainsFunc(log, func(e events.Event) bool {
		d, ok := e.Data.(*events.Requested)
		return ok && d.Reason == events.ReasonReported
	}) {
		t.Error("no lease was asked for on the report")
	}
	if refused == 0 || second.Lease == first.Lease {
		t.Errorf("%d logins were refused, and lease %d is in force after lease %d", refused, second.Lease, first.Lease)
	}
	pool.Close()
	client.Close()
	if err := service.End(syscall.SIGTERM, 60*time.Second); err != nil {
		t.Error(err)
	}
}
