package vault

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestC20_RenewalThatAnswersWithAnAPIPathKeepsOurLeaseID(t *testing.T) {
	const ours = "rabbitmq/creds/app/abc"
	for answered, want := range map[string]string{
		"sys/leases/renew/rabbitmq/creds/app/abc": ours,
		"sys/leases/renew":                        ours,
		"/v1/sys/leases/renew/x":                  ours,
		"sys/renew/rabbitmq/creds/app/abc":        ours,
		"auth/token/renew-self/x":                 ours,
		"":                                        ours,
		ours:                                      ours,
		"rabbitmq/creds/app/new":                  "rabbitmq/creds/app/new", // L32: a real new one
	} {
		f := newFake(t, says(200, fmt.Sprintf(`{"lease_id":%q,"lease_duration":60,"renewable":true,"data":null}`, answered)))
		r, err := f.client(t).RenewLease(t.Context(), ours, time.Minute)
		if err != nil || r.LeaseID != want {
			t.Errorf("%q: got %q, %v", answered, r.LeaseID, err)
		}
	}
}

func TestL31_RenewalWithoutDataOrLeaseID(t *testing.T) {
	for body, data := range map[string]string{
		`{"lease_duration":60,"renewable":true}`:                                     "",
		`{"lease_id":null,"lease_duration":60,"data":null}`:                          "",
		`{"lease_id":"l","lease_duration":60,"data":{}}`:                             "",
		`{"lease_id":"l","lease_duration":60,"data":{"username":"u","password": 1}}`: `{"username":"u","password": 1}`, // L33
	} {
		f := newFake(t, says(200, body))
		r, err := f.client(t).RenewLease(t.Context(), "l", 90*time.Minute+time.Millisecond)
		if err != nil || r.LeaseID != "l" || string(r.Data) != data || r.TTL.String() != "60" {
			t.Errorf("%s: %s, data %s, %v", body, r, r.Data, err)
		}
		if sent := f.requests("sys/leases/renew"); len(sent) != 1 || sent[0].body["lease_id"] != "l" || sent[0].body["increment"] != "5401s" {
			t.Errorf("sent %+v", sent)
		}
	}
	// A TTL that is not positive is told, not judged: L9 and L31 are leasecore's.
	f := newFake(t, says(200, `{"lease_id":"l","lease_duration":-1,"data":null}`))
	r, err := f.client(t).RenewLease(t.Context(), "l", time.Hour)
	if err != nil || !r.TTL.IsZero() || r.Suspect == "" {
		t.Errorf("%+v, %v", r, err)
	}
	// C7: 200 without a body.
	_, err = newFake(t, says(200, "")).client(t).RenewLease(t.Context(), "l", time.Hour)
	wantKind(t, err, KindMalformed)
	if !KindOf(err).Refusal() {
		t.Error("L34: a renewal answered with nothing is no refusal")
	}
}

// goneLeases is how servers say that a lease is gone, as seen in the field.
var goneLeases = map[string]struct {
	status int
	body   string
}{
	"400 lease not found":      {400, `{"errors":["lease not found"]}`},
	"400 invalid lease":        {400, `{"errors":["invalid lease"]}`},
	"400 lease expired":        {400, `{"errors":["1 error occurred:\n\t* lease expired\n\n"]}`},
	"404 lease not found":      {404, `{"errors":["lease not found"]}`},
	"404 without a word":       {404, `{"errors":[]}`},
	"500 lease not found":      {500, `{"errors":["failed to revoke: lease not found"]}`},
	"400 with a lease in case": {400, `{"errors":["Lease not found or lease is not renewable"]}`},
}

// otherRefusals must not be taken for "gone".
var otherRefusals = map[string]struct {
	status int
	body   string
	kind   Kind
}{
	"400 something else":   {400, `{"errors":["missing lease_id"]}`, KindRefused},
	"403":                  {403, `{"errors":["permission denied"]}`, KindPermission},
	"404 of a proxy":       {404, `<html>lease not found</html>`, KindMalformed},
	"404 wrong route":      {404, `{"errors":["no handler for route \"sys/leases/revoke\""]}`, KindRefused},
	"404 wrong namespace":  {404, `{"errors":["namespace not found"]}`, KindRefused},
	"500 database is down": {500, `{"errors":["failed to revoke entry: connection refused"]}`, KindTransient},
	"503":                  {503, `{"errors":["Vault is sealed"]}`, KindSealed},
}

func TestC40_C14_WhatIsGoneIsToldFromWhatIsRefused(t *testing.T) {
	for name, try := range goneLeases {
		f := newFake(t, says(try.status, try.body))
		c := f.client(t)
		if gone, err := c.RevokeLease(t.Context(), "l"); err != nil || !gone {
			t.Errorf("revoke, %s: gone %t, %v", name, gone, err)
		}
		_, err := c.RenewLease(t.Context(), "l", time.Hour)
		if KindOf(err) != KindNotFound {
			t.Errorf("renew, %s: %v", name, err)
		}
		_, err = c.LookupLease(t.Context(), "l")
		if KindOf(err) != KindNotFound {
			t.Errorf("look up, %s: %v", name, err)
		}
	}
	for name, try := range otherRefusals {
		f := newFake(t, says(try.status, try.body))
		c := f.client(t)
		if gone, err := c.RevokeLease(t.Context(), "l"); KindOf(err) != try.kind || gone {
			t.Errorf("revoke, %s: gone %t, %v", name, gone, err)
		}
		if gone, err := c.RevokeGuard(t.Context(), "acc"); KindOf(err) != try.kind || gone {
			t.Errorf("revoke guard, %s: gone %t, %v", name, gone, err)
		}
	}
}

