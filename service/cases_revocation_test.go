package service_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/events"
)

// TestC32_StoppedWhileAcquiring, at each step: what is left in Vault is what the
// log says lives, at the latest when the guard ends.
func TestC32_StoppedWhileAcquiring(t *testing.T) {
	for name, at := range map[string]struct{ method, path string }{
		"making the guard":       {"POST", "auth/token/create/leasesvc"},
		"reading the credential": {"GET", "database/creds/app"},
		"extending the guard":    {"POST", "auth/token/renew-accessor"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newCaseRig(t, "1h", "2h")
			r.more = "shutdown_timeout: 300ms\n"
			r.moreVault = "guard_role: leasesvc, guard_ttl: 3s, timeout: 2s"
			r.definitions(1, definition("app", ""))
			// The first guard is the check at start; it is not held.
			r.vault.Inject(devvault.Fault{Path: at.path, Times: 0, Delay: time.Hour})
			seen := func() int { return r.vault.Count(at.method, at.path) }
			stop := r.run("state-a")
			r.await("the acquisition", func() bool { return r.count(events.TypeRequested) == 1 })
			r.passes(500*time.Millisecond, "in flight", func() bool { return r.active("app") == 0 })
			_ = stop() // an error tells what was in flight
			if n := r.count(events.TypeInstalled); n != 0 {
				t.Fatalf("%d installed: nothing was held at %s (%d)", n, at.path, seen())
			}
			r.await("nothing to be left", func() bool { return len(r.vault.Leases()) == 0 })
		})
	}
}

// TestC32_ALoopOfStarts: an instance that starts and is told to stop at any
// moment, again and again, leaves nothing behind that the log does not know.
func TestC32_ALoopOfStarts(t *testing.T) {
	t.Parallel()
	const starts = 100
	r := newCaseRig(t, "1h", "2h")
	r.more = "shutdown_timeout: 5s\n"
	r.moreVault = "guard_role: leasesvc, guard_ttl: 3s, timeout: 2s"
	r.definitions(1, definition("app", "")+definition("other", "")+definition("third", ""))
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	acquired := 0
	for i := range starts {
		stop := r.run("state-a")
		lives := 150 * time.Millisecond
		if i%10 == 9 {
			// Who was stopped between its claim and its opening is waited for through a
			// quiet window by those after it: some live for longer than that.
			lives = 2 * time.Second
		}
		after := time.After(time.Duration(random.Int64N(int64(lives))))
		if random.IntN(3) == 0 {
			_, _ = r.api().Rotate(aBit(t), "prod", "app")
		}
		<-after
		if err := stop(); err != nil && !errors.Is(err, context.Canceled) && !strings.Contains(err.Error(), "in flight") {
			t.Logf("ended with: %v", err)
		}
		acquired = r.count(events.TypeAcquired)
	}
	if acquired < 3 {
		t.Fatalf("%d acquisitions in %d starts: the story shows nothing", acquired, starts)
	}
	r.run("state-a")
	r.await("all leases", func() bool { return r.active("app") != 0 && r.active("other") != 0 && r.active("third") != 0 })
	r.await("what the log says lives", func() bool {
		table, err := r.api().Leases(aBit(t), "prod")
		if err != nil {
			return false
		}
		live := map[string]bool{}
		for _, l := range table.Names {
			live[l.LeaseID] = true
			if len(l.Others) > 0 {
				return false
			}
		}
		has := r.vault.Leases()
		for _, l := range has {
			if !live[l.ID] {
				return false
			}
		}
		return len(has) == len(live)
	})
	t.Logf("%d starts, %d acquisitions, %d leases in Vault", starts, acquired, len(r.vault.Leases()))
}

