package vault

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasesvc/leasesvc/secret"
)

// office is an auth method of a server: it makes tokens with a life of their
// own, and knows which of them live.
type office struct {
	mu      sync.Mutex
	ttl     time.Duration
	max     time.Duration // of a token's whole life; 0: none
	proofs  []map[string]any
	made    []string
	ends    map[string]time.Time // of its whole life
	expires map[string]time.Time
	refuse  int // status of the next logins, 0 when they work
	uses    int
	fixed   bool // tokens can't be renewed
	kind    string
	renewed int
	stuck   bool // a renewal is answered by a 500
	noLook  bool // lookup-self is forbidden by policy
	revoked []string
}

func newOffice(ttl, life time.Duration) *office {
	return &office{ttl: ttl, max: life, ends: map[string]time.Time{}, expires: map[string]time.Time{}, kind: "service"}
}

func (o *office) with(change func(*office)) { o.mu.Lock(); defer o.mu.Unlock(); change(o) }

func (o *office) logins() int { o.mu.Lock(); defer o.mu.Unlock(); return len(o.made) }

func (o *office) revoke(token string) { o.with(func(o *office) { delete(o.expires, token) }) }

func (o *office) login(w http.ResponseWriter, r *http.Request, body map[string]any) {
	o.proofs = append(o.proofs, body)
	if o.refuse != 0 {
		says(o.refuse, fmt.Sprintf(`{"errors":["invalid secret_id %v"]}`, body["secret_id"]))(w, r)
		return
	}
	token := fmt.Sprintf("hvs.MadeAtTheOffice%d", len(o.made)+1)
	o.made = append(o.made, token)
	o.ends[token] = time.Now().Add(24 * time.Hour)
	if o.max > 0 {
		o.ends[token] = time.Now().Add(o.max)
	}
	o.expires[token] = time.Now().Add(o.ttl)
	says(200, fmt.Sprintf(`{"auth":{"client_token":%q,"accessor":"acc","lease_duration":%g,"renewable":%t,"num_uses":%d,"token_type":%q}}`,
		token, o.ttl.Seconds(), !o.fixed, o.uses, o.kind))(w, r)
}

func (o *office) serve(w http.ResponseWriter, r *http.Request, body map[string]any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if strings.HasSuffix(r.URL.Path, "/login") {
		o.login(w, r, body)
		return
	}
	token := r.Header.Get("X-Vault-Token")
	end, ok := o.expires[token]
	switch {
	case !ok || time.Now().After(end), o.noLook && r.URL.Path == lookupSelf:
		says(403, `{"errors":["permission denied"]}`)(w, r)
	case r.URL.Path == lookupSelf:
		says(200, fmt.Sprintf(`{"data":{"ttl":%g,"renewable":true}}`, time.Until(end).Seconds()))(w, r)
	case r.URL.Path == "/v1/auth/token/renew-self" && o.stuck:
		says(500, `{"errors":["1 error occurred: past the max TTL, cannot renew"]}`)(w, r)
	case r.URL.Path == "/v1/auth/token/renew-self":
		o.renewed++
		next := time.Now().Add(o.ttl)
		if o.ends[token].Before(next) {
			next = o.ends[token]
		}
		o.expires[token] = next
		says(200, fmt.Sprintf(`{"auth":{"lease_duration":%g,"renewable":true}}`, time.Until(next).Seconds()))(w, r)
	case r.URL.Path == "/v1/auth/token/revoke-self":
		o.revoked = append(o.revoked, token)
		delete(o.expires, token)
		w.WriteHeader(http.StatusNoContent)
	case strings.Contains(r.URL.Path, "forbidden"):
		says(403, `{"errors":["1 error occurred: permission denied"]}`)(w, r)
	default:
		says(200, `{"lease_id":"l","lease_duration":60,"renewable":true,"data":{"k":1}}`)(w, r)
	}
}

// visitor makes a client that logs in with login at o, and is not logged in.
func visitor(t *testing.T, o *office, login Login, with ...func(*Config)) (*Client, *fake) {
	t.Helper()
	f := newFake(t, nil)
	return visitorAt(t, f, o, login, with...), f
}

