package vault

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/secret"
)

func TestLoginOrder(t *testing.T) {
	home, dir := t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("VAULT_TOKEN", "hvs.FromVaultT0kenEnv")
	t.Setenv("BAO_TOKEN", "hvs.FromBaoT0kenEnvir")
	file := filepath.Join(dir, "token")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(file, "hvs.FromT0kenFile\n")
	write(filepath.Join(home, ".vault-token"), "hvs.FromH0meDirectory")
	cfg := Config{Token: secret.New("hvs.FromC0nfiguration"), TokenFile: file}
	f := newFake(t, nil)
	login := func() (*Client, error) {
		c := f.stranger(t, func(to *Config) { to.Token, to.TokenFile = cfg.Token, cfg.TokenFile })
		return c, c.Login(t.Context())
	}
	expect := func(token, source string) {
		t.Helper()
		c, err := login()
		if err != nil {
			t.Fatal(err)
		}
		seen := f.requests(lookupSelf)
		if got := seen[len(seen)-1].token; got != token {
			t.Errorf("%s is not what was sent", source)
		}
		if got := c.Token(); got.Source != source || !got.LoggedIn || got.TTL.String() != "3600" {
			t.Errorf("status %+v, want source %s", got, source)
		}
	}
	expect("hvs.FromC0nfiguration", "configuration")
	cfg.Token = secret.String{}
	expect("hvs.FromT0kenFile", "file "+file)
	write(file, "  \n")
	if _, err := login(); !errors.Is(err, ErrNoToken) {
		t.Errorf("an empty file: %v", err)
	}
	write(file, "two words")
	if _, err := login(); err == nil || strings.Contains(err.Error(), "two words") {
		t.Errorf("a file that holds no token: %v", err)
	}
	cfg.TokenFile = filepath.Join(dir, "absent")
	if _, err := login(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a configured file that is not there: %v", err)
	}
	cfg.TokenFile = ""
	expect("hvs.FromBaoT0kenEnvir", "BAO_TOKEN")
	t.Setenv("BAO_TOKEN", "") // there and empty: VAULT_TOKEN is not looked at
	expect("hvs.FromH0meDirectory", "~/.vault-token")
	if err := os.Unsetenv("BAO_TOKEN"); err != nil {
		t.Fatal(err)
	}
	expect("hvs.FromVaultT0kenEnv", "VAULT_TOKEN")
	t.Setenv("VAULT_TOKEN", "")
	expect("hvs.FromH0meDirectory", "~/.vault-token")
	if err := os.Remove(filepath.Join(home, ".vault-token")); err != nil {
		t.Fatal(err)
	}
	before := len(f.requests(""))
	if _, err := login(); !errors.Is(err, ErrNoToken) {
		t.Errorf("no token anywhere: %v", err)
	}
	if len(f.requests("")) != before {
		t.Error("a request was sent without a token")
	}
}

func TestC25_TokenWithAUseLimitIsRefusedWithTheReason(t *testing.T) {
	f := newFake(t, nil)
	f.Config.Handler = says(200, selfAnswer(3600, 3))
	c := f.stranger(t)
	err := c.Login(t.Context())
	if !errors.Is(err, ErrUseLimited) || !strings.Contains(err.Error(), "3 uses") || !strings.Contains(err.Error(), "num_uses") {
		t.Errorf("got %v", err)
	}
	if c.Token().LoggedIn {
		t.Error("the token is in force all the same")
	}
	_, err = c.Read(t.Context(), "db/creds/app", nil, ReadOptions{})
	if !errors.Is(err, ErrNotLoggedIn) || KindOf(err) != KindPermission {
		t.Errorf("a read before the login: %v", err)
	}
}

func TestLoginAnswersThatCannotBeUsed(t *testing.T) {
	for body, kind := range map[string]Kind{`{}`: KindMalformed, ``: KindMalformed, `{"data":{}}`: KindMalformed, `{"data":{"ttl":1,"num_uses":"x"}}`: KindMalformed} {
		f := newFake(t, nil)
		f.Config.Handler = says(200, body)
		wantKind(t, f.stranger(t).Login(t.Context()), kind)
	}
}

