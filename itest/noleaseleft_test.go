package itest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/internal/failpoint"
)

// LEASESVC_TEST_SHORT, which make test sets, makes the run a quarter as long.
var killsAtEachPoint, killsAtAnyMoment = func() (int, int) {
	if os.Getenv("LEASESVC_TEST_SHORT") != "" {
		return 3, 14
	}
	return 10, 80
}()

const (
	namesUnderKill     = 8
	shortGuard         = 5 * time.Second
	reachPointWithin   = 60 * time.Second
	underKillSettings  = ", guard_ttl: 5s, timeout: 3s"
	underKillTTL       = "4s"
	underKillMaxTTL    = "8s"
	randomMomentWithin = 1500 * time.Millisecond
)

// TestNoLeaseLeftBehind kills the service at each named boundary and at random
// moments. After the guards' time, what PostgreSQL and Vault have is what the
// log says lives.
func TestNoLeaseLeftBehind(t *testing.T) {
	t.Parallel()
	for name, start := range vaultTargets(t) {
		t.Run(name, func(t *testing.T) { noLeaseLeftBehind(t, start) })
	}
}

func noLeaseLeftBehind(t *testing.T, start func(*testing.T) *vaultServer) {
	r := newRig(t, start, underKillTTL, underKillMaxTTL)
	r.guard = underKillSettings
	door := r.identity("gate")
	var defs strings.Builder
	fmt.Fprintf(&defs, "revision: 1\ndefaults: {kind: postgresql, prepare_timeout: 2s, rollback_timeout: 1s, good_for: 100ms, acquisitions_per_hour: 10000}\nleases:\n")
	for i := range namesUnderKill {
		fmt.Fprintf(&defs, "  orders-%d: {path: database/creds/orders, consumers: [{name: gate, key: %s}]}\n", i, door.public)
	}
	r.write("definitions.yaml", defs.String())
	stop := r.gates(door)
	first := r.launch("a")
	r.leads(0)
	await(t, 60*time.Second, "everybody to have registered", func() bool {
		log, _ := r.read()
		return count(log, events.TypeRegistered, 0) >= namesUnderKill && count(log, events.TypeInstalled, 0) >= namesUnderKill
	})
	first.Kill()

	kills := map[string]int{}
	var schedule []string
	for _, point := range failpoint.All() {
		for range killsAtEachPoint {
			schedule = append(schedule, point)
		}
	}
	for range killsAtAnyMoment {
		schedule = append(schedule, "")
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	random.Shuffle(len(schedule), func(i, j int) { schedule[i], schedule[j] = schedule[j], schedule[i] })
	for _, point := range schedule {
		kills[r.killAt(point, random)]++
	}
	total := 0
	for _, n := range kills {
		total += n
	}
	for _, point := range failpoint.All() {
		if kills[point] < killsAtEachPoint {
			t.Errorf("killed %d times at %s, %d were to be", kills[point], point, killsAtEachPoint)
		}
	}
	t.Logf("%d kills: %v", total, kills)
	if total < len(failpoint.All())*killsAtEachPoint+killsAtAnyMoment {
		t.Errorf("only %d kills", total)
	}

	last := r.start("a")
	r.leads(0)
	r.noOrphans(shortGuard + 60*time.Second)
	r.vaultHasWhatTheLogSays(shortGuard + 60*time.Second)
	stop()
	if err := last.End(syscall.SIGTERM, 60*time.Second); err != nil {
		t.Error(err)
	}
	r.noSecretAnywhere()
}

// gates serves every name with a consumer that says yes.
func (r *rig) gates(who identity) (stop func()) {
	r.t.Helper()
	client := r.connect(who)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range namesUnderKill {
		wg.Go(func() {
			if err := client.Serve(ctx, fmt.Sprint("orders-", i), &gate{rig: r}); err != nil {
				r.t.Errorf("serving orders-%d: %v", i, err)
			}
		})
	}
	return func() {
		cancel()
		wg.Wait()
		client.Close()
	}
}

// killAt runs an instance, keeps it busy, and has it killed at a point (or, "",
// at some moment); it gives the point at which it was.
func (r *rig) killAt(point string, random *rand.Rand) string {
	r.t.Helper()
	if point == "" {
		in := r.launch("a")
		moment := time.After(time.Duration(random.Int64N(int64(randomMomentWithin))))
		r.busyUntil(in, moment)
		in.Kill()
		return "any moment"
	}
	in := r.launch("a", "LEASESVC_FAILPOINT="+point+":1")
	deadline := time.After(reachPointWithin)
	if point == failpoint.Renewing { // a renewal comes to who is left in peace
		select {
		case <-in.Exited():
		case <-deadline:
		}
	} else {
		r.busyUntil(in, deadline)
	}
	select {
	case <-in.Exited():
	default:
		in.Kill()
		return "not reached: " + point
	}
	status, ok := in.State().Sys().(syscall.WaitStatus)
	if !ok || status.Signal() != syscall.SIGKILL || !strings.Contains(in.LogTail(), "failpoint "+point) {
		r.t.Errorf("%s: ended with %s", point, in.State())
	}
	return point
}

// busyUntil asks for rotations until the instance ends or the time is up.
func (r *rig) busyUntil(in *instance, up <-chan time.Time) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for next := 0; ; next++ {
		select {
		case <-in.Exited():
			return
		case <-up:
			return
		case <-tick.C:
			ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
			_, _ = r.api.Rotate(ctx, scope, fmt.Sprint("orders-", next%namesUnderKill)) // refused while one is on its way
			cancel()
		}
	}
}