func TestC40_GuardThatIsGone(t *testing.T) {
	for _, try := range []struct {
		status int
		body   string
	}{
		{400, `{"errors":["1 error occurred:\n\t* invalid accessor\n\n"]}`},
		{403, `{"errors":["invalid accessor"]}`},
		{404, `{"errors":[]}`},
		{200, `{"data":null,"warnings":["No token found with this accessor"]}`},
	} {
		f := newFake(t, says(try.status, try.body))
		c := f.client(t)
		if gone, err := c.RevokeGuard(t.Context(), "acc"); err != nil || !gone {
			t.Errorf("%d %s: gone %t, %v", try.status, try.body, gone, err)
		}
		if try.status != 200 {
			_, err := c.ExtendGuard(t.Context(), "acc", time.Hour)
			wantKind(t, err, KindNotFound)
			_, err = c.LookupGuard(t.Context(), "acc")
			wantKind(t, err, KindNotFound)
		}
	}
	for _, try := range []struct {
		status int
		body   string
	}{{204, ""}, {200, `{"data":null}`}} {
		if gone, err := newFake(t, says(try.status, try.body)).client(t).RevokeGuard(t.Context(), "acc"); err != nil || gone {
			t.Errorf("a guard that was revoked just now: gone %t, %v", gone, err)
		}
	}
}

func TestL27_RevokedAndNotFoundAreBothSuccess(t *testing.T) {
	f := newFake(t, says(204, ""))
	if gone, err := f.client(t).RevokeLease(t.Context(), "db/creds/app/1"); err != nil || gone {
		t.Errorf("204: gone %t, %v", gone, err)
	}
	sent := f.requests("sys/leases/revoke")
	if len(sent) != 1 || sent[0].body["lease_id"] != "db/creds/app/1" || sent[0].body["sync"] != true {
		t.Errorf("sent %+v", sent)
	}
	if gone, err := newFake(t, says(404, `{"errors":["lease not found"]}`)).client(t).RevokeLease(t.Context(), "l"); err != nil || !gone {
		t.Errorf("not found: gone %t, %v", gone, err)
	}
}

func TestC41_NothingIsSentWithoutAnID(t *testing.T) {
	f := newFake(t, says(204, ""))
	c := f.client(t)
	_, err := c.RevokeLease(t.Context(), "")
	if !errors.Is(err, ErrEmptyLeaseID) || KindOf(err) != KindInvalid {
		t.Errorf("revoke: %v", err)
	}
	_, err = c.RenewLease(t.Context(), "", time.Hour)
	if !errors.Is(err, ErrEmptyLeaseID) {
		t.Errorf("renew: %v", err)
	}
	if _, err = c.LookupLease(t.Context(), ""); !errors.Is(err, ErrEmptyLeaseID) {
		t.Errorf("look up: %v", err)
	}
	if _, err = c.RevokeGuard(t.Context(), ""); !errors.Is(err, ErrEmptyAccessor) {
		t.Errorf("revoke guard: %v", err)
	}
	if _, err = c.ExtendGuard(t.Context(), "", time.Hour); !errors.Is(err, ErrEmptyAccessor) {
		t.Errorf("extend guard: %v", err)
	}
	if _, err = c.LookupGuard(t.Context(), ""); !errors.Is(err, ErrEmptyAccessor) {
		t.Errorf("look up guard: %v", err)
	}
	for _, d := range []time.Duration{0, -1} {
		_, err = c.RenewLease(t.Context(), "l", d)
		wantKind(t, err, KindInvalid)
		_, err = c.ExtendGuard(t.Context(), "acc", d)
		wantKind(t, err, KindInvalid)
	}
	if n := len(f.requests("")); n != 1 {
		t.Errorf("%d requests arrived, only the login was to", n)
	}
}

func TestC27_NamespaceIsOnEveryRequest(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"lease_id":"l","lease_duration":60,"renewable":true,"data":{"ttl":60},"auth":{"client_token":"hvs.GuardGuardGuard","accessor":"acc","lease_duration":60,"renewable":true,"token_type":"service","orphan":true}}`)
	})
	c := f.client(t, func(cfg *Config) { cfg.Namespace = "team/a" })
	g, err := c.CreateGuard(t.Context(), GuardOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, e1 := c.Read(t.Context(), "db/creds/app", &g, ReadOptions{})
	_, e2 := c.ExtendGuard(t.Context(), "acc", time.Hour)
	_, e3 := c.RenewLease(t.Context(), "l", time.Hour)
	_, e4 := c.LookupLease(t.Context(), "l")
	_, e5 := c.LookupGuard(t.Context(), "acc")
	_, e6 := c.RevokeLease(t.Context(), "l")
	_, e7 := c.RevokeGuard(t.Context(), "acc")
	e8 := c.renewSelf(t.Context(), c.token)
	if err := errors.Join(e1, e2, e3, e4, e5, e6, e7, e8); err != nil {
		t.Fatal(err)
	}
	seen := f.requests("")
	if len(seen) != 10 {
		t.Fatalf("%d requests arrived, 10 were to", len(seen))
	}
	for _, r := range seen {
		if r.namespace != "team/a" || r.header.Get("X-Vault-Request") != "true" {
			t.Errorf("%s %s came in namespace %q", r.method, r.path, r.namespace)
		}
		want := plainToken
		if strings.Contains(r.path, "creds") {
			want = "hvs.GuardGuardGuard"
		}
		if r.token != want {
			t.Errorf("%s came with another token than it should", r.path)
		}
	}
	if g := f.requests("create/guard"); g[0].body["ttl"] != "60s" {
		t.Errorf("the guard was asked for with %v", g[0].body)
	}
}