// visitorAt is visitor at a server that is there.
func visitorAt(t *testing.T, f *fake, o *office, login Login, with ...func(*Config)) *Client {
	t.Helper()
	f.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.note(r)
		f.mu.Lock()
		body := f.seen[len(f.seen)-1].body
		f.mu.Unlock()
		o.serve(w, r, body)
	})
	c := f.stranger(t, append([]func(*Config){func(cfg *Config) { cfg.Token, cfg.Login = secret.String{}, login }}, with...)...)
	c.pace = pace{first: 10 * time.Millisecond, last: 40 * time.Millisecond, step: 5 * time.Millisecond, refusal: 20 * time.Millisecond, source: 10 * time.Second, again: time.Hour}
	return c
}

func file(t *testing.T, text string) (path string, write func(string)) {
	t.Helper()
	return tokenFile(t, text)
}

func appRole(id string) Login {
	return Login{AppRole: &AppRole{RoleID: Source{Value: secret.New(id)}, SecretID: Source{Value: secret.New("the-secret-id-value")}}}
}

func TestLoginProofs(t *testing.T) {
	idFile, _ := file(t, "role-id-from-file\n")
	secretFile, writeSecret := file(t, "secret-id-from-file\n")
	jwtFile, writeJWT := file(t, "eyJhbGciOi.first.jwt")
	for name, try := range map[string]struct {
		login  Login
		path   string
		body   map[string]any
		source string
		then   func()
		body2  map[string]any
	}{
		"AppRole by value": {appRole("role-id"), "/v1/auth/approle/login", map[string]any{"role_id": "role-id", "secret_id": "the-secret-id-value"}, "AppRole at auth/approle", nil, nil},
		"AppRole by files": {Login{AppRole: &AppRole{Mount: "team/approle", RoleID: Source{File: idFile}, SecretID: Source{File: secretFile}}},
			"/v1/auth/team/approle/login", map[string]any{"role_id": "role-id-from-file", "secret_id": "secret-id-from-file"}, "AppRole at auth/team/approle",
			func() { writeSecret("another-secret-id") }, map[string]any{"role_id": "role-id-from-file", "secret_id": "another-secret-id"}},
		"AppRole without secret id": {Login{AppRole: &AppRole{RoleID: Source{Value: secret.New("only")}}}, "/v1/auth/approle/login", map[string]any{"role_id": "only"}, "AppRole at auth/approle", nil, nil},
		"Kubernetes": {Login{Kubernetes: &Kubernetes{Role: "app", TokenFile: jwtFile}}, "/v1/auth/kubernetes/login", map[string]any{"role": "app", "jwt": "eyJhbGciOi.first.jwt"}, "Kubernetes at auth/kubernetes",
			func() { writeJWT("eyJhbGciOi.second.jwt") }, map[string]any{"role": "app", "jwt": "eyJhbGciOi.second.jwt"}},
		"JWT by value": {Login{JWT: &JWT{Mount: "ci", Role: "app", Token: Source{Value: secret.New("eyJhbGciOi.a.b")}}}, "/v1/auth/ci/login", map[string]any{"role": "app", "jwt": "eyJhbGciOi.a.b"}, "JWT at auth/ci", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "Kubernetes" {
				writeJWT("eyJhbGciOi.first.jwt")
			}
			o := newOffice(time.Hour, 0)
			c, f := visitor(t, o, try.login, func(cfg *Config) { cfg.Namespace = "team/a" })
			if err := c.Login(t.Context()); err != nil {
				t.Fatal(err)
			}
			r := f.requests(try.path)
			if len(r) != 1 || fmt.Sprint(r[0].body) != fmt.Sprint(try.body) || r[0].token != "" || r[0].namespace != "team/a" {
				t.Errorf("sent %+v", r)
			}
			if s := c.Token(); s.Source != try.source || s.TTL.String() != "3600" || !s.Renewable || s.Logins != 1 || s.Since.IsZero() {
				t.Errorf("status %+v", s)
			}
			if c.ownToken().Reveal() != "hvs.MadeAtTheOffice1" {
				t.Error("the token is not in force")
			}
			if try.then != nil {
				try.then()
				if err := c.Login(t.Context()); err != nil {
					t.Fatal(err)
				}
				if r := f.requests(try.path); len(r) != 2 || fmt.Sprint(r[1].body) != fmt.Sprint(try.body2) {
					t.Error("the file was not read again")
				}
			}
			if n := len(f.requests("lookup")); n != 0 {
				t.Errorf("%d look-ups", n)
			}
		})
	}
}

