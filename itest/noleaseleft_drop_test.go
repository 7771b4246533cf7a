package itest

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/devvault"
)

const dropsOfEach = 4

// dropDefinitions renew and rotate without pause, so that every kind of request
// comes soon.
const dropDefinitions = `revision: 1
defaults: {kind: postgresql, good_for: 0s, acquisitions_per_hour: 10000}
leases:
  orders-0: {path: database/creds/orders}
  orders-1: {path: database/creds/orders}
`

// TestC30_DroppedAndKilledAtEachRequest: Vault does what it was asked for, the
// process is killed before the answer, and the connection drops. Each kind of
// request that has an effect, several times; orphans: 0.
func TestC30_DroppedAndKilledAtEachRequest(t *testing.T) {
	t.Parallel()
	r := newRig(t, startDevvault, underKillTTL, underKillMaxTTL)
	r.guard = underKillSettings
	r.write("definitions.yaml", dropDefinitions)
	requests := []struct{ method, path string }{
		{"POST", "auth/token/create/leasesvc"},
		{"GET", "database/creds/orders"},
		{"POST", "auth/token/renew-accessor"},
		{"POST", "sys/leases/renew"},
		{"POST", "sys/leases/revoke"},
		{"POST", "auth/token/revoke-accessor"},
	}
	kills := map[string]int{}
	epoch := uint64(0)
	for range dropsOfEach {
		for _, at := range requests {
			in := r.launch("a")
			epoch = r.leads(epoch)
			var once sync.Once
			var effects atomic.Int64
			fault := r.vault.dev.Inject(devvault.Fault{Method: at.method, Path: at.path, Do: func(w http.ResponseWriter, q *http.Request, next http.Handler) {
				first := false
				once.Do(func() { first = true })
				if !first { // of what came at the same time
					next.ServeHTTP(w, q)
					return
				}
				done := httptest.NewRecorder()
				next.ServeHTTP(done, q)
				if done.Code < 300 {
					effects.Add(1)
				}
				in.Kill()
				panic(http.ErrAbortHandler)
			}})
			if at.path == "sys/leases/renew" { // a renewal comes to who is left in peace
				select {
				case <-in.Exited():
				case <-time.After(reachPointWithin):
				}
			} else {
				r.busyUntil(in, time.After(reachPointWithin))
			}
			select {
			case <-in.Exited():
				kills[at.path] += int(effects.Load())
			default:
				in.Kill()
			}
			fault.Remove()
		}
	}
	total := 0
	for _, at := range requests {
		total += kills[at.path]
		// One of them may have found nothing to do: a lease that had ended.
		if kills[at.path] < dropsOfEach-1 {
			t.Errorf("%s had its effect, was dropped and the process killed %d times, %d were to be", at.path, kills[at.path], dropsOfEach)
		}
	}
	t.Logf("%d drops after the effect with a kill: %v", total, kills)
	last := r.start("a")
	r.leads(epoch)
	r.noOrphans(shortGuard + 60*time.Second)
	r.vaultHasWhatTheLogSays(shortGuard + 60*time.Second)
	last.Kill()
}
