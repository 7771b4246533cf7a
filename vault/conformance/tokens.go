package conformance

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/secret"
	"github.com/leasesvc/leasesvc/vault"
)

func testLogin(t *testing.T, a *admin) {
	c := a.service(t, "")
	status := c.Token()
	if !status.LoggedIn || !status.Renewable || status.TTL.Std() < 9*time.Minute || status.TTL.Std() > 10*time.Minute {
		t.Errorf("after the login: %+v", status)
	}
	root := a.client(t, a.target.RootToken, "")
	if s := root.Token(); !s.TTL.IsZero() || !s.Expires.IsZero() {
		t.Errorf("a root token without TTL: %+v", s)
	}
	login := func(token secret.String) error {
		return a.stranger(t, func(cfg *vault.Config) { cfg.Token = token }).Login(t.Context())
	}
	wantKind(t, "an unknown token", login(secret.New("s.aaaaaaaaaaaaaaaaaaaaaaaa")), vault.KindPermission)
	if err := login(a.token(t, "service", map[string]any{"num_uses": 3})); !errors.Is(err, vault.ErrUseLimited) {
		t.Errorf("C25: a token with num_uses 3: %v", err)
	}
	revoked := a.token(t, "service", nil)
	a.revokeToken(t, revoked)
	wantKind(t, "a revoked token", login(revoked), vault.KindPermission)
}

// testOwnToken lets Run carry a token well beyond its TTL.
func testOwnToken(t *testing.T, a *admin) {
	c := a.client(t, a.token(t, "service", map[string]any{"ttl": "6s"}), "")
	first := c.Token().Expires
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	until(t, first.Add(1500*time.Millisecond), time.Time{}, "our own token is renewed", func() bool {
		return c.Token().Expires.After(time.Now())
	})
	if _, err := c.CreateGuard(t.Context(), vault.GuardOptions{}); err != nil {
		t.Errorf("a guard with a token that Run renewed: %v", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
}

func testParent(t *testing.T, a *admin) {
	token := a.token(t, "service", nil)
	c := a.client(t, token, "")
	unguarded, err := c.Read(t.Context(), a.creds("app"), nil, vault.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	user := userOf(t, unguarded)
	guarded := a.acquire(t, c, "app", time.Minute)

	a.revokeToken(t, token)
	eventually(t, "the lease without a guard dies with our token", func() bool { return !a.exists(t, user) })
	if !a.exists(t, guarded.user) {
		t.Error("the lease under a guard died with our token: the guard is no orphan")
	}
	other := a.service(t, "")
	_, err = other.LookupLease(t.Context(), unguarded.LeaseID)
	wantKind(t, "the lease that died", err, vault.KindNotFound)
	if _, err := other.LookupGuard(t.Context(), guarded.guard.Accessor); err != nil {
		t.Errorf("the guard after our token went: %v", err)
	}
	if _, err := other.ExtendGuard(t.Context(), guarded.guard.Accessor, 2*time.Minute); err != nil {
		t.Errorf("a guard made under the old token, extended under the new one: %v", err)
	}
	if _, err := other.RevokeGuard(t.Context(), guarded.guard.Accessor); err != nil {
		t.Error(err)
	}
	eventually(t, "the lease dies with its guard", func() bool { return !a.exists(t, guarded.user) })
}

// testTokenEnd: a renewal of a lease that was read without a guard may grant more than
// our token has left, and the lease ends with the token all the same (C23).
func testTokenEnd(t *testing.T, a *admin) {
	token := a.token(t, "service", map[string]any{"ttl": "8s", "explicit_max_ttl": "8s"})
	c, other := a.client(t, token, ""), a.service(t, "")
	g, err := c.Read(t.Context(), a.creds("app"), nil, vault.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	user, ends := userOf(t, g), c.Token().Expires
	if g.TTL.Std() <= time.Until(ends) || !g.TokenExpires.Equal(ends) {
		t.Errorf("granted for %s s, with a token that ends in %s, said to end at %s", g.TTL, time.Until(ends), g.TokenExpires)
	}
	r, err := other.RenewLease(t.Context(), g.LeaseID, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if r.TTL.Std() <= time.Until(ends) {
		t.Errorf("the renewal is bounded by the token already: %s s", r.TTL)
	}
	until(t, ends.Add(-3*time.Second), ends, "the account lives as long as our token", func() bool { return a.exists(t, user) })
	eventually(t, "the lease dies with our token", func() bool { return !a.exists(t, user) })
	if early := time.Until(ends); early > 0 {
		t.Errorf("it died %s before our token's end", early)
	}
	_, err = other.RenewLease(t.Context(), g.LeaseID, time.Hour)
	wantKind(t, "a lease that died with its token", err, vault.KindNotFound)
}