// TestC33_ACleanExit keeps the leases, or gives them back when that is asked for;
// an abrupt one is in package itest.
func TestC33_ACleanExit(t *testing.T) {
	for name, giveBack := range map[string]bool{"keeps": false, "gives back": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newCaseRig(t, "1h", "2h")
			r.definitions(1, definition("app", "")+definition("other", ""))
			stop := r.run("state-a")
			r.await("both", func() bool { return r.active("app") != 0 && r.active("other") != 0 })
			want := 2
			if giveBack {
				r.done(r.api().Shutdown(aBit(t), "prod"))
				r.await("the release", func() bool { return r.count(events.TypeReleased) == 1 })
				want = 0
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if n := len(r.vault.Leases()); n != want {
				t.Errorf("%d leases in Vault, %d were to be", n, want)
			}
			guards := 0
			for _, token := range r.vault.Tokens() {
				if strings.Contains(token.Path, "create/leasesvc") {
					guards++
				}
			}
			if guards != want {
				t.Errorf("%d guards, %d were to be", guards, want)
			}
		})
	}
}

// TestC34_AConsumerThatSaysNoForEver costs the budget of acquisitions and no more.
func TestC34_AConsumerThatSaysNoForEver(t *testing.T) {
	t.Parallel()
	const budget = 3
	r := newCaseRig(t, "1h", "2h")
	r.definitions(1, appDefinition+fmt.Sprintf("    acquisitions_per_hour: %d\n", budget))
	s := &shop{rig: r}
	s.answer(errors.New("I can't"))
	r.run("state-a")
	r.serve(s)
	r.within(60*time.Second, "the budget to be spent", func() bool { return r.count(events.TypeRolledBack) == budget })
	r.passes(6*time.Second, "nothing more is acquired", func() bool { return r.count(events.TypeRequested) == budget })
	if n := r.vault.Count("GET", "database/creds/app"); n != budget {
		t.Errorf("%d credentials were made for a budget of %d", n, budget)
	}
	r.await("all to be revoked", func() bool { return len(r.vault.Leases()) == 0 })
	table, err := r.api().Leases(aBit(t), "prod")
	if err != nil || len(table.Names) != 1 || !strings.Contains(table.Names[0].State, "budget") {
		t.Errorf("nobody is told: %+v, %v", table.Names, err)
	}
}

// TestC37_TheTokenIsGoneWhenRevoking: paced attempts, each named in the log; what
// Vault ended meanwhile is found gone once there is a token again.
func TestC37_TheTokenIsGoneWhenRevoking(t *testing.T) {
	t.Parallel()
	r := newCaseRig(t, "6s", "1h")
	r.definitions(1, definition("app", ", renew_at: 0.9"))
	r.run("state-a")
	r.await("a lease", func() bool { return r.active("app") == 1 })
	fault := r.vault.Inject(devvault.Fault{Path: "sys/leases/revoke", Status: 403, Body: `{"errors":["permission denied"]}`})
	r.done(r.api().Rotate(aBit(t), "prod", "app"))
	r.await("Vault's own end of it", func() bool {
		for _, l := range r.vault.Leases() {
			if l.ID == data[*events.Acquired](t, r.of(events.TypeAcquired, "app", 1)[0]).LeaseID {
				return false
			}
		}
		return len(r.of(events.TypeRevokeFailed, "app", 1)) >= 3
	})
	failed := r.of(events.TypeRevokeFailed, "app", 1)
	if n := fault.Hits(); n > r.count(events.TypeRevokeFailed)+2 {
		t.Errorf("%d requests, %d failures in the log", n, len(failed))
	}
	for i := 1; i < len(failed); i++ {
		if gap := failed[i].Time.Sub(failed[i-1].Time); gap < time.Duration(1<<(i-1))*900*time.Millisecond {
			t.Errorf("attempt %d came after %s", i+1, gap)
		}
	}
	if f := data[*events.RevokeFailed](t, failed[0]); f.Kind != "permission" {
		t.Errorf("failed as %s", f.Kind)
	}
	fault.Remove()
	r.within(90*time.Second, "it is found gone", func() bool { return len(r.of(events.TypeRevoked, "app", 1)) == 1 })
}

