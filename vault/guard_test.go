package vault

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestUnfitGuardIsRefusedAndGivenBack(t *testing.T) {
	const good = `"client_token":"hvs.GuardGuardGuard","accessor":"gacc","lease_duration":60,"renewable":true,"token_type":"service","orphan":true,"num_uses":0`
	for name, try := range map[string]struct{ from, to, says string }{
		"batch":         {`"service"`, `"batch"`, "batch"},
		"no accessor":   {`"gacc"`, `""`, "accessor"},
		"no orphan":     {`"orphan":true`, `"orphan":false`, "orphan"},
		"use limit":     {`"num_uses":0`, `"num_uses":1`, "use limit"},
		"not renewable": {`"renewable":true`, `"renewable":false`, "renewable"},
		"endless":       {`"lease_duration":60`, `"lease_duration":0`, "never expire"},
		"odd TTL":       {`"lease_duration":60`, `"lease_duration":-1`, "negative"},
		"no token":      {`"hvs.GuardGuardGuard"`, `""`, "no token"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, says(200, `{"auth":{`+strings.Replace(good, try.from, try.to, 1)+`}}`))
			_, err := f.client(t).CreateGuard(t.Context(), GuardOptions{})
			if !errors.Is(err, ErrGuardUnfit) || !strings.Contains(err.Error(), try.says) {
				t.Errorf("got %v", err)
			}
			want := 1
			if name == "no accessor" {
				want = 0
			}
			if n := len(f.requests("revoke-accessor")); n != want {
				t.Errorf("%d revocations of the unfit guard, want %d", n, want)
			}
		})
	}
	older := newFake(t, says(200, `{"auth":{`+strings.Replace(good, `,"orphan":true`, ``, 1)+`}}`))
	if _, err := older.client(t).CreateGuard(t.Context(), GuardOptions{}); err != nil {
		t.Errorf("a server that does not say orphan: %v", err)
	}
}

func TestGuardForbidden(t *testing.T) {
	f := newFake(t, says(403, `{"errors":["1 error occurred: permission denied"]}`))
	c := f.client(t)
	_, err := c.CreateGuard(t.Context(), GuardOptions{})
	if !errors.Is(err, ErrGuardForbidden) || KindOf(err) != KindPermission {
		t.Errorf("got %v", err)
	}
	for _, other := range []int{400, 429, 500, 503} {
		_, err := newFake(t, says(other, `{"errors":["x"]}`)).client(t).CreateGuard(t.Context(), GuardOptions{})
		if err == nil || errors.Is(err, ErrGuardForbidden) {
			t.Errorf("%d: %v", other, err)
		}
	}
	_, err = f.stranger(t).CreateGuard(t.Context(), GuardOptions{})
	if errors.Is(err, ErrGuardForbidden) || !errors.Is(err, ErrNotLoggedIn) {
		t.Errorf("before the login: %v", err)
	}
	_, err = f.client(t, func(cfg *Config) { cfg.GuardRole = "" }).CreateGuard(t.Context(), GuardOptions{})
	wantKind(t, err, KindInvalid)
	_, err = c.CreateGuard(t.Context(), GuardOptions{TTL: -time.Second})
	wantKind(t, err, KindInvalid)
}
