package service_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/events"
)

// token makes a token for the service.
func (r *rig) token(body map[string]any) string {
	r.t.Helper()
	out, err := r.vault.Do(r.t.Context(), "POST", "auth/token/create-orphan", body)
	if err != nil {
		r.t.Fatal(err)
	}
	return out["auth"].(map[string]any)["client_token"].(string)
}

// TestC3_RenewalsMoveToTheNewToken: the old one is refused and another is where
// it comes from; renewals go on under that and are not refused for ever.
func TestC3_RenewalsMoveToTheNewToken(t *testing.T) {
	t.Parallel()
	r := newCaseRig(t, "1h", "2h")
	old := r.token(map[string]any{"policies": []string{"root"}, "ttl": "1h"})
	file := r.write("token", old)
	r.tokenFile = file
	r.definitions(1, definition("app", ", renew_at: 0.0003"))
	r.run("state-a")
	r.await("a renewal", func() bool { return r.count(events.TypeRenewed) >= 1 })
	end := r.uses("app")
	other := r.token(map[string]any{"policies": []string{"root"}, "ttl": "1h"})
	if err := os.WriteFile(file, []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.vault.Do(t.Context(), "POST", "auth/token/revoke", map[string]any{"token": old}); err != nil {
		t.Fatal(err)
	}
	before := r.count(events.TypeRenewed)
	r.within(60*time.Second, "three renewals under the new token", func() bool { return r.count(events.TypeRenewed) >= before+3 })
	if n := r.count(events.TypeRenewFailed); n > 5 {
		t.Errorf("%d renewals were refused", n)
	}
	if end() == 0 {
		t.Error("nobody read it")
	}
	r.noSecretSaid(old, other)
}

// TestAStartWaitsForTheFirstLogin, for a moment: what it asks for first is not refused
// for that. A Vault that says nothing keeps nobody from leading.
func TestAStartWaitsForTheFirstLogin(t *testing.T) {
	t.Parallel()
	for name, takes := range map[string]time.Duration{"a slow one": 250 * time.Millisecond, "none": time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newCaseRig(t, "1h", "2h")
			quit := make(chan struct{})
			t.Cleanup(func() { close(quit) }) // before the Vault ends
			asked := r.watch("auth/token/lookup-self", func(http.ResponseWriter, arrival) bool {
				select {
				case <-time.After(takes):
				case <-quit:
				}
				return false
			})
			r.definitions(1, definition("app", ""))
			r.run("state-a")
			r.await("a term", func() bool { return r.count(events.TypeRequested) > 0 })
			if asked.count() == 0 {
				t.Error("the login was not held up")
			}
			if takes > time.Second {
				return
			}
			r.await("a lease", func() bool { return r.active("app") != 0 })
			if n := r.count(events.TypeAcquireFailed); n > 0 {
				t.Errorf("%d acquisitions failed", n)
			}
		})
	}
}