// TestC38_TheDefinitionIsRemoved: no renewal any more, and what it had is revoked.
func TestC38_TheDefinitionIsRemoved(t *testing.T) {
	t.Parallel()
	r := newCaseRig(t, "1h", "2h")
	r.definitions(1, definition("app", ", renew_at: 0.0003")+definition("other", ""))
	r.run("state-a")
	r.await("a renewal", func() bool { return len(r.of(events.TypeRenewed, "app", 0)) >= 1 && r.active("other") != 0 })
	seen := r.watch("sys/leases/revoke", nil)
	id := data[*events.Acquired](t, r.of(events.TypeAcquired, "app", 1)[0]).LeaseID
	r.definitions(2, definition("other", ""))
	r.done(r.api().Apply(aBit(t), "prod"))
	r.await("the revocation", func() bool { return len(r.of(events.TypeRevoked, "app", 0)) == 1 })
	if got := seen.list(); len(got) != 1 || got[0].lease != id {
		t.Errorf("revoked were %v", got)
	}
	renewals := len(r.of(events.TypeRenewed, "app", 0))
	r.passes(2500*time.Millisecond, "no renewal", func() bool { return len(r.of(events.TypeRenewed, "app", 0)) == renewals })
	if n := len(r.vault.Leases()); n != 1 {
		t.Errorf("%d leases in Vault", n)
	}
}

// TestC39_TheDatabaseIsDownForLong: revocations fail at their own pace, all are
// done in the end, and other work goes on meanwhile.
func TestC39_TheDatabaseIsDownForLong(t *testing.T) {
	t.Parallel()
	const leases = 20
	r := newCaseRig(t, "1h", "2h")
	r.do("kv2/data/app", map[string]any{"data": map[string]any{"x": 1}})
	var defs strings.Builder
	for i := range leases {
		defs.WriteString(definition(fmt.Sprint("app-", i), ""))
	}
	defs.WriteString("  kv: {path: kv2/data/app, kind: kv, good_for: 0s, poll: 1s}\n")
	r.definitions(1, defs.String())
	r.run("state-a")
	r.await("all leases", func() bool { return r.count(events.TypeInstalled) == leases+1 })
	down := r.vault.Inject(devvault.Fault{Path: "sys/leases/revoke", Status: 500, Body: `{"errors":["failed to revoke entry: connection refused"]}`})
	before := time.Now()
	r.definitions(2, "  kv: {path: kv2/data/app, kind: kv, good_for: 0s, poll: 1s}\n")
	r.done(r.api().Apply(aBit(t), "prod"))
	r.await("three attempts each", func() bool { return r.count(events.TypeRevokeFailed) >= 3*leases })
	if most := leases * (2 + int(time.Since(before)/time.Second)); down.Hits() > most {
		t.Errorf("%d requests in %s", down.Hits(), time.Since(before))
	}
	r.do("kv2/data/app", map[string]any{"data": map[string]any{"x": 2}})
	r.await("the other engine's change", func() bool { return len(r.of(events.TypeInstalled, "kv", 0)) == 2 })
	down.Remove()
	r.within(120*time.Second, "all to be revoked", func() bool { return r.count(events.TypeRevoked) >= leases && len(r.vault.Leases()) == 0 })
	if n := r.count(events.TypeRevoking); n < leases {
		t.Errorf("%d revocations were intended", n)
	}
}

