package conformance

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/vault"
)

func testRead(t *testing.T, a *admin) {
	c := a.service(t, "")
	got := a.acquire(t, c, "app", time.Minute)
	grant := got.grant
	if !strings.HasPrefix(grant.LeaseID, a.creds("app")+"/") || grant.TTL.String() != "3600" || !grant.Renewable || grant.Suspect != "" {
		t.Errorf("the grant: %s, renewable %t, suspect %q", grant, grant.Renewable, grant.Suspect)
	}
	info, err := c.LookupLease(t.Context(), grant.LeaseID)
	if err != nil {
		t.Fatal(err)
	}
	if info.LeaseID != grant.LeaseID || !info.Renewable || info.TTL.Std() < 59*time.Minute || info.TTL.Std() > time.Hour || info.Expires.Sub(info.Issued).Round(time.Second) != time.Hour {
		t.Errorf("the look-up: %+v", info)
	}
	second, err := c.Read(t.Context(), a.creds("app"), &got.guard, vault.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if second.LeaseID == grant.LeaseID || userOf(t, second) == got.user {
		t.Error("a second read gave the first credential again")
	}
	_, err = c.Read(t.Context(), a.kv()+"/data/any", &got.guard, vault.ReadOptions{KVv2: true})
	wantKind(t, "a path that the guard's policy does not have", err, vault.KindPermission)
	if _, err := c.RevokeGuard(t.Context(), got.guard.Accessor); err != nil {
		t.Error(err)
	}
	_, err = c.Read(t.Context(), a.creds("app"), &got.guard, vault.ReadOptions{})
	wantKind(t, "a read with a revoked guard", err, vault.KindPermission)
	eventually(t, "both accounts are gone", func() bool { return !a.exists(t, got.user) && !a.exists(t, userOf(t, second)) })
}

func testRenew(t *testing.T, a *admin) {
	c := a.service(t, "")

	t.Run("as asked", func(t *testing.T) {
		got := a.acquire(t, c, "app", time.Minute)
		r, err := c.RenewLease(t.Context(), got.grant.LeaseID, 2*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if r.LeaseID != got.grant.LeaseID || r.TTL.String() != "7200" || !r.Renewable || r.Suspect != "" {
			t.Errorf("the renewal: %s, renewable %t, suspect %q", r, r.Renewable, r.Suspect)
		}
		if r.Data != nil {
			t.Errorf("a renewal of a database lease has data, with the keys %v", r.Keys)
		}
		a.giveBack(t, c, got)
	})

	t.Run("L37: shorter near max TTL", func(t *testing.T) {
		got := a.acquire(t, c, "short", time.Minute)
		end := got.grant.SentAt.Add(8 * time.Second)
		r, err := c.RenewLease(t.Context(), got.grant.LeaseID, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if r.TTL.Std() > 8*time.Second || r.TTL.IsZero() {
			t.Errorf("asked for an hour of a lease whose max TTL is 8 s, granted %s s", r.TTL)
		}
		until(t, end.Add(-3*time.Second), end, "the renewed account lives", func() bool { return a.exists(t, got.user) })
		if r, err = c.RenewLease(t.Context(), got.grant.LeaseID, time.Hour); err != nil {
			t.Fatal(err)
		}
		if r.TTL.Std() > 4*time.Second {
			t.Errorf("3 s before max TTL another %s s were granted", r.TTL)
		}
		if len(r.Warnings) == 0 {
			t.Error("a renewal that is cut to max TTL comes without a warning")
		}
		eventually(t, "the account is gone at max TTL", func() bool { return !a.exists(t, got.user) })
		eventually(t, "C14: renewing it is not found", func() bool {
			_, err := c.RenewLease(t.Context(), got.grant.LeaseID, time.Hour)
			return vault.KindOf(err) == vault.KindNotFound
		})
		a.giveBack(t, c, got)
	})

	t.Run("of nothing", func(t *testing.T) {
		_, err := c.RenewLease(t.Context(), a.creds("app")+"/aaaaaaaaaaaaaaaaaaaaaaaa", time.Hour)
		wantKind(t, "C14: a lease that never was", err, vault.KindNotFound)
	})
}

func (a *admin) giveBack(t *testing.T, c *vault.Client, got acquired) {
	t.Helper()
	if _, err := c.RevokeLease(t.Context(), got.grant.LeaseID); err != nil {
		t.Error(err)
	}
	if _, err := c.RevokeGuard(t.Context(), got.guard.Accessor); err != nil {
		t.Error(err)
	}
}

func testRevoke(t *testing.T, a *admin) {
	c := a.service(t, "")
	got := a.acquire(t, c, "app", time.Minute)
	if gone, err := c.RevokeLease(t.Context(), got.grant.LeaseID); err != nil || gone {
		t.Fatalf("revoke a live lease: gone %t, %v", gone, err)
	}
	if a.exists(t, got.user) {
		t.Error("the account is there after its lease was revoked synchronously")
	}
	if _, err := c.RevokeLease(t.Context(), got.grant.LeaseID); err != nil {
		t.Errorf("C40: revoke a lease twice: %v", err)
	}
	if _, err := c.RevokeLease(t.Context(), a.creds("app")+"/aaaaaaaaaaaaaaaaaaaaaaaa"); err != nil {
		t.Errorf("L27: revoke a lease that never was: %v", err)
	}
	_, err := c.LookupLease(t.Context(), got.grant.LeaseID)
	wantKind(t, "look up a revoked lease", err, vault.KindNotFound)
	_, err = c.RenewLease(t.Context(), got.grant.LeaseID, time.Hour)
	wantKind(t, "renew a revoked lease", err, vault.KindNotFound)
	if _, err := c.LookupGuard(t.Context(), got.guard.Accessor); err != nil {
		t.Errorf("revoking the lease took the guard along: %v", err)
	}
	a.giveBack(t, c, got)
	if _, err := c.RevokeLease(t.Context(), ""); !errors.Is(err, vault.ErrEmptyLeaseID) {
		t.Errorf("C41: revoke without a lease id: %v", err)
	}
}

func testKV2(t *testing.T, a *admin) {
	c := a.service(t, "")
	path := a.kv() + "/data/app"
	kv2 := vault.ReadOptions{KVv2: true}
	_, err := c.Read(t.Context(), path, nil, kv2)
	wantKind(t, "a secret that never was", err, vault.KindNotFound)
	data := map[string]any{"big": 9007199254740993, "dotted.key": "x", "nested": map[string]any{"null": nil}, "password": "p\u00e4ss"}
	a.must(t, "POST", path, map[string]any{"data": data})
	g, err := c.Read(t.Context(), path, nil, kv2)
	if err != nil {
		t.Fatal(err)
	}
	if g.Version != 1 || g.LeaseID != "" || !g.TTL.IsZero() || strings.Join(g.Keys, " ") != "big dotted.key nested password" {
		t.Errorf("version %d: %s", g.Version, g)
	}
	// The server may write numbers in its own way; ours is to give its bytes.
	if raw := a.must(t, "GET", path, nil); !bytes.Contains(raw, g.Data) || !bytes.Contains(g.Data, []byte(`"dotted.key":"x"`)) {
		t.Error("C57: the data is not in the bytes that the server sends")
	}
	outer, err := c.Read(t.Context(), path, nil, vault.ReadOptions{})
	if err != nil || strings.Join(outer.Keys, " ") != "data metadata" {
		t.Errorf("read without KVv2: %v, %v", outer.Keys, err)
	}
	a.must(t, "POST", path, map[string]any{"data": map[string]any{"password": "new"}})
	if g, err = c.Read(t.Context(), path, nil, kv2); err != nil || g.Version != 2 {
		t.Errorf("after a second write: version %d, %v", g.Version, err)
	}
	a.must(t, "DELETE", path, nil)
	_, err = c.Read(t.Context(), path, nil, kv2)
	wantKind(t, "a deleted version", err, vault.KindNotFound)
}