func TestLoginConfigurationErrors(t *testing.T) {
	v := func(s string) Source { return Source{Value: secret.New(s)} }
	for name, cfg := range map[string]Config{
		"two methods":            {Login: Login{AppRole: &AppRole{RoleID: v("a")}, JWT: &JWT{Token: v("b")}}},
		"beside a token":         {Token: secret.New("hvs.x"), Login: appRole("a")},
		"beside a token file":    {TokenFile: "/x", Login: appRole("a")},
		"no role id":             {Login: Login{AppRole: &AppRole{SecretID: v("x")}}},
		"wrapped nothing":        {Login: Login{AppRole: &AppRole{RoleID: v("x"), Wrapped: true}}},
		"value and file":         {Login: Login{AppRole: &AppRole{RoleID: Source{Value: secret.New("x"), File: "y"}}}},
		"odd mount":              {Login: Login{AppRole: &AppRole{RoleID: v("x"), Mount: "../sys"}}},
		"Kubernetes, no role":    {Login: Login{Kubernetes: &Kubernetes{}}},
		"JWT, nothing":           {Login: Login{JWT: &JWT{Role: "x"}}},
		"certificate, none":      {Login: Login{Cert: &Cert{}}},
		"certificate, no https":  {Login: Login{Cert: &Cert{}}, TLS: TLS{ClientCert: "x", ClientKey: "y"}},
		"certificate, not there": {Address: "https://127.0.0.1:1", Login: Login{Cert: &Cert{}}, TLS: TLS{ClientCert: "/nonexistent", ClientKey: "/nonexistent"}},
	} {
		cfg.Name, cfg.Address = "main", or(cfg.Address, "http://127.0.0.1:1")
		if _, err := New(cfg); err == nil || !strings.HasPrefix(err.Error(), "vault main: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLoginFilesThatCannotBeUsed(t *testing.T) {
	path, write := file(t, "")
	o := newOffice(time.Hour, 0)
	c, f := visitor(t, o, Login{JWT: &JWT{Token: Source{File: path}}})
	for text, says := range map[string]string{"": "is empty", " \n": "is empty", "two words": "blanks", "\x00\x01": "unprintable"} {
		write(text)
		if err := c.Login(t.Context()); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "two words") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := c.Login(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("not there: %v", err)
	}
	if n := len(f.requests("")); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
}

func TestE12_RefusedLoginIsSeenAndRepeatsNoSecret(t *testing.T) {
	for _, status := range []int{400, 403} {
		o := newOffice(time.Hour, 0)
		o.refuse = status
		c, f := visitor(t, o, appRole("the-role-id"))
		err := c.Login(t.Context())
		wantKind(t, err, KindPermission)
		if !strings.Contains(fmt.Sprint(err), "AppRole at auth/approle") || strings.Contains(fmt.Sprint(err)+f.logged(), "the-secret-id-value") {
			t.Errorf("%v", err)
		}
		first := c.Token().RefusedSince
		if first.IsZero() {
			t.Error("the refusal is not shown")
		}
		_ = c.Login(t.Context())
		if got := c.Token().RefusedSince; !got.Equal(first) {
			t.Error("the first refusal does not win")
		}
		o.with(func(o *office) { o.refuse = 0 })
		if err := c.Login(t.Context()); err != nil || !c.Token().RefusedSince.IsZero() {
			t.Errorf("after the first success: %v, %+v", err, c.Token())
		}
	}
}

func TestC25_LoginThatGivesAUseLimitedTokenIsRefusedAndTheTokenGivenBack(t *testing.T) {
	o := newOffice(time.Hour, 0)
	o.uses = 3
	c, _ := visitor(t, o, appRole("r"))
	err := c.Login(t.Context())
	if !errors.Is(err, ErrUseLimited) || !strings.Contains(err.Error(), "3 times") {
		t.Errorf("got %v", err)
	}
	if c.Token().LoggedIn || len(o.revoked) != 1 {
		t.Errorf("logged in %t, revoked %v", c.Token().LoggedIn, o.revoked)
	}
}

func TestBatchTokenMakesNoGuards(t *testing.T) {
	o := newOffice(time.Hour, 0)
	o.kind, o.fixed = "batch", true
	c, f := visitor(t, o, appRole("r"))
	if err := c.Login(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := c.CreateGuard(t.Context(), GuardOptions{})
	if !errors.Is(err, ErrGuardForbidden) || KindOf(err) != KindPermission || !strings.Contains(err.Error(), "batch") {
		t.Errorf("got %v", err)
	}
	if n := len(f.requests("create")); n != 0 {
		t.Error("it was tried all the same")
	}
}

// alwaysWorks carries c on the test's own clock to a fourth login at o: there is
// never a moment without a token that works.
func alwaysWorks(t *testing.T, o *office, c *Client) {
	t.Helper()
	running(t, c)
	synctest.Wait()
	if !c.Token().LoggedIn {
		t.Fatal("not logged in")
	}
	for o.logins() < 4 {
		if _, err := c.RenewLease(t.Context(), "db/creds/app/1", time.Minute); err != nil {
			t.Fatalf("with the token of login %d: %v", o.logins(), err)
		}
		time.Sleep(o.ttl / 400)
	}
}

func TestC24_TwoFullCyclesOfLoginRenewalAndMaxTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(400*time.Millisecond, time.Second)
		c := visitorAt(t, newPipedFake(t, nil), o, appRole("r"))
		alwaysWorks(t, o, c)
		o.with(func(o *office) {
			if o.renewed < 4 {
				t.Errorf("%d renewals in three cycles: each was to have some", o.renewed)
			}
			if len(o.revoked) != 0 {
				t.Error("a token before was revoked, and unguarded leases with it")
			}
		})
	})
}

