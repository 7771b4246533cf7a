package conformance

import (
	"errors"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/vault"
)

func testGuards(t *testing.T, a *admin) {
	c := a.service(t, "")

	t.Run("dies and takes its lease along", func(t *testing.T) {
		got := a.acquire(t, c, "app", 4*time.Second)
		if ttl := got.guard.TTL.Std(); ttl != 4*time.Second {
			t.Errorf("a guard of 4 s was granted %s", ttl)
		}
		end := got.guard.SentAt.Add(got.guard.TTL.Std())
		until(t, end.Add(-500*time.Millisecond), end, "the account lives while its guard does", func() bool { return a.exists(t, got.user) })
		eventually(t, "the account is gone with its guard", func() bool { return !a.exists(t, got.user) })
		eventually(t, "the lease is gone with its guard", func() bool {
			_, err := c.LookupLease(t.Context(), got.grant.LeaseID)
			return vault.KindOf(err) == vault.KindNotFound
		})
		_, err := c.LookupGuard(t.Context(), got.guard.Accessor)
		wantKind(t, "look up a dead guard", err, vault.KindNotFound)
		_, err = c.ExtendGuard(t.Context(), got.guard.Accessor, time.Minute)
		wantKind(t, "extend a dead guard", err, vault.KindNotFound)
		_, err = c.RenewLease(t.Context(), got.grant.LeaseID, time.Minute)
		wantKind(t, "renew a lease whose guard died", err, vault.KindNotFound)
		if _, err := c.RevokeGuard(t.Context(), got.guard.Accessor); err != nil {
			t.Errorf("revoke a dead guard: %v", err)
		}
	})

	t.Run("extended by its accessor lives on", func(t *testing.T) {
		got := a.acquire(t, c, "app", 4*time.Second)
		end := got.guard.SentAt.Add(got.guard.TTL.Std())
		extension, err := c.ExtendGuard(t.Context(), got.guard.Accessor, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if extension.TTL != time.Hour {
			t.Errorf("extended by an hour, granted %s", extension.TTL)
		}
		until(t, end.Add(1500*time.Millisecond), time.Time{}, "the account of an extended guard lives", func() bool { return a.exists(t, got.user) })
		info, err := c.LookupGuard(t.Context(), got.guard.Accessor)
		if err != nil {
			t.Fatal(err)
		}
		if info.TTL.Std() < 59*time.Minute || !info.Orphan || info.Period.Std() != 0 || info.ExplicitMaxTTL.Std() != 0 || info.UsesLeft != 0 || info.Type != "service" {
			t.Errorf("the guard's look-up: %+v", info)
		}
		if info.Accessor != got.guard.Accessor {
			t.Errorf("the look-up is of another accessor")
		}
		if gone, err := c.RevokeGuard(t.Context(), got.guard.Accessor); err != nil || gone {
			t.Errorf("revoke a live guard: gone %t, %v", gone, err)
		}
		eventually(t, "the account goes when the guard is revoked", func() bool { return !a.exists(t, got.user) })
		if gone, err := c.RevokeGuard(t.Context(), got.guard.Accessor); err != nil || !gone {
			t.Errorf("C40: revoke a guard twice: gone %t, %v", gone, err)
		}
	})

	t.Run("extending before the lease is read", func(t *testing.T) {
		g, err := c.CreateGuard(t.Context(), vault.GuardOptions{TTL: 5 * time.Second, Meta: map[string]string{"name": "orders"}})
		if err != nil {
			t.Fatal(err)
		}
		if extension, err := c.ExtendGuard(t.Context(), g.Accessor, 90*time.Second); err != nil || extension.TTL != 90*time.Second {
			t.Errorf("granted %s, %v", extension.TTL, err)
		}
		if _, err := c.RevokeGuard(t.Context(), g.Accessor); err != nil {
			t.Error(err)
		}
	})

	for name, but := range map[string]map[string]any{
		"a role with an explicit max TTL does not extend": {"token_explicit_max_ttl": "4s"},
		"a role with a period does not extend":            {"token_period": "4s"},
	} {
		t.Run(name, func(t *testing.T) {
			limited := a.service(t, a.tokenRole(t, "limited", but))
			g, err := limited.CreateGuard(t.Context(), vault.GuardOptions{TTL: 3 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			extension, err := limited.ExtendGuard(t.Context(), g.Accessor, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			if extension.TTL > 4*time.Second {
				t.Errorf("asked for an hour, granted %s, at most 4 s were to come", extension.TTL)
			}
			if _, err := limited.RevokeGuard(t.Context(), g.Accessor); err != nil {
				t.Error(err)
			}
		})
	}
}

func testUnfitGuards(t *testing.T, a *admin) {
	for name, but := range map[string]map[string]any{
		"batch tokens":  {"token_type": "batch", "renewable": false},
		"no orphans":    {"orphan": false},
		"use-limited":   {"token_num_uses": 5},
		"not renewable": {"renewable": false},
	} {
		t.Run(name, func(t *testing.T) {
			c := a.service(t, a.tokenRole(t, "unfit", but))
			if _, err := c.CreateGuard(t.Context(), vault.GuardOptions{TTL: 5 * time.Second}); !errors.Is(err, vault.ErrGuardUnfit) {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("forbidden", func(t *testing.T) {
		// A token that may look itself up and nothing else.
		c := a.client(t, a.token(t, "nothing", map[string]any{"no_default_policy": false}), "")
		_, err := c.CreateGuard(t.Context(), vault.GuardOptions{})
		if !errors.Is(err, vault.ErrGuardForbidden) {
			t.Errorf("got %v", err)
		}
		wantKind(t, "forbidden", err, vault.KindPermission)
	})
	t.Run("no such role", func(t *testing.T) {
		c := a.service(t, a.role("absent"))
		_, err := c.CreateGuard(t.Context(), vault.GuardOptions{})
		wantKind(t, "a role that is not there", err, vault.KindRefused)
	})
}
