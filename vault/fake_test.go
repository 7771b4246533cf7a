package vault

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/secret"
)

// plainToken is the token of all tests here; nothing may print it.
const plainToken = "hvs.CAESIJlongT0kenValue1234567890"

// arrived is a request as the server saw it.
type arrived struct {
	method, path, query, token, namespace string
	header                                http.Header
	body                                  map[string]any
}

// fake is a server that answers as a test says and remembers what arrived.
type fake struct {
	*httptest.Server
	pipes *pipes // how it is dialled; nil: over TCP

	mu   sync.Mutex
	seen []arrived
	log  bytes.Buffer
}

const lookupSelf = "/v1/auth/token/lookup-self"

// newFake answers a look-up of our own token, and everything else by handle.
func newFake(t *testing.T, handle http.HandlerFunc) *fake {
	t.Helper()
	f := &fake{}
	f.Server = httptest.NewUnstartedServer(f.answers(handle))
	f.Start()
	t.Cleanup(f.Close)
	return f
}

func (f *fake) answers(handle http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.note(r)
		if r.URL.Path == lookupSelf {
			_, _ = io.WriteString(w, selfAnswer(3600, 0))
			return
		}
		handle(w, r)
	})
}

func selfAnswer(ttl, uses int) string {
	return fmt.Sprintf(`{"data":{"accessor":"acc","creation_ttl":%d,"ttl":%d,"renewable":true,"num_uses":%d,"orphan":true,"type":"service","policies":["p"]}}`, ttl, ttl, uses)
}

func (f *fake) note(r *http.Request) {
	a := arrived{method: r.Method, path: r.URL.Path, query: r.URL.RawQuery, token: r.Header.Get("X-Vault-Token"), namespace: r.Header.Get("X-Vault-Namespace"), header: r.Header.Clone()}
	body, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(body, &a.body)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, a)
}

// requests gives what arrived at paths that contain part.
func (f *fake) requests(part string) []arrived {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []arrived
	for _, a := range f.seen {
		if strings.Contains(a.path, part) {
			out = append(out, a)
		}
	}
	return out
}

func (f *fake) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log.Write(p)
}

func (f *fake) logged() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log.String()
}

// client makes a client of f that is logged in.
func (f *fake) client(t *testing.T, with ...func(*Config)) *Client {
	t.Helper()
	c := f.stranger(t, with...)
	if err := c.Login(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// stranger makes a client of f that is not logged in.
func (f *fake) stranger(t *testing.T, with ...func(*Config)) *Client {
	t.Helper()
	cfg := Config{
		Name: "main", Address: f.URL, Token: secret.New(plainToken), GuardRole: "guard", OpTimeout: 5 * time.Second,
		Logger: slog.New(slog.NewJSONHandler(f, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, w := range with {
		w(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if f.pipes != nil {
		for _, transport := range c.transports {
			transport.DialContext = f.pipes.dial
		}
	}
	return c
}

// says answers every request with status and body.
func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func wantKind(t *testing.T, err error, want Kind) {
	t.Helper()
	if got := KindOf(err); got != want {
		t.Errorf("got kind %s (%v), want %s", got, err, want)
	}
}

func testGuard() *Guard {
	return &Guard{Token: secret.New("hvs.GuardT0kenOfTheTest"), Accessor: "gacc"}
}

// eventually polls until it is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("after 40 s still not: %s", what)
		}
	}
}
