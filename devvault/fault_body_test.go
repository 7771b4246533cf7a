package devvault_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/devvault"
)

func TestWrongTypes(t *testing.T) {
	for _, c := range []struct {
		set  map[string]any
		want string
	}{
		{map[string]any{"lease_duration": "soon"}, `"lease_duration":"soon"`},
		{map[string]any{"data.password": 5}, `"password":5`},
		{map[string]any{"data": []int{1}}, `"data":[1]`},
		{map[string]any{"data": nil}, `"data":null`},
		{map[string]any{"lease_id": map[string]any{"a": true}}, `"lease_id":{"a":true}`},
		{map[string]any{"renewable": "yes", "auth.client_token": false}, `"renewable":"yes"`},
		{map[string]any{"warnings": "one"}, `"warnings":"one"`},
		{map[string]any{"lease_duration": json.RawMessage("1e400")}, `"lease_duration":1e400`},
	} {
		v := newVault(t)
		f := v.Inject(devvault.Fault{Path: credsPath, Times: 1, Set: c.set})
		resp, body, err := readCreds(t, v)
		if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(body, c.want) || !json.Valid([]byte(body)) {
			t.Errorf("%v: %v %s", c.set, err, body)
		}
		if f.Hits() != 1 {
			t.Errorf("%v: %d hits", c.set, f.Hits())
		}
		v.wantAccounts(1, "a fault in the answer has its effect")
	}
}

// slowly reads credentials until what comes first of the body is there, and
// returns the answer with its rest unread.
func slowly(ctx context.Context, t *testing.T, v *vault) (*http.Response, *bufio.Reader) {
	t.Helper()
	if v.URL() == "" {
		if err := v.Start("127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, v.URL()+"/v1/"+credsPath, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Vault-Token", v.RootToken().Reveal())
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	body := bufio.NewReader(resp.Body)
	if _, err := body.Peek(1); err != nil {
		t.Fatalf("no body at all: %v", err)
	}
	return resp, body
}

func TestSlowBody(t *testing.T) {
	v := newVault(t)
	f := v.Inject(devvault.Fault{Path: credsPath, SlowBody: 50 * time.Millisecond, Times: 1})
	began := time.Now()
	resp, rest := slowly(t.Context(), t, v)
	body, err := io.ReadAll(rest)
	_ = resp.Body.Close()
	if err != nil || !json.Valid(body) || time.Since(began) < 50*time.Millisecond {
		t.Errorf("after %v: %v, %d bytes", time.Since(began), err, len(body))
	}
	if f.Hits() != 1 {
		t.Errorf("%d hits", f.Hits())
	}
}

func TestSlowBodyEndsWithItsClientAndWithTheServer(t *testing.T) {
	v := newVault(t)
	v.Inject(devvault.Fault{Path: credsPath, SlowBody: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	resp, rest := slowly(ctx, t, v)
	cancel()
	if _, err := io.ReadAll(rest); !errors.Is(err, context.Canceled) {
		t.Errorf("the client left: %v", err)
	}
	_ = resp.Body.Close()

	resp, rest = slowly(t.Context(), t, v)
	v.Close() // waits for the handler
	if _, err := io.ReadAll(rest); err == nil {
		t.Error("the server closed, and the body ended well")
	}
	_ = resp.Body.Close()
	v.wantAccounts(2, "a slow body has its effect")
}

func TestCutBody(t *testing.T) {
	v := newVault(t)
	v.Inject(devvault.Fault{Path: credsPath, CutBody: true})
	resp, rest := slowly(t.Context(), t, v)
	body, err := io.ReadAll(rest)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK || !errors.Is(err, io.ErrUnexpectedEOF) || int64(len(body)) >= resp.ContentLength {
		t.Errorf("%d, %d of %d bytes, %v", resp.StatusCode, len(body), resp.ContentLength, err)
	}
	v.wantAccounts(1, "a cut body has its effect")
}

func TestFaultOnALogin(t *testing.T) {
	v := newVault(t)
	roleID := v.appRole(nil)
	v.Inject(devvault.Fault{Path: "auth/approle/login", DropAfter: true, Times: 1})
	tokens := len(v.Tokens())
	body := `{"role_id":"` + roleID + `","secret_id":"` + v.secretID(nil) + `"}`
	if _, _, err := raw(t, v, "POST", "auth/approle/login", "", body); err == nil {
		t.Fatal("answered")
	}
	if n := len(v.Tokens()); n != tokens+1 {
		t.Errorf("%d tokens, want one that nobody knows", n-tokens)
	}
	if resp, _, err := raw(t, v, "POST", "auth/approle/login", "", body); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("the next one: %v", err)
	}
}
