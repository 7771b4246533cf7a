package conformance

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/vault"
)

// management is as much of RabbitMQ's management API as the engine uses.
type management struct {
	*httptest.Server
	mu    sync.Mutex
	users []string
}

func newManagement(t *testing.T) *management {
	t.Helper()
	m := &management{}
	m.Server = httptest.NewServer(http.HandlerFunc(m.serve))
	t.Cleanup(m.Close)
	return m
}

func (m *management) serve(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, _ = io.Copy(io.Discard, r.Body)
	user, isUser := strings.CutPrefix(r.URL.Path, "/api/users/")
	switch {
	case r.Method == http.MethodGet && (r.URL.Path == "/api/users" || r.URL.Path == "/api/users/"):
		_, _ = io.WriteString(w, `[{"name":"guest","tags":"administrator"}]`)
	case r.Method == http.MethodGet:
		_, _ = io.WriteString(w, `{"name":"guest","rabbitmq_version":"4.1.0"}`)
	case r.Method == http.MethodPut:
		if isUser {
			m.users = append(m.users, user)
		}
		w.WriteHeader(http.StatusCreated)
	case r.Method == http.MethodDelete && isUser:
		m.users = slices.DeleteFunc(m.users, func(u string) bool { return u == user })
		w.WriteHeader(http.StatusNoContent)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

func (m *management) has(user string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Contains(m.users, user)
}

// testRabbitMQStrange uses a management API that answers as little as the engine
// needs.
func testRabbitMQStrange(t *testing.T, a *admin) {
	mount := "conf-mq2-" + a.suffix
	a.mount(t, mount, "rabbitmq", nil)
	m := newManagement(t)
	a.must(t, "POST", mount+"/config/connection", map[string]any{"connection_uri": m.URL, "username": "guest", "password": "guest"})
	a.must(t, "POST", mount+"/config/lease", map[string]any{"ttl": "1h", "max_ttl": "24h"})
	a.must(t, "POST", mount+"/roles/app", map[string]any{"vhosts": `{"/":{"configure":"","write":".*","read":".*"}}`})
	c := a.client(t, a.target.RootToken, "")
	g, err := c.Read(t.Context(), mount+"/creds/app", nil, vault.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	user := userOf(t, g)
	if !strings.HasPrefix(g.LeaseID, mount+"/creds/app/") || g.TTL.Std() != time.Hour || !g.Renewable || !m.has(user) {
		t.Errorf("%s, renewable %t, the user is there %t", g, g.Renewable, m.has(user))
	}
	r, err := c.RenewLease(t.Context(), g.LeaseID, 2*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if r.LeaseID != g.LeaseID || r.TTL.IsZero() {
		t.Errorf("C20: renewed as %s", r)
	}
	t.Logf("renewed by 2 h: %s s granted, data %t, warnings %q", r.TTL, r.Data != nil, r.Warnings)
	if _, err := c.RevokeLease(t.Context(), g.LeaseID, vault.Verified()); err != nil {
		t.Error(err)
	}
	if m.has(user) {
		t.Error("the user is there after its lease was revoked synchronously")
	}
}

// testRabbitMQ makes users in a real broker.
func testRabbitMQ(t *testing.T, a *admin) {
	mount, broker := "conf-mq-"+a.suffix, a.target.RabbitMQ
	a.mount(t, mount, "rabbitmq", nil)
	a.must(t, "POST", mount+"/config/connection", map[string]any{"connection_uri": broker.Address, "username": broker.User, "password": broker.Password.Reveal()})
	a.must(t, "POST", mount+"/config/lease", map[string]any{"ttl": "1h", "max_ttl": "24h"})
	a.must(t, "POST", mount+"/roles/app", map[string]any{"vhosts": `{"/":{"configure":"","write":".*","read":".*"}}`})
	a.proves(t, broker, mount+"/creds/app")
}

// proves takes a credential of a backend through its life: it works, works after a
// renewal, and does not after its revocation, nor after its guard's end.
func (a *admin) proves(t *testing.T, b Backend, path string) {
	t.Helper()
	policy := a.policy("backend")
	a.must(t, "PUT", "sys/policies/acl/"+policy, map[string]any{"policy": `path "` + path + `" { capabilities = ["read"] }`})
	t.Cleanup(func() { a.must(t, "DELETE", "sys/policies/acl/"+policy, nil) })
	c := a.service(t, a.tokenRole(t, "backend", map[string]any{"allowed_policies": policy}))
	acquire := func() (vault.Guard, vault.Grant, func() error) {
		t.Helper()
		g, err := c.CreateGuard(t.Context(), vault.GuardOptions{TTL: 6 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		grant, err := c.Read(t.Context(), path, &g, vault.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		user, password := userOf(t, grant), passwordOf(t, grant)
		return g, grant, func() error { return b.Login(t.Context(), user, password) }
	}
	_, lost, loginLost := acquire()
	if err := loginLost(); err != nil {
		t.Fatalf("a fresh account: %v", err)
	}
	g, grant, login := acquire()
	if _, err := c.ExtendGuard(t.Context(), g.Accessor, time.Hour); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(grant.LeaseID, path+"/") || grant.TTL.Std() != time.Hour || !grant.Renewable {
		t.Errorf("%s, renewable %t", grant, grant.Renewable)
	}
	if err := login(); err != nil {
		t.Errorf("a fresh account: %v", err)
	}
	r, err := c.RenewLease(t.Context(), grant.LeaseID, 2*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if r.LeaseID != grant.LeaseID || r.TTL.IsZero() {
		t.Errorf("C20: renewed as %s", r)
	}
	t.Logf("renewed by 2 h: %s s granted, data %t, warnings %q", r.TTL, r.Data != nil, r.Warnings)
	eventually(t, "the account of an unextended guard is gone", func() bool { return loginLost() != nil })
	// A server takes the account away before it forgets the lease.
	eventually(t, "the lease of an unextended guard is gone", func() bool {
		_, err := c.LookupLease(t.Context(), lost.LeaseID)
		return vault.KindOf(err) == vault.KindNotFound
	})
	if err := login(); err != nil {
		t.Errorf("after a renewal: %v", err)
	}
	if _, err := c.RevokeLease(t.Context(), grant.LeaseID, vault.Verified()); err != nil {
		t.Error(err)
	}
	if login() == nil {
		t.Error("the account works after its lease was revoked synchronously")
	}
	if _, err := c.RevokeGuard(t.Context(), g.Accessor); err != nil {
		t.Error(err)
	}
}

func passwordOf(t *testing.T, grant vault.Grant) string {
	t.Helper()
	var data struct{ Password string }
	if err := json.Unmarshal(grant.Data, &data); err != nil {
		t.Fatal("the credential's data can't be read")
	}
	return data.Password
}
