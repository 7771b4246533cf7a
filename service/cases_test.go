package service_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/events"
)

// What the tests of the cases from the field share: the service as a whole, over
// HTTP, against a Vault that misbehaves as told. Each says what came of it in the
// log's events and in the requests that reached Vault.

// newCaseRig is newRig for what is about Vault alone: the holder is not to be
// deposed where the machine is slow.
func newCaseRig(t *testing.T, leaseTTL, maxTTL string) *rig {
	t.Helper()
	r := newRig(t, leaseTTL, maxTTL)
	r.heartbeat = "500ms"
	return r
}

// arrival is a request that reached a path, with what its body named.
type arrival struct {
	at              time.Time
	path            string
	lease, accessor string
	body            map[string]any
}

// arrivals are the requests to a path, in order; they are let through.
type arrivals struct {
	mu  sync.Mutex
	all []arrival
}

// watch notes what arrives at a path from now on. answer, if set, answers in place
// of the server and tells whether it did.
func (r *rig) watch(path string, answer func(w http.ResponseWriter, a arrival) bool) *arrivals {
	seen := &arrivals{}
	r.vault.Inject(devvault.Fault{Path: path, Do: func(w http.ResponseWriter, q *http.Request, next http.Handler) {
		raw, err := io.ReadAll(q.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		q.Body = io.NopCloser(bytes.NewReader(raw))
		a := arrival{at: time.Now(), path: strings.TrimPrefix(q.URL.Path, "/v1/")}
		_ = json.Unmarshal(raw, &a.body)
		a.lease, _ = a.body["lease_id"].(string)
		a.accessor, _ = a.body["accessor"].(string)
		seen.mu.Lock()
		seen.all = append(seen.all, a)
		seen.mu.Unlock()
		if answer == nil || !answer(w, a) {
			next.ServeHTTP(w, q)
		}
	}})
	return seen
}

func (a *arrivals) list() []arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]arrival(nil), a.all...)
}

func (a *arrivals) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.all)
}

// answer writes an answer of the API.
func answer(w http.ResponseWriter, status int, body string) bool {
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
	return true
}

// definition is a lease of the role app that nobody needs to prove.
func definition(name, more string) string {
	return fmt.Sprintf("  %s: {path: database/creds/app, kind: postgresql, good_for: 200ms%s}\n", name, more)
}

// uses reads a name's credential again and again and logs in with it. The result
// ends that and gives how many logins there were; a login that failed, or a
// reader that got nothing, is an error of the test.
func (r *rig) uses(name string) (end func() int) {
	r.t.Helper()
	client := r.reader()
	quit, done := make(chan struct{}), make(chan struct{})
	var logins int
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			case <-time.After(20 * time.Millisecond):
			}
			c, err := client.Get(aBit(r.t), name)
			if errors.Is(err, consumer.ErrUnavailable) {
				continue // a slow machine, and no wrong credential
			}
			if err != nil {
				r.t.Errorf("%s: a reader got nothing: %v", name, err)
				return
			}
			if err := r.tryLogin(c); err != nil {
				r.t.Errorf("%s: what a reader was given does not work: %v", name, err)
				return
			}
			logins++
		}
	}()
	var once sync.Once
	end = func() int {
		once.Do(func() { close(quit) })
		<-done
		return logins
	}
	r.t.Cleanup(func() { end() })
	return end
}

func (r *rig) tryLogin(c consumer.Credential) error {
	user, _ := c.Get("username")
	password, _ := c.Get("password")
	return r.accts.Login(user.Reveal(), password.Reveal())
}

// of gives the events of a type about a lease.
func (r *rig) of(t events.Type, name string, lease uint64) (out []events.Event) {
	for _, e := range r.events(t) {
		if e.Name == name && (lease == 0 || e.Lease == lease) {
			out = append(out, e)
		}
	}
	return out
}

// noSecretSaid checks that nothing that was logged or recorded has a text in it.
func (r *rig) noSecretSaid(secrets ...string) {
	r.t.Helper()
	text := r.out.String()
	r.mu.Lock()
	for i := range r.log {
		b, err := json.Marshal(r.log[i].Data)
		if err != nil {
			r.t.Fatal(err)
		}
		text += string(b)
	}
	r.mu.Unlock()
	for _, s := range append(secrets, r.vault.RootToken().Reveal()) {
		if s != "" && strings.Contains(text, s) {
			r.t.Errorf("a secret was said: %.4s...", s)
		}
	}
}

// passes waits for a time that a rule names, while ok holds at every moment.
func (r *rig) passes(d time.Duration, what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); <-time.After(10 * time.Millisecond) {
		if !ok() {
			r.t.Fatalf("it did not last: %s", what)
		}
	}
}

func data[T any](t *testing.T, e events.Event) T {
	t.Helper()
	d, ok := e.Data.(T)
	if !ok {
		t.Fatalf("%s has another kind of data", e.Type())
	}
	return d
}