// vaultHasWhatTheLogSays waits until no lease is in Vault alone or in the log
// alone. Leases come and go meanwhile, so what differs at one look differs for good
// only if it does at every look.
func (r *rig) vaultHasWhatTheLogSays(within time.Duration) {
	r.t.Helper()
	var inVault, inLog map[string]bool // what differed at every look so far
	deadline := time.Now().Add(within)
	for first := true; ; first = false {
		has := map[string]bool{}
		for _, id := range r.vault.leases(r.t) {
			has[id] = true
		}
		live := map[string]bool{}
		_, p := r.read()
		for n := range p.State().Names() {
			for _, l := range n.Leases {
				if l.LeaseID != "" {
					live[l.LeaseID] = true
				}
			}
		}
		inVault, inLog = still(inVault, has, live, first), still(inLog, live, has, first)
		if len(inVault)+len(inLog) == 0 {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("after %s in Vault alone: %v; in the log alone: %v", within, inVault, inLog)
		}
		<-time.After(100 * time.Millisecond)
	}
}

// still gives what is in one and not in the other, of what was so before.
func still(before, one, other map[string]bool, first bool) map[string]bool {
	out := map[string]bool{}
	for id := range one {
		if !other[id] && (first || before[id]) {
			out[id] = true
		}
	}
	return out
}

// TestC30_DroppedAfterTheEffectAndKilled: Vault creates the credential, the
// connection drops before the answer, and the process is killed before it can
// say so: the account is gone within the guard's time.
func TestC30_DroppedAfterTheEffectAndKilled(t *testing.T) {
	t.Parallel()
	r := newRig(t, startDevvault, underKillTTL, underKillMaxTTL)
	r.guard = underKillSettings
	r.write("definitions.yaml", quietDefinitions)
	for round := range 5 {
		fault := r.vault.dev.Inject(devvault.Fault{Method: "GET", Path: "database/creds/*", Times: 1, DropAfter: true})
		in := r.launch("a", "LEASESVC_FAILPOINT="+failpoint.CredentialRead+":1")
		select {
		case <-in.Exited():
		case <-time.After(reachPointWithin):
			in.Kill()
			t.Fatalf("round %d: the point was not reached", round)
		}
		if fault.Hits() != 1 {
			t.Fatalf("round %d: the connection was dropped %d times", round, fault.Hits())
		}
		log, _ := r.read()
		if n := count(log, events.TypeAcquired, 0); n != 0 {
			t.Fatalf("round %d: %d leases were acquired", round, n)
		}
	}
	if n := r.vault.dev.Count("GET", "database/creds/*"); n != 5 {
		t.Errorf("the credential was read %d times in 5 lives: a read is never repeated", n)
	}
	await(t, shortGuard+60*time.Second, "the accounts to be gone", func() bool {
		roles, err := r.pg.Roles(context.Background())
		return err == nil && len(roles) == 0
	})
}