// TestC40_RevokedBehindOurBack: 400 on a revocation is its success.
func TestC40_RevokedBehindOurBack(t *testing.T) {
	for name, body := range map[string]string{"invalid lease": `{"errors":["invalid lease"]}`, "lease not found": `{"errors":["lease not found"]}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newCaseRig(t, "1h", "2h")
			r.moreVault = "guard_role: leasesvc, verify_revocations: true"
			r.definitions(1, definition("app", ""))
			r.run("state-a")
			r.await("a lease", func() bool { return r.active("app") == 1 })
			id := r.vault.Leases()[0].ID
			r.do("sys/leases/revoke", map[string]any{"lease_id": id, "sync": true})
			fault := r.vault.Inject(devvault.Fault{Path: "sys/leases/revoke", Status: 400, Body: body, Times: 1})
			r.done(r.api().Rotate(aBit(t), "prod", "app"))
			r.await("its end", func() bool { return len(r.of(events.TypeRevoked, "app", 1)) == 1 })
			if fault.Hits() != 1 || r.count(events.TypeRevokeFailed) != 0 {
				t.Errorf("%d hits, %d failures", fault.Hits(), r.count(events.TypeRevokeFailed))
			}
		})
	}
}

// TestRevocationsAreVerified where that is configured: a server that says "done"
// and does nothing is found out.
func TestRevocationsAreVerified(t *testing.T) {
	t.Parallel()
	r := newCaseRig(t, "1h", "2h")
	r.moreVault = "guard_role: leasesvc, verify_revocations: true"
	r.definitions(1, definition("app", ""))
	r.run("state-a")
	r.await("a lease", func() bool { return r.active("app") == 1 })
	lie := r.vault.Inject(devvault.Fault{Path: "sys/leases/revoke", Status: 204, Times: 1})
	r.done(r.api().Rotate(aBit(t), "prod", "app"))
	r.await("the revocation", func() bool { return len(r.of(events.TypeRevoked, "app", 1)) == 1 })
	failed := r.of(events.TypeRevokeFailed, "app", 1)
	if lie.Hits() != 1 || len(failed) != 1 || data[*events.RevokeFailed](t, failed[0]).Kind != "conflict" {
		t.Errorf("%d hits, %d failures", lie.Hits(), len(failed))
	}
	if n := len(r.vault.Leases()); n != 1 {
		t.Errorf("%d leases in Vault", n)
	}
}

// TestC41_NeverWithoutAnID: whatever comes to nothing, no request revokes or
// renews nothing in particular.
func TestC41_NeverWithoutAnID(t *testing.T) {
	t.Parallel()
	r := newCaseRig(t, "1h", "2h")
	revoked, renewed := r.watch("sys/leases/revoke*", nil), r.watch("sys/leases/renew*", nil)
	guards := r.watch("auth/token/revoke-accessor", nil)
	r.do("kv2/data/app", map[string]any{"data": map[string]any{"x": 1}})
	r.vault.Inject(devvault.Fault{Path: "database/creds/app", Set: map[string]any{"lease_id": ""}, Times: 2})
	r.vault.Inject(devvault.Fault{Path: "database/creds/app", DropAfter: true, Times: 1})
	r.definitions(1, definition("app", ", fallback_ttl: 1s, renew_at: 0.0003")+"  kv: {path: kv2/data/app, kind: kv, good_for: 0s, poll: 1s}\n")
	r.run("state-a")
	r.await("a lease", func() bool { return len(r.of(events.TypeRenewed, "app", 0)) > 0 && r.active("kv") != 0 })
	r.do("kv2/data/app", map[string]any{"data": map[string]any{"x": 2}})
	r.await("the change", func() bool { return len(r.of(events.TypeRevoked, "kv", 0)) > 0 })
	r.done(r.api().Rotate(aBit(t), "prod", "app"))
	r.await("a revocation", func() bool { return revoked.count() > 0 })
	for _, a := range append(revoked.list(), renewed.list()...) {
		if a.lease == "" || a.path != "sys/leases/revoke" && a.path != "sys/leases/renew" {
			t.Errorf("%s was asked for lease %q", a.path, a.lease)
		}
	}
	for _, a := range guards.list() {
		if a.accessor == "" {
			t.Errorf("%s was asked without an accessor", a.path)
		}
	}
	if guards.count() == 0 || renewed.count() == 0 {
		t.Error("the story shows nothing")
	}
}
