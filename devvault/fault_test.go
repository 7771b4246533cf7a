package devvault_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/devvault"
)

const credsPath = "database/creds/app"

// readCreds reads credentials over the network, as root.
func readCreds(t *testing.T, v *vault) (*http.Response, string, error) {
	t.Helper()
	return raw(t, v, "GET", credsPath, v.RootToken().Reveal(), "")
}

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name     string
		fault    devvault.Fault
		status   int // 0: no answer
		body     string
		accounts int
	}{
		{"status", devvault.Fault{Status: 429, Body: `{"errors":["quota"]}`, Header: http.Header{"Retry-After": {"7"}}}, 429, `{"errors":["quota"]}`, 0},
		{"status after the effect", devvault.Fault{Status: 500, Effect: true}, 500, "", 1},
		{"drop before", devvault.Fault{DropBefore: true}, 0, "", 0},
		{"drop after", devvault.Fault{DropAfter: true}, 0, "", 1},
		{"delay", devvault.Fault{Delay: time.Millisecond}, 200, `"lease_duration":60`, 1},
		{"header only", devvault.Fault{Header: http.Header{"Retry-After": {"7"}}}, 200, `"lease_duration":60`, 1},
		{"TTL negative", devvault.Fault{TTL: -1}, 200, `"lease_duration":-1`, 1},
		{"TTL as text", devvault.Fault{TTL: "3600"}, 200, `"lease_duration":"3600"`, 1},
		{"TTL with an exponent", devvault.Fault{TTL: json.Number("1e3")}, 200, `"lease_duration":1e3`, 1},
		{"TTL with a fraction", devvault.Fault{TTL: json.RawMessage("3600.0")}, 200, `"lease_duration":3600.0`, 1},
		{"TTL null", devvault.Fault{TTL: json.RawMessage("null")}, 200, `"lease_duration":null`, 1},
		{"do", devvault.Fault{Do: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			next.ServeHTTP(w, r)
			next.ServeHTTP(discard{w.Header()}, r)
		}}, 200, `"lease_duration":60`, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := newVault(t)
			c.fault.Method, c.fault.Path, c.fault.Times = "GET", "/v1/database/creds/*", 1
			f := v.Inject(c.fault)
			resp, body, err := readCreds(t, v)
			switch {
			case c.status == 0:
				if err == nil {
					t.Fatalf("answered %d %s", resp.StatusCode, body)
				}
			case err != nil:
				t.Fatal(err)
			case resp.StatusCode != c.status || !strings.Contains(body, c.body):
				t.Fatalf("%d %s, want %d %s", resp.StatusCode, body, c.status, c.body)
			}
			if want := c.fault.Header.Get("Retry-After"); want != "" && resp.Header.Get("Retry-After") != want {
				t.Errorf("Retry-After %q", resp.Header.Get("Retry-After"))
			}
			v.wantAccounts(c.accounts, "after the fault")
			if f.Hits() != 1 {
				t.Fatalf("%d hits, want 1", f.Hits())
			}
			if resp, body, err := readCreds(t, v); err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(body, `"lease_duration":60`) {
				t.Fatalf("the next request was hit too: %v %s %v", resp, body, err)
			}
		})
	}
}

type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)               {}

func TestGarbageHasItsEffect(t *testing.T) {
	v := newVault(t)
	f := v.Inject(devvault.Fault{Path: credsPath, Garbage: true})
	_, body, err := readCreds(t, v)
	if err != nil || json.Valid([]byte(body)) {
		t.Fatalf("valid JSON, or %v", err)
	}
	v.wantAccounts(1, "after garbage")
	f.Remove()
	if _, body, _ := readCreds(t, v); !json.Valid([]byte(body)) {
		t.Fatal("still garbage after Remove")
	}
	if f.Hits() != 1 {
		t.Errorf("%d hits", f.Hits())
	}
}

func TestFaultsAreChosenByMethodPathAndAge(t *testing.T) {
	v := newVault(t)
	post := v.Inject(devvault.Fault{Method: "POST", Path: "database/*", Status: 500})
	other := v.Inject(devvault.Fault{Path: "kv/*", Status: 500})
	first := v.Inject(devvault.Fault{Path: "*creds*", Status: 501, Times: 2})
	second := v.Inject(devvault.Fault{Status: 502})
	for _, want := range []int{501, 501, 502, 502} {
		if resp, _, err := readCreds(t, v); err != nil || resp.StatusCode != want {
			t.Fatalf("%v %v, want %d", resp, err, want)
		}
	}
	if h := [4]int{post.Hits(), other.Hits(), first.Hits(), second.Hits()}; h != [4]int{0, 0, 2, 2} {
		t.Errorf("hits: %v", h)
	}
	v.ok("GET", credsPath, nil) // Do is never hit
}

func TestTTLInAnAuthBlock(t *testing.T) {
	v := newVault(t)
	v.Inject(devvault.Fault{Path: "auth/token/create/*", TTL: 9_300_000_000})
	_, body, err := raw(t, v, "POST", "auth/token/create/guard", v.RootToken().Reveal(), `{"ttl":"60s"}`)
	var out struct {
		LeaseDuration json.Number `json:"lease_duration"`
		Auth          struct {
			LeaseDuration json.Number `json:"lease_duration"`
		} `json:"auth"`
	}
	if err != nil || json.Unmarshal([]byte(body), &out) != nil || out.Auth.LeaseDuration != "9300000000" || out.LeaseDuration != "0" {
		t.Fatalf("%v %+v", err, out)
	}
}

func TestCloseEndsADelay(t *testing.T) {
	v := newVault(t)
	f := v.Inject(devvault.Fault{Delay: time.Hour})
	if err := v.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error)
	go func() {
		_, _, err := readCreds(t, v)
		failed <- err
	}()
	for deadline := time.Now().Add(5 * time.Second); f.Hits() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the request did not arrive")
		}
	}
	v.Close()
	if err := <-failed; err == nil {
		t.Error("answered")
	}
	v.wantAccounts(0, "a request that was held has no effect")
}

// An observation that every client of this API must know: net/http sends a
// GET again by itself when a connection it used before is closed without an
// answer. A credential read is a GET, and makes an account each time.
func TestNetHTTPRepeatsAReadWhoseAnswerIsLostOnAUsedConnection(t *testing.T) {
	v := newVault(t)
	if err := v.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	get := func(path string) error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, v.URL()+"/v1/"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Vault-Token", v.RootToken().Reveal())
		resp, err := (&http.Client{Transport: transport}).Do(r)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.Body.Close()
	}
	if err := get("sys/health"); err != nil {
		t.Fatal(err)
	}
	f := v.Inject(devvault.Fault{Path: credsPath, DropAfter: true, Times: 1})
	if err := get(credsPath); err != nil {
		t.Fatalf("net/http did not repeat the read (has it changed?): %v", err)
	}
	if f.Hits() != 1 {
		t.Fatalf("%d hits", f.Hits())
	}
	v.wantAccounts(2, "one read by the caller's count")
}