// authority is a server's view of tokens: which live, and until when.
type authority struct {
	mu      sync.Mutex
	ttl     time.Duration
	expires map[string]time.Time
	renewed map[string]int
	broken  int // status of every renewal, 0 when they work
	limit   map[string]int
}

func newAuthority(ttl time.Duration, tokens ...string) *authority {
	a := &authority{ttl: ttl, expires: map[string]time.Time{}, renewed: map[string]int{}, limit: map[string]int{}}
	for _, t := range tokens {
		a.issue(t)
	}
	return a
}

func (a *authority) issue(token string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.expires[token] = time.Now().Add(a.ttl)
}

func (a *authority) revoke(token string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.expires, token)
}

func (a *authority) renewals(token string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.renewed[token]
}

func (a *authority) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	token := r.Header.Get("X-Vault-Token")
	end, ok := a.expires[token]
	switch {
	case !ok || time.Now().After(end):
		says(403, `{"errors":["permission denied"]}`)(w, r)
	case r.URL.Path == lookupSelf:
		says(200, fmt.Sprintf(`{"data":{"ttl":%g,"creation_ttl":%g,"renewable":true,"type":"service"}}`, time.Until(end).Seconds(), a.ttl.Seconds()))(w, r)
	case r.URL.Path == "/v1/auth/token/renew-self" && a.broken != 0:
		a.renewed[token]++
		says(a.broken, `{"errors":["internal error"]}`)(w, r)
	case r.URL.Path == "/v1/auth/token/renew-self":
		a.renewed[token]++
		if limit := a.limit[token]; limit > 0 && a.renewed[token] > limit { // max TTL: no more
			says(200, fmt.Sprintf(`{"auth":{"lease_duration":%g,"renewable":true}}`, time.Until(end).Seconds()))(w, r)
			return
		}
		a.expires[token] = time.Now().Add(a.ttl)
		says(200, fmt.Sprintf(`{"auth":{"lease_duration":%g,"renewable":true}}`, a.ttl.Seconds()))(w, r)
	default:
		says(200, `{"lease_id":"l","lease_duration":60,"data":{"k":1}}`)(w, r)
	}
}

func runWith(t *testing.T, a http.Handler, file string) (*Client, *fake) {
	t.Helper()
	f := newFake(t, nil)
	f.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.note(r); a.ServeHTTP(w, r) })
	c := f.stranger(t, func(cfg *Config) { cfg.Token, cfg.TokenFile = secret.String{}, file })
	c.pace = pace{first: 10 * time.Millisecond, last: 40 * time.Millisecond, step: 5 * time.Millisecond, refusal: 20 * time.Millisecond, source: 10 * time.Second}
	return c, f
}

// running runs Run until the test's end.
func running(t *testing.T, c *Client) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func tokenFile(t *testing.T, token string) (path string, write func(string)) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "token")
	write = func(token string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	write(token)
	return path, write
}

func TestC23_TokenIsRenewedAtHalfLife(t *testing.T) {
	a := newAuthority(time.Second, "hvs.FirstT0ken")
	file, _ := tokenFile(t, "hvs.FirstT0ken")
	c, _ := runWith(t, a, file)
	running(t, c)
	start := time.Now()
	eventually(t, "three renewals", func() bool { return a.renewals("hvs.FirstT0ken") >= 3 })
	if took := time.Since(start); took < 1200*time.Millisecond {
		t.Errorf("three renewals of a token of 1 s took %s: not at half life", took)
	}
	if s := c.Token(); s.LastError != nil || !s.RefusedSince.IsZero() || s.Expires.Before(time.Now()) {
		t.Errorf("status %+v", s)
	}
}