// TestC23_AnUnguardedLeaseEndsWithOurToken: what it is said to live for is the
// earlier of both ends, at each renewal too, and a successor is there before that.
// There are as many names as there are points in a token's life to be renewed at.
func TestC23_AnUnguardedLeaseEndsWithOurToken(t *testing.T) {
	t.Parallel()
	const names = 8
	r := newCaseRig(t, "1h", "2h")
	r.do("sys/auth/approle", map[string]any{"type": "approle"})
	r.do("auth/approle/role/svc", map[string]any{"bind_secret_id": false, "token_bound_cidrs": "127.0.0.0/8", "token_policies": []string{"root-like"}, "token_ttl": "20s", "token_max_ttl": "34s"})
	if _, err := r.vault.Do(t.Context(), "PUT", "sys/policies/acl/root-like", map[string]any{"policy": `path "*" { capabilities = ["create", "read", "update", "delete", "list", "sudo"] }`}); err != nil {
		t.Fatal(err)
	}
	out, err := r.vault.Do(t.Context(), "GET", "auth/approle/role/svc/role-id", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.write("role-id", out["data"].(map[string]any)["role_id"].(string))
	r.login = "login: {approle: {role_id_file: role-id}}"
	r.moreVault = `guard_role: ""`
	var lines strings.Builder
	for i := range names {
		lines.WriteString(definition(fmt.Sprintf("app-%d", i), fmt.Sprintf(", renew_at: %.2f", 0.3+0.05*float64(i))))
	}
	r.definitions(1, lines.String())
	r.run("state-a")
	ends := make([]func() int, names)
	for i := range names {
		name := fmt.Sprintf("app-%d", i)
		r.await("a lease", func() bool { return r.active(name) != 0 })
		ends[i] = r.uses(name)
		a := data[*events.Acquired](t, r.of(events.TypeAcquired, name, 0)[0])
		if a.TTL.Cmp(events.WholeSeconds(20)) > 0 || !strings.Contains(a.Suspect, "ends with our own token") {
			t.Errorf("%s is said to live for %s s, %q", name, a.TTL, a.Suspect)
		}
	}
	// Two tokens later: each lease was replaced before its token ended.
	r.within(150*time.Second, "two successors of each", func() bool {
		for i := range names {
			if len(r.of(events.TypeInstalled, fmt.Sprintf("app-%d", i), 0)) < 3 {
				return false
			}
		}
		return true
	})
	for i, end := range ends {
		if n := end(); n < 50 {
			t.Errorf("%d logins by app-%d", n, i)
		}
	}
	if n := r.count(events.TypeExpired); n != 0 {
		t.Errorf("%d leases came to their end before they were replaced", n)
	}
	// One successor for each token, and the one that was asked for as it was replaced.
	logins := strings.Count(r.out.String(), `msg="logged in"`)
	if n, most := r.count(events.TypeAcquired), names*(logins+1); n > most {
		t.Errorf("%d acquisitions of %d names with %d tokens", n, names, logins)
	}
	if !strings.Contains(r.out.String(), "WITHOUT guards") {
		t.Error("nobody is told that it works without guards")
	}
	st, err := r.api().Status(aBit(t), "prod")
	if err != nil || st.Vaults[0].Guarded || st.Vaults[0].Unguarded == "" || len(st.Notes) == 0 {
		t.Errorf("status: %+v, %v", st.Vaults, err)
	}
}

// TestC25_ATokenWithALimitOfUses is refused with the reason, which is shown.
func TestC25_ATokenWithALimitOfUses(t *testing.T) {
	t.Parallel()
	r := newCaseRig(t, "1h", "2h")
	r.tokenFile = r.write("token", r.token(map[string]any{"policies": []string{"root"}, "ttl": "1h", "num_uses": 3}))
	r.definitions(1, definition("app", ""))
	r.run("state-a")
	r.await("the reason in status", func() bool {
		st, err := r.api().Status(aBit(t), "prod")
		return err == nil && strings.Contains(st.Vaults[0].Problem, "use limit") && !st.Vaults[0].LoggedIn
	})
	if n := r.count(events.TypeAcquired); n != 0 {
		t.Errorf("%d acquisitions", n)
	}
	r.write("token", r.token(map[string]any{"policies": []string{"root"}, "ttl": "1h"}))
	r.within(120*time.Second, "a lease with a good one", func() bool { return r.active("app") != 0 })
}

// TestC27_TheNamespaceIsOnEveryRequestOfTheService: the service, guards, renewals and
// revocations included; not on questions for the node's health.
func TestC27_TheNamespaceIsOnEveryRequestOfTheService(t *testing.T) {
	t.Parallel()
	r := newCaseRig(t, "1h", "2h")
	r.moreVault = "guard_role: leasesvc, namespace: team/a"
	r.vault.Inject(devvault.Fault{Path: "sys/leases/renew", TTL: 743, Times: 1})
	r.definitions(1, definition("app", ", renew_at: 0.0003"))
	stop := r.run("state-a")
	r.await("a successor and the end of the first", func() bool { return len(r.of(events.TypeRevoked, "app", 1)) == 1 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, q := range r.vault.Requests() {
		if q.Path == "sys/health" {
			continue
		}
		seen[q.Path]++
		if strings.Trim(q.Namespace, "/") != "team/a" {
			t.Errorf("%s %s went to namespace %q", q.Method, q.Path, q.Namespace)
		}
	}
	for _, path := range []string{"auth/token/lookup-self", "auth/token/create/leasesvc", "database/creds/app", "auth/token/renew-accessor", "sys/leases/renew", "sys/leases/revoke", "auth/token/revoke-accessor"} {
		if seen[path] == 0 {
			t.Errorf("%s was not asked", path)
		}
	}
}

// TestC24_RecoveryWorksMoreThanOnce: the token is taken away, and again: each time
// there is a new login, and what is active is renewed under it.
func TestC24_RecoveryWorksMoreThanOnce(t *testing.T) {
	t.Parallel()
	r := newCaseRig(t, "1h", "2h")
	r.do("sys/auth/approle", map[string]any{"type": "approle"})
	r.do("auth/approle/role/svc", map[string]any{"bind_secret_id": false, "token_bound_cidrs": "127.0.0.0/8", "token_policies": []string{"all"}, "token_ttl": "1h"})
	if _, err := r.vault.Do(t.Context(), "PUT", "sys/policies/acl/all", map[string]any{"policy": `path "*" { capabilities = ["create", "read", "update", "delete", "list", "sudo"] }`}); err != nil {
		t.Fatal(err)
	}
	out, err := r.vault.Do(t.Context(), "GET", "auth/approle/role/svc/role-id", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.write("role-id", out["data"].(map[string]any)["role_id"].(string))
	r.login = "login: {approle: {role_id_file: role-id}}"
	r.definitions(1, definition("app", ", renew_at: 0.0003"))
	r.run("state-a")
	r.await("a renewal", func() bool { return r.count(events.TypeRenewed) >= 1 })
	end := r.uses("app")
	for cycle := range 3 {
		taken := 0
		for _, token := range r.vault.Tokens() {
			if token.Path == "auth/approle/login" {
				r.do("auth/token/revoke-accessor", map[string]any{"accessor": token.Accessor})
				taken++
			}
		}
		if taken != 1 {
			t.Fatalf("cycle %d: %d tokens of a login", cycle, taken)
		}
		before := r.count(events.TypeRenewed)
		r.within(90*time.Second, "renewals under a new token", func() bool { return r.count(events.TypeRenewed) >= before+2 })
	}
	if end() == 0 {
		t.Error("nobody read it")
	}
	if n := r.vault.Count("", "auth/approle/login"); n != 4 {
		t.Errorf("%d logins, 4 were to be", n)
	}
}
