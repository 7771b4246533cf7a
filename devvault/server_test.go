package devvault_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/secret"
)

// raw makes an HTTP request over the network.
func raw(t *testing.T, v *vault, method, path, token, body string, header ...string) (*http.Response, string, error) {
	t.Helper()
	if v.URL() == "" {
		if err := v.Start("127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, v.URL()+"/v1/"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("X-Vault-Token", token)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return resp, string(b), err
}

func TestAnswersOverHTTP(t *testing.T) {
	v := newVault(t)
	root := v.RootToken().Reveal()
	for _, c := range []struct {
		method, path, token, body string
		status                    int
		want                      string
	}{
		{"GET", "auth/token/lookup-self", "nope", "", 403, `{"errors":["permission denied"]}`},
		{"GET", "auth/token/lookup-self", "", "", 403, `{"errors":["permission denied"]}`},
		{"GET", "kv/none", root, "", 404, `{"errors":[]}`},
		{"GET", "nowhere/x", root, "", 404, `{"errors":["no handler for route \"nowhere/x\". route entry not found."]}`},
		{"GET", "auth/token/create", root, "", 405, `{"errors":["1 error occurred:\n\t* unsupported operation\n\n"]}`},
		{"GET", "sys/nope", root, "", 404, `{"errors":["1 error occurred:\n\t* unsupported path\n\n"]}`},
		{"POST", "kv/a", root, `{"a":`, 400, `{"errors":["failed to decode JSON input"]}`},
		{"POST", "kv/a", root, `{"a":1}`, 204, ""},
		{"PUT", "sys/leases/revoke", root, `{"lease_id":"x","sync":false}`, 202, ""},
		{"PUT", "sys/leases/revoke", root, `{"lease_id":"x"}`, 204, ""},
		{"POST", "sys/health", "", "", 405, `{"errors":[]}`},
		{"GET", "sys/health?standbyok=true&activecode=299", "", "", 299, ""},
		{"GET", "sys/health?standbyok=perhaps", "", "", 400, `{"errors":[]}`},
		{"BREW", "kv/a", root, "", 405, `{"errors":[]}`},
		{"POST", "sys/mounts/kv", root, `{"type":"kv"}`, 400, `{"errors":["path is already in use at kv/"]}`},
	} {
		resp, body, err := raw(t, v, c.method, c.path, c.token, c.body)
		if err != nil {
			t.Fatal(err)
		}
		if body = strings.TrimSuffix(body, "\n"); resp.StatusCode != c.status || c.want != "" && body != c.want || c.status == 204 && body != "" {
			t.Errorf("%s %s: %d %s, want %d %s", c.method, c.path, resp.StatusCode, body, c.status, c.want)
		}
		if resp.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s %s: an answer that may be cached", c.method, c.path)
		}
	}
	// A bearer token does as well.
	if resp, _, err := raw(t, v, "GET", "auth/token/lookup-self", "", "", "Authorization", "Bearer "+root); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("bearer: %v %v", resp, err)
	}
}

func TestSealed(t *testing.T) {
	v := newVault(t)
	c := v.creds(v.RootToken())
	v.Seal()
	root := v.RootToken().Reveal()
	resp, body, _ := raw(t, v, "GET", "auth/token/lookup-self", root, "")
	if resp.StatusCode != http.StatusServiceUnavailable || strings.TrimSpace(body) != `{"errors":["Vault is sealed"]}` {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	resp, body, _ = raw(t, v, "GET", "sys/health", "", "")
	var health map[string]any
	if err := json.Unmarshal([]byte(body), &health); err != nil || resp.StatusCode != http.StatusServiceUnavailable || health["sealed"] != true || health["cluster_id"] != nil {
		t.Fatalf("health: %d %s", resp.StatusCode, body)
	}
	if resp, body, _ = raw(t, v, "GET", "sys/seal-status", "", ""); resp.StatusCode != http.StatusOK || !strings.Contains(body, `"sealed":true`) {
		t.Fatalf("seal-status: %d %s", resp.StatusCode, body)
	}
	v.pass(2 * time.Minute)
	v.wantAccounts(1, "nothing expires while sealed")
	v.Unseal()
	v.pass(0)
	v.wantAccounts(0, "what ran out meanwhile goes")
	v.refused(v.RootToken(), "PUT", "sys/leases/renew", map[string]any{"lease_id": c.lease}, 400, "lease not found")
}

func TestRequestLogHoldsNoSecret(t *testing.T) {
	v := newVault(t)
	g := v.token(v.RootToken(), "auth/token/create/guard", nil)
	if _, _, err := raw(t, v, "GET", "database/creds/app", g.token.Reveal(), "", "X-Vault-Namespace", "team/a"); err != nil {
		t.Fatal(err)
	}
	_, _, _ = raw(t, v, "GET", "kv/x", "not-a-token", "")
	// An answer can arrive before its line is in the log.
	deadline := time.Now().Add(5 * time.Second)
	for len(v.Requests()) < 2 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	got := v.Requests()
	if len(got) != 2 {
		t.Fatalf("log: %+v", got)
	}
	if r := got[0]; r.Method != http.MethodGet || r.Path != "database/creds/app" || r.Namespace != "team/a" || r.Accessor != g.accessor || r.Status != http.StatusOK || r.Fault {
		t.Errorf("log: %+v", r)
	}
	if r := got[1]; r.Accessor != "" || r.Status != 403 {
		t.Errorf("log: %+v", r)
	}
	all, err := json.Marshal([]any{got, v.Leases(), v.Tokens(), v.Counters()})
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []secret.String{g.token, v.RootToken(), secret.New("not-a-token")} {
		if strings.Contains(string(all), token.Reveal()) {
			t.Errorf("a token is in a log or snapshot: %s", all)
		}
	}
	if v.Count("GET", "database/*") != 1 || v.Count("", "*") != 2 || v.Count("POST", "*") != 0 {
		t.Error("counts are wrong")
	}
}

func TestClosed(t *testing.T) {
	v := newVault(t)
	if err := v.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	v.Close()
	if _, err := v.Do(context.Background(), "GET", "sys/mounts", nil); !errors.Is(err, devvault.ErrClosed) {
		t.Errorf("Do: %v", err)
	}
	if err := v.Start("127.0.0.1:0"); !errors.Is(err, devvault.ErrClosed) {
		t.Errorf("Start: %v", err)
	}
	v.Close() // twice is once
}

func TestRealClockExpires(t *testing.T) {
	v := newVault(t, func(c *devvault.Config) {
		c.Clock = nil
		c.Accounts = &devvault.Directory{}
	})
	v.ok("POST", "database/roles/app", map[string]any{"default_ttl": 1, "max_ttl": 1})
	v.creds(v.RootToken())
	v.wantAccounts(1, "at first")
	deadline := time.Now().Add(10 * time.Second)
	for len(v.Leases()) > 0 {
		if time.Now().After(deadline) {
			t.Fatal("the lease outlived its second by nine")
		}
		time.Sleep(5 * time.Millisecond)
	}
	v.wantAccounts(0, "after its second")
}
