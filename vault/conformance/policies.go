package conformance

import (
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/vault"
)

// leastClient logs in with what vault.Policy, GuardPolicy and TokenRole say is
// enough for path.
func (a *admin) leastClient(t *testing.T, path string) *vault.Client {
	t.Helper()
	role, guards, own := a.role("least"), a.policy("least-guard"), a.policy("least")
	a.must(t, "PUT", "sys/policies/acl/"+own, map[string]any{"policy": vault.Policy(role, vault.Paths(path)...)})
	a.must(t, "PUT", "sys/policies/acl/"+guards, map[string]any{"policy": vault.GuardPolicy(vault.Paths(path)...)})
	a.must(t, "POST", "auth/token/roles/"+role, vault.TokenRole(guards))
	t.Cleanup(func() {
		a.must(t, "DELETE", "auth/token/roles/"+role, nil)
		a.must(t, "DELETE", "sys/policies/acl/"+own, nil)
		a.must(t, "DELETE", "sys/policies/acl/"+guards, nil)
	})
	return a.client(t, a.token(t, "least", nil), role)
}

// testPolicy does all that the service does with the least policy.
func testPolicy(t *testing.T, a *admin) {
	c := a.leastClient(t, a.creds("app"))
	if check, err := c.CheckGuard(t.Context(), 2*time.Hour); err != nil || len(check.Faults) > 0 {
		t.Errorf("the role that TokenRole gives: %+v, %v", check.Faults, err)
	}
	got := a.acquire(t, c, "app", time.Minute)
	if _, err := c.ExtendGuard(t.Context(), got.guard.Accessor, time.Hour); err != nil {
		t.Error(err)
	}
	if _, err := c.RenewLease(t.Context(), got.grant.LeaseID, time.Hour); err != nil {
		t.Error(err)
	}
	if _, err := c.LookupLease(t.Context(), got.grant.LeaseID); err != nil {
		t.Error(err)
	}
	_, err := c.Read(t.Context(), a.creds("app"), nil, vault.ReadOptions{})
	wantKind(t, "a read without a guard", err, vault.KindPermission)
	_, err = c.Read(t.Context(), a.creds("short"), &got.guard, vault.ReadOptions{})
	wantKind(t, "another path with a guard", err, vault.KindPermission)
	if _, err := c.RevokeLease(t.Context(), got.grant.LeaseID, vault.Verified()); err != nil {
		t.Error(err)
	}
	if _, err := c.RevokeGuard(t.Context(), got.guard.Accessor); err != nil {
		t.Error(err)
	}
}

// testPolicyLimits: the least policy is for the leases of its paths only.
func testPolicyLimits(t *testing.T, a *admin) {
	c := a.leastClient(t, a.creds("app"))
	other := a.service(t, "")
	got := a.acquire(t, other, "short", time.Minute)
	if !strings.HasPrefix(got.grant.LeaseID, a.creds("short")) {
		t.Fatal("the lease is not of the other path")
	}
	_, err := c.RenewLease(t.Context(), got.grant.LeaseID, time.Hour)
	wantKind(t, "renew a lease of another path", err, vault.KindPermission)
	_, err = c.RevokeLease(t.Context(), got.grant.LeaseID)
	wantKind(t, "revoke a lease of another path", err, vault.KindPermission)
	a.giveBack(t, other, got)
}