// TestC24_ALoginComesBeforeTheEndOfATokenWhoseRenewalsFail: a server may answer 500
// to a renewal at max TTL. However long the back-off is by then, it is not waited for
// beyond the token's last quarter, in which a login is tried.
func TestC24_ALoginComesBeforeTheEndOfATokenWhoseRenewalsFail(t *testing.T) {
	for _, ttl := range []time.Duration{2 * time.Second, 5 * time.Second, time.Minute, 3 * time.Minute} {
		t.Run(ttl.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOffice(ttl, 0)
				o.stuck = true
				c := visitorAt(t, newPipedFake(t, nil), o, appRole("r"))
				c.pace = defaultPace
				alwaysWorks(t, o, c)
			})
		})
	}
}

func TestC24_TwoCyclesOfA403AndANewLogin(t *testing.T) {
	o := newOffice(time.Hour, 0)
	c, _ := visitor(t, o, appRole("r"))
	running(t, c)
	eventually(t, "logged in", func() bool { return c.Token().LoggedIn })
	for cycle := 1; cycle <= 3; cycle++ {
		o.revoke(fmt.Sprintf("hvs.MadeAtTheOffice%d", cycle))
		_, err := c.RenewLease(t.Context(), "l", time.Hour)
		wantKind(t, err, KindPermission)
		eventually(t, "a new token is in force (C3)", func() bool {
			_, err := c.RenewLease(t.Context(), "l", time.Hour)
			return err == nil
		})
		if n := o.logins(); n != cycle+1 {
			t.Errorf("cycle %d: %d logins", cycle, n)
		}
		if s := c.Token(); !s.RefusedSince.IsZero() {
			t.Errorf("status %+v", s)
		}
	}
}

func TestC23_TokenThatCannotBeRenewedIsReplacedBeforeItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(400*time.Millisecond, 0)
		o.fixed = true
		alwaysWorks(t, o, visitorAt(t, newPipedFake(t, nil), o, appRole("r")))
	})
}

func TestC3_AForbiddenPathMakesNoTokens(t *testing.T) {
	for name, noLook := range map[string]bool{"with lookup-self": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			o := newOffice(time.Hour, 0)
			o.noLook = noLook
			c, f := visitor(t, o, appRole("r"))
			c.pace.refusal, c.pace.last = 10*time.Millisecond, 200*time.Millisecond
			running(t, c)
			eventually(t, "logged in", func() bool { return c.Token().LoggedIn })
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			for ctx.Err() == nil {
				_, _ = c.Read(ctx, "db/creds/forbidden", nil, ReadOptions{})
			}
			if n := len(f.requests("forbidden")); n < 20 {
				t.Fatalf("only %d refused reads: nothing is shown", n)
			}
			most := 1
			if noLook { // 10, 20, 40, 80, 160, 200, 200, ... ms
				most = 10
			}
			if n := o.logins(); n > most {
				t.Errorf("%d logins in a second, at most %d were to be", n, most)
			}
		})
	}
}