func TestC24_TwoFullTokenCyclesAfterA403(t *testing.T) {
	a := newAuthority(time.Hour, "hvs.T0ken0")
	file, write := tokenFile(t, "hvs.T0ken0")
	c, _ := runWith(t, a, file)
	running(t, c)
	eventually(t, "logged in", func() bool { return c.Token().LoggedIn })
	for cycle := 1; cycle <= 3; cycle++ {
		old, next := fmt.Sprintf("hvs.T0ken%d", cycle-1), fmt.Sprintf("hvs.T0ken%d", cycle)
		a.revoke(old)
		_, err := c.Read(t.Context(), "db/creds/app", nil, ReadOptions{})
		wantKind(t, err, KindPermission)
		eventually(t, "the refusal is noticed (E12)", func() bool { return !c.Token().RefusedSince.IsZero() })
		a.issue(next)
		write(next)
		eventually(t, "the new token is in force (C3)", func() bool {
			_, err := c.Read(t.Context(), "db/creds/app", nil, ReadOptions{})
			return err == nil
		})
		if s := c.Token(); !s.RefusedSince.IsZero() || s.LastError != nil {
			t.Errorf("cycle %d: %+v", cycle, s)
		}
	}
}

func TestC23_NewTokenIsTakenBeforeMaxTTL(t *testing.T) {
	a := newAuthority(time.Second, "hvs.OldT0ken")
	a.limit["hvs.OldT0ken"] = 1
	file, write := tokenFile(t, "hvs.OldT0ken")
	c, f := runWith(t, a, file)
	running(t, c)
	eventually(t, "the old token is at its max TTL", func() bool { return a.renewals("hvs.OldT0ken") >= 2 })
	a.issue("hvs.NewT0ken")
	write("hvs.NewT0ken")
	eventually(t, "the new one is renewed", func() bool { return a.renewals("hvs.NewT0ken") >= 2 })
	if !strings.Contains(f.logged(), "nears its max TTL") {
		t.Error("max TTL was not said")
	}
	if c.ownToken().Reveal() != "hvs.NewT0ken" {
		t.Error("the old token is in force")
	}
}

func TestC1_FailingRenewalsArePaced(t *testing.T) {
	a := newAuthority(200*time.Millisecond, "hvs.T0kenThatFails")
	a.broken = 500
	file, _ := tokenFile(t, "hvs.T0kenThatFails")
	c, f := runWith(t, a, file)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := c.Run(ctx); err != nil {
		t.Fatal(err)
	}
	// 1 s at 10, 20, 40, 40, ... ms; after 200 ms the token is dead and each
	// attempt is a refused renewal and a look-up.
	if n := len(f.requests("")); n < 5 || n > 80 {
		t.Errorf("%d requests in a second", n)
	}
	if s := c.Token(); s.LastError == nil {
		t.Error("the failure is not shown")
	}
}

func TestC3_APolicyThatForbidsAPathDoesNotMakeUsLookWithoutEnd(t *testing.T) {
	looks := func(f *fake) int { return len(f.requests(lookupSelf)) }
	f := newFake(t, says(403, `{"errors":["permission denied"]}`))
	c := f.client(t)
	c.pace.refusal = 200 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	for ctx.Err() == nil {
		_, _ = c.Read(ctx, "db/creds/app", nil, ReadOptions{})
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := len(f.requests("creds")); n < 10 {
		t.Fatalf("only %d refused reads: nothing is shown", n)
	}
	if n := looks(f); n < 2 || n > 6 {
		t.Errorf("%d look-ups in 700 ms, at most one in 200 ms was to be", n)
	}
	// A guard's token that is refused says nothing of ours.
	before := looks(f)
	_, _ = c.Read(t.Context(), "db/creds/app", testGuard(), ReadOptions{})
	if len(c.forbidden) > 1 || looks(f) != before {
		t.Error("a refused guard made us look at our own token")
	}
}

func TestRunWaitsForAServerThatIsDown(t *testing.T) {
	a := newAuthority(time.Hour, "hvs.T0ken")
	file, _ := tokenFile(t, "hvs.T0ken")
	down := true
	var mu sync.Mutex
	c, f := runWith(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if down {
			says(503, `{"errors":["Vault is sealed"]}`)(w, r)
			return
		}
		a.ServeHTTP(w, r)
	}), file)
	running(t, c)
	eventually(t, "three attempts", func() bool { return len(f.requests("")) >= 3 })
	if s := c.Token(); s.LoggedIn || KindOf(s.LastError) != KindSealed {
		t.Errorf("status %+v", s)
	}
	mu.Lock()
	down = false
	mu.Unlock()
	eventually(t, "logged in", func() bool { return c.Token().LoggedIn })
}
