package epochkv

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

func TestE12_RefusedCredentialsAreNeitherContentionNorDeposal(t *testing.T) {
	user := &server.User{Username: "svc", Password: "test-only"}
	var opts *server.Options
	srv := runServer(t, func(o *server.Options) { o.Users = []*server.User{user}; opts = o.Clone() })
	js, clk := connect(t, srv.ClientURL(), nats.UserInfo("svc", "test-only")), newClock()
	allow := func(deny ...string) {
		t.Helper()
		u := &server.User{Username: "svc", Password: "test-only"}
		if len(deny) > 0 {
			u.Permissions = &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{">"}, Deny: deny}}
		}
		before := js.Conn().Stats().Reconnects
		o := opts.Clone()
		o.Users = []*server.User{u}
		if err := srv.ReloadOptions(o); err != nil {
			t.Fatal(err)
		}
		if err := js.Conn().ForceReconnect(); err != nil { // to be given its new permissions
			t.Fatal(err)
		}
		eventually(t, "the client reconnects after the reload", func() bool {
			return js.Conn().Stats().Reconnects > before && js.Conn().IsConnected()
		})
	}
	a := start(t, js, clk, "", func(c *Config) { c.RequestTimeout = 500 * time.Millisecond })
	epoch := a.lead("x")
	if _, paused := a.PausedSince(); paused {
		t.Fatal("paused from the start")
	}

	allow("$KV." + DefaultBucket + ".holder.>")
	first := clk.now()
	for range 2 {
		err := a.Renew(t.Context(), nil)
		if !errors.Is(err, ErrNotAuthorized) || errors.As(err, new(*Fenced)) {
			t.Fatalf("renewal: %v, want ErrNotAuthorized and no deposal", err)
		}
		if strings.Contains(err.Error(), "test-only") {
			t.Errorf("the error tells a password: %v", err)
		}
		if since, paused := a.PausedSince(); !paused || !since.Equal(first) {
			t.Errorf("paused since %s, %v; want the first refusal, %s", since, paused, first)
		}
		clk.advance(heartbeat)
	}
	if a.Held("x") != epoch {
		t.Error("the claim was dropped")
	}

	allow()
	a.renew()
	if since, paused := a.PausedSince(); paused {
		t.Errorf("still paused since %s after a success", since)
	}

	t.Log("reads refused: the same")
	allow("$JS.API.STREAM.MSG.GET.KV_" + DefaultBucket)
	if _, err := a.ClaimStep(t.Context(), "y", 0); !errors.Is(err, ErrNotAuthorized) {
		t.Errorf("claim step: %v", err)
	}
	a.renew() // a write that works says nothing about reads
	if _, paused := a.PausedSince(); !paused {
		t.Error("not paused")
	}
	allow()
	a.step("y")
	if _, paused := a.PausedSince(); paused {
		t.Error("still paused")
	}
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
		time.Sleep(2 * time.Millisecond) // the pace of the poll
	}
}