func TestC30_LostLoginIsNotRepeatedBlindly(t *testing.T) {
	d := newDropper(t, map[string]string{}, "")
	c, err := New(Config{Name: "main", Address: "http://" + d.listener.Addr().String(), Login: appRole("r"), Retries: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	var e *Error
	if err := c.Login(t.Context()); !errors.As(err, &e) || !e.OutcomeUnknown {
		t.Errorf("got %v", err)
	}
	if n := d.count("/v1/auth/approle/login"); n != 1 {
		t.Errorf("%d logins arrived", n)
	}
}

func TestC33_LogoutRevokesWhatALoginMadeAndNothingElse(t *testing.T) {
	o := newOffice(time.Hour, 0)
	c, _ := visitor(t, o, appRole("r"))
	if err := c.Logout(t.Context()); err != nil {
		t.Errorf("before the login: %v", err)
	}
	if err := c.Login(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Logout(t.Context()); err != nil || c.Token().LoggedIn || len(o.revoked) != 1 {
		t.Errorf("%v, revoked %v", err, o.revoked)
	}
	if err := c.Login(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.revoke("hvs.MadeAtTheOffice2")
	if err := c.Logout(t.Context()); err != nil {
		t.Errorf("one that was gone: %v", err)
	}
	given := newFake(t, says(204, ""))
	g := given.client(t)
	if err := g.Logout(t.Context()); err != nil || len(given.requests("revoke")) != 0 || !g.Token().LoggedIn {
		t.Errorf("a token that was given to us: %v", err)
	}
}
func TestC3_GuardedLeasesOutliveALogin(t *testing.T) {
	o := newOffice(time.Hour, 0)
	c, f := visitor(t, o, appRole("r"))
	if err := c.Login(t.Context()); err != nil {
		t.Fatal(err)
	}
	g := testGuard()
	o.with(func(o *office) { o.expires[g.Token.Reveal()] = time.Now().Add(time.Minute) })
	guarded, err := c.Read(t.Context(), "db/creds/app", g, ReadOptions{})
	if err != nil || !guarded.TokenExpires.IsZero() {
		t.Errorf("a guarded lease hangs on our token: %s, %v", guarded.TokenExpires, err)
	}
	alone, err := c.Read(t.Context(), "db/creds/app", nil, ReadOptions{})
	if err != nil || !alone.TokenExpires.Equal(c.Token().Expires) {
		t.Errorf("C23: an unguarded lease ends with our token at %s, told %s (%v)", c.Token().Expires, alone.TokenExpires, err)
	}
	if err := c.Login(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.RenewLease(t.Context(), guarded.LeaseID, time.Hour); err != nil {
		t.Fatal(err)
	}
	r := f.requests("renew")
	if r[len(r)-1].token != "hvs.MadeAtTheOffice2" {
		t.Error("C3: the renewal went out under the old token")
	}
}

// A token that goes away while the server is out must not make Run spin.
func TestRunDoesNotSpinWhenAProbeCannotBeSent(t *testing.T) {
	path, write := file(t, "hvs.SomeT0ken")
	f := newFake(t, nil)
	f.Config.Handler = says(503, `{"errors":["Vault is sealed"]}`)
	c := f.stranger(t, patient, func(cfg *Config) { cfg.Token, cfg.TokenFile = secret.String{}, path })
	c.pace = pace{first: time.Hour, last: time.Hour, step: 50 * time.Millisecond, refusal: time.Hour, source: time.Hour}
	wantKind(t, c.Login(t.Context()), KindSealed)
	write("")
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := c.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(f.logged(), "did not find the server back"); n < 2 || n > 12 {
		t.Errorf("Run tried %d times in half a second, once in 50 ms was to be", n)
	}
	if c.Token().LastError == nil || !errors.Is(c.Token().LastError, ErrNoToken) {
		t.Errorf("last error: %v", c.Token().LastError)
	}
}
