package conformance

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/vault"
)

// Run holds target to the suite. It fails, and never skips, what the target
// can't do.
func Run(t *testing.T, target Target) {
	t.Logf("target: %s at %s", target.Name, target.Address)
	a := newAdmin(t, target)
	for _, group := range []struct {
		name string
		run  func(*testing.T, *admin)
	}{
		{"Login", testLogin},
		{"OwnToken", testOwnToken},
		{"Read", testRead},
		{"Guards", testGuards},
		{"UnfitGuards", testUnfitGuards},
		{"Renew", testRenew},
		{"Revoke", testRevoke},
		{"Parent", testParent},
		{"TokenEnd", testTokenEnd},
		{"KV2", testKV2},
		{"Refusals", testRefusals},
		{"Health", testHealth},
		{"CheckGuard", testCheckGuard},
		{"Verified", testVerified},
		{"KV1", testKV1},
		{"KVVersions", testKVVersions},
		{"StaticRole", testStaticRole},
		{"RabbitMQ", testRabbitMQ},
		{"RabbitMQStrange", testRabbitMQStrange},
		{"Redis", testRedis},
		{"Generic", testGeneric},
		{"PKI", testPKI},
		{"AppRole", testAppRole},
		{"AppRoleCycles", testAppRoleCycles},
		{"WrappedSecretID", testWrappedSecretID},
		{"JWT", testJWT},
		{"Kubernetes", testKubernetes},
		{"Cert", testCert},
		{"Policy", testPolicy},
		{"PolicyLimits", testPolicyLimits},
		{"Quota", testQuota},
	} {
		if slices.Contains(target.Lacks, group.name) {
			t.Logf("%s does not claim %s: not run", target.Name, group.name)
			continue
		}
		t.Run(group.name, func(t *testing.T) { group.run(t, a) })
	}
}

// acquired is a credential under a guard, and the account it is for.
type acquired struct {
	guard vault.Guard
	grant vault.Grant
	user  string
}

func (a *admin) acquire(t *testing.T, c *vault.Client, role string, guardTTL time.Duration) acquired {
	t.Helper()
	g, err := c.CreateGuard(t.Context(), vault.GuardOptions{TTL: guardTTL})
	if err != nil {
		t.Fatal(err)
	}
	grant, err := c.Read(t.Context(), a.creds(role), &g, vault.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := acquired{guard: g, grant: grant, user: userOf(t, grant)}
	if !a.exists(t, got.user) {
		t.Fatalf("the account of a fresh credential is not there")
	}
	return got
}

func userOf(t *testing.T, grant vault.Grant) string {
	t.Helper()
	var data struct{ Username, Password string }
	if err := json.Unmarshal(grant.Data, &data); err != nil || data.Username == "" || data.Password == "" {
		t.Fatalf("the credential has the keys %v, username and password are needed (%v)", grant.Keys, err)
	}
	return data.Username
}

func (a *admin) exists(t *testing.T, user string) bool {
	t.Helper()
	accounts, err := a.target.Accounts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return slices.Contains(accounts, user)
}

// patience bounds a wait for what must happen.
const patience = time.Minute

// eventually polls until it is so, and ends the test when it never is.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("after %s still not: %s", patience, what)
		}
	}
}

// until polls up to a moment and ends the test when it is not so before. From end on
// it need not be so any more, however late that is seen; a zero end never comes.
func until(t *testing.T, moment, end time.Time, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		if !so() && (end.IsZero() || time.Now().Before(end)) {
			t.Fatalf("%s before it should: no longer: %s", time.Until(moment), what)
		}
		if time.Now().After(moment) {
			return
		}
		<-tick.C
	}
}

func wantKind(t *testing.T, what string, err error, kind vault.Kind) {
	t.Helper()
	if got := vault.KindOf(err); got != kind {
		t.Errorf("%s: got %s (%v), want %s", what, got, err, kind)
	}
}
