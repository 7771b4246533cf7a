package itest

import (
	"context"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/service/api"
)

// TestE12_RefusedCredentialsArePaused: while Vault refuses our token the service
// leads on and serves what is active, says since when it is refused, and goes on
// by itself once it has a token that is accepted.
func TestE12_RefusedCredentialsArePaused(t *testing.T) {
	t.Parallel()
	r := newRig(t, startDevvault, "1h", "2h")
	r.write("definitions.yaml", quietDefinitions)
	r.start("a")
	first := r.leads(0)
	r.awaitEvent(events.TypeInstalled, 0, 60*time.Second)

	r.vault.must(t, "POST", "auth/token/revoke", map[string]any{"token": r.token})
	r.rotate()
	refused := r.awaitEvent(events.TypeAcquireFailed, 0, 60*time.Second)
	if kind := refused.Data.(*events.AcquireFailed).Kind; kind != "permission" {
		t.Errorf("the failure's kind is %q", kind)
	}
	var since time.Time
	await(t, 60*time.Second, "the pause to be shown", func() bool {
		v := r.status().Vaults[0]
		since = v.PausedSince
		return !since.IsZero()
	})
	if again := r.status(); again.Epoch != first || again.Usable != 1 || !again.Vaults[0].PausedSince.Equal(since) {
		t.Errorf("paused since %s: %+v", since, again)
	}

	r.write("token", r.newToken())
	await(t, 90*time.Second, "the pause to end", func() bool { return r.status().Vaults[0].PausedSince.IsZero() })
	before, _ := r.read()
	await(t, 90*time.Second, "a rotation to go through", func() bool {
		log, _ := r.read()
		if count(log, events.TypeInstalled, before[len(before)-1].Seq) > 0 {
			return true
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, _ = r.api.Rotate(ctx, scope, "orders") // refused until the back-off is over
		return false
	})
}

func (r *rig) status() api.Status {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	st, err := r.api.Status(ctx, scope)
	if err != nil {
		r.t.Fatal(err)
	}
	return st
}

// newToken makes another token of the service's own.
func (r *rig) newToken() string {
	r.t.Helper()
	token := r.vault.serviceToken(r.t)
	r.secret("another token of the service", token)
	return token
}
