package devvault_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestRenewalIsCappedByTheMaximumWithAWarning(t *testing.T) {
	v := newVault(t)
	c := v.creds(v.RootToken())
	renew := func(increment any) (string, string) {
		out := v.ok("PUT", "sys/leases/renew", map[string]any{"lease_id": c.lease, "increment": increment})
		if out["lease_id"] != c.lease || out["renewable"] != true || out["data"] != nil {
			t.Fatalf("answer: %v", out)
		}
		return number(out["lease_duration"]), fmt.Sprint(out["warnings"])
	}
	v.pass(50 * time.Second)
	if d, w := renew(nil); d != "60" || w != "<nil>" {
		t.Fatalf("without increment: %s s, %s", d, w)
	}
	if d, w := renew("100s"); d != "100" || w != "<nil>" {
		t.Fatalf("within the maximum: %s s, %s", d, w)
	}
	if d, w := renew(151); d != "150" || w != `[TTL of "2m31s" exceeded the effective max_ttl of "2m30s"; TTL value is capped accordingly]` {
		t.Fatalf("past the maximum: %s s, %s", d, w)
	}
	v.pass(149 * time.Second)
	if d, _ := renew(nil); d != "1" {
		t.Fatalf("at the end: %s s, want 1", d)
	}
	look := v.ok("PUT", "sys/leases/lookup", map[string]any{"lease_id": c.lease})["data"].(map[string]any)
	if number(look["ttl"]) != "1" || look["path"] != "database/creds/app" || look["renewable"] != true || look["last_renewal"] == nil {
		t.Fatalf("lookup: %v", look)
	}
	v.pass(time.Second)
	v.refused(v.RootToken(), "PUT", "sys/leases/renew", map[string]any{"lease_id": c.lease}, 400, "lease not found")
	v.wantAccounts(0, "after the maximum")
}

func TestRenewalByPathAndExtendsTheAccount(t *testing.T) {
	v := newVault(t)
	c := v.creds(v.RootToken())
	v.pass(30 * time.Second)
	v.ok("PUT", "sys/leases/renew/"+c.lease, map[string]any{"increment": 120})
	v.pass(100 * time.Second) // past the first expiry and its margin
	if err := v.directory.Login(c.user, c.password); err != nil {
		t.Fatalf("the account was not extended with its lease: %v", err)
	}
}

func TestRevoke(t *testing.T) {
	v := newVault(t)
	c := v.creds(v.RootToken())
	v.refused(v.RootToken(), "PUT", "sys/leases/revoke", nil, 400, "lease_id must be specified")
	v.ok("PUT", "sys/leases/revoke", map[string]any{"lease_id": c.lease})
	v.wantAccounts(0, "a synchronous revoke has dropped the account when it answers")
	v.ok("PUT", "sys/leases/revoke", map[string]any{"lease_id": c.lease}) // gone is success
	v.ok("PUT", "sys/leases/revoke/database/creds/app/never-was", nil)

	c = v.creds(v.RootToken())
	v.ok("PUT", "sys/leases/revoke", map[string]any{"lease_id": c.lease, "sync": false})
	v.pass(0)
	v.wantAccounts(0, "after an asynchronous revoke")
}

func TestRevokePrefixAndList(t *testing.T) {
	v := newVault(t)
	v.ok("POST", "database/roles/other", map[string]any{"db_name": "db"})
	a, b := v.creds(v.RootToken()), v.creds(v.RootToken())
	v.ok("GET", "database/creds/other", nil)
	if k := fmt.Sprint(v.ok("LIST", "sys/leases/lookup/database/creds", nil)["data"].(map[string]any)["keys"]); k != "[app/ other/]" {
		t.Fatalf("folders: %s", k)
	}
	keys := fmt.Sprint(v.ok("GET", "sys/leases/lookup/database/creds/app?list=true", nil)["data"].(map[string]any)["keys"])
	for _, c := range []cred{a, b} {
		if !strings.Contains(keys, strings.TrimPrefix(c.lease, "database/creds/app/")) {
			t.Fatalf("%s is not in %s", c.lease, keys)
		}
	}
	v.ok("PUT", "sys/leases/revoke-prefix/database/creds/app", nil)
	v.wantAccounts(1, "after revoking the prefix of one role")
	v.refused(v.RootToken(), "LIST", "sys/leases/lookup/database/creds/app", nil, 404, "")
}

// C39
func TestFailingDropIsTriedAgainWithBackOff(t *testing.T) {
	v := newVault(t)
	v.creds(v.RootToken())
	v.directory.SetDown(true)
	v.pass(60 * time.Second)
	failed := func() int { return v.Counters().DropsFailed }
	if failed() != 1 {
		t.Fatalf("%d failed drops, want 1", failed())
	}
	v.pass(1900 * time.Millisecond)
	if failed() != 1 {
		t.Fatal("tried again before its pause was over")
	}
	v.pass(100 * time.Millisecond)
	if failed() != 2 {
		t.Fatalf("%d failed drops after 2 s, want 2", failed())
	}
	v.directory.SetDown(false)
	v.pass(4 * time.Second)
	v.wantAccounts(0, "once the directory was back")
	if len(v.Leases()) != 0 {
		t.Fatalf("left: %+v", v.Leases())
	}
}

func TestLeaseIsIrrevocableInTheEndAndALookupShowsIt(t *testing.T) {
	v := newVault(t)
	c := v.creds(v.RootToken())
	v.directory.SetDown(true)
	for range 8 {
		v.pass(2 * time.Minute)
	}
	if n := v.Counters(); n.DropsFailed != 6 || n.LeasesIrrevocable != 1 {
		t.Fatalf("counters: %+v", n)
	}
	look := v.ok("PUT", "sys/leases/lookup", map[string]any{"lease_id": c.lease})["data"].(map[string]any)
	if look["revoke_error"] != "out of retries: failed to revoke entry: resp: (*logical.Response)(nil) err: directory is down" || look["renewable"] != false {
		t.Fatalf("lookup: %v", look)
	}
	v.refused(v.RootToken(), "PUT", "sys/leases/renew", map[string]any{"lease_id": c.lease}, 400, "lease is expired and has failed previous revocation attempts")
	v.refused(v.RootToken(), "PUT", "sys/leases/revoke", map[string]any{"lease_id": c.lease}, 400, "failed to revoke entry: resp: (*logical.Response)(nil) err: directory is down")
	v.ok("PUT", "sys/leases/revoke-force/database/creds/app", nil)
	if len(v.Leases()) != 0 {
		t.Fatal("a forced revocation left the lease")
	}
	v.directory.SetDown(false)
	v.wantAccounts(1, "a forced revocation gives the account up")
}

func TestManyLeasesExpireWithBoundedDrops(t *testing.T) {
	v := newVault(t)
	for range 100 {
		v.creds(v.RootToken())
	}
	v.pass(61 * time.Second)
	v.wantAccounts(0, "after a common expiry")
	if n := v.Counters(); n.AccountsDropped != 100 || n.LeasesRevoked != 100 {
		t.Fatalf("counters: %+v", n)
	}
}

func TestSettleEndsWithItsContext(t *testing.T) {
	v := newVault(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := v.Settle(ctx); err != nil { // nothing is due: no reason to wait
		t.Fatal(err)
	}
}
