package conformance

import (
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

func testRabbitMQ(t *testing.T, a *admin) {
	mount := "conf-mq-" + a.suffix
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
