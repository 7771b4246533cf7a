package conformance

import (
	"errors"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/vault"
)

func testRefusals(t *testing.T, a *admin) {
	c := a.service(t, "")
	root := a.client(t, a.target.RootToken, "")
	status := func(err error) int {
		var e *vault.Error
		if errors.As(err, &e) {
			return e.Status
		}
		return 0
	}
	for _, try := range []struct {
		name   string
		client *vault.Client
		path   string
		kind   vault.Kind
		status int
	}{
		{"a path outside the policy", c, "sys/policies/acl/root", vault.KindPermission, 403},
		{"no such mount", root, "conf-absent/creds/app", vault.KindNotFound, 404},
		{"no such role", root, a.creds("absent"), vault.KindRefused, 400},
		{"no such static role", root, a.database() + "/static-creds/absent", vault.KindRefused, 400},
	} {
		_, err := try.client.Read(t.Context(), try.path, nil, vault.ReadOptions{})
		wantKind(t, try.name, err, try.kind)
		if got := status(err); got != try.status {
			t.Errorf("%s: HTTP %d, want %d", try.name, got, try.status)
		}
	}
	stranger := a.client(t, a.token(t, "nothing", map[string]any{"no_default_policy": false}), "")
	got := a.acquire(t, c, "app", time.Minute)
	_, err := stranger.ExtendGuard(t.Context(), got.guard.Accessor, time.Hour)
	wantKind(t, "extend without the right", err, vault.KindPermission)
	_, err = stranger.RevokeGuard(t.Context(), got.guard.Accessor)
	wantKind(t, "revoke a guard without the right", err, vault.KindPermission)
	_, err = stranger.RevokeLease(t.Context(), got.grant.LeaseID)
	wantKind(t, "revoke without the right", err, vault.KindPermission)
	if !a.exists(t, got.user) {
		t.Error("a revocation that was refused took the account away")
	}
	a.giveBack(t, c, got)
}

func testHealth(t *testing.T, a *admin) {
	c := a.client(t, a.target.RootToken, "")
	h, err := c.Health(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !h.Serves() || h.State != vault.KindNone || h.Status != 200 || h.Version == "" {
		t.Errorf("the health of an active node: %+v", h)
	}
	if off := time.Since(h.ServerTime); off < -2*time.Second || off > 20*time.Second {
		t.Errorf("the server's clock is %s off", off)
	}
}
