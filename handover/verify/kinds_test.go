package verify_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasesvc/leasesvc/handover/verify"
	"github.com/leasesvc/leasesvc/itest/mysqltest"
	"github.com/leasesvc/leasesvc/itest/rabbittest"
	"github.com/leasesvc/leasesvc/itest/redistest"
	"github.com/leasesvc/leasesvc/secret"
)

// odd are passwords that a URL, a shell or a header could take for something
// else.
var odd = []string{"plain", "p@ss:w/rd%?#", "100%41", "a b+c", `q'u"o\te`, "{{username}}", "päss"}

// target is a real server with accounts.
type target struct {
	kind, dsn string
	// account makes an account, closed tells that one has none.
	account func(t *testing.T, user, password string)
}

func targets(t *testing.T) []target {
	return []target{mysqlTarget(t), redisTarget(t), rabbitTarget(t)}
}

func mysqlTarget(t *testing.T) target {
	s := mysqltest.Shared(t)
	db, err := s.DB()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return target{verify.KindMySQL, "mysql://{{username}}:{{password}}@" + s.Addr() + "/", func(t *testing.T, user, password string) {
		exec(t, db, "CREATE USER "+quoteMySQL(user)+" IDENTIFIED BY "+quoteMySQL(password))
		t.Cleanup(func() { exec(t, db, "DROP USER "+quoteMySQL(user)) })
	}}
}

func quoteMySQL(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", "''").Replace(s) + "'"
}

func exec(t *testing.T, db *sql.DB, query string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if _, err := db.ExecContext(ctx, query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func redisTarget(t *testing.T) target {
	s := redistest.Shared(t)
	o, err := redis.ParseURL(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	admin := redis.NewClient(o)
	t.Cleanup(func() { admin.Close() })
	return target{verify.KindRedis, "redis://{{username}}:{{password}}@" + s.Addr(), func(t *testing.T, user, password string) {
		ctx := context.Background()
		if err := admin.Do(ctx, "ACL", "SETUSER", user, "on", ">"+password, "~*", "+@all").Err(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { admin.Do(ctx, "ACL", "DELUSER", user) })
	}}
}

func rabbitTarget(t *testing.T) target {
	s := rabbittest.Shared(t)
	return target{verify.KindRabbitMQ, "amqp://{{username}}:{{password}}@" + s.Addr() + "/%2F", func(t *testing.T, user, password string) {
		t.Helper()
		rabbitAPI(t, s, http.MethodPut, "users/"+user, fmt.Sprintf(`{"password":%q,"tags":""}`, password))
		rabbitAPI(t, s, http.MethodPut, "permissions/%2F/"+user, `{"configure":".*","write":".*","read":".*"}`)
		t.Cleanup(func() { rabbitAPI(t, s, http.MethodDelete, "users/"+user, "") })
	}}
}

func rabbitAPI(t *testing.T, s *rabbittest.Server, method, path, body string) {
	t.Helper()
	r, err := http.NewRequest(method, s.ManagementURL()+"/api/"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth(s.Administrator(), s.Password())
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode >= 300 {
		t.Fatalf("%s %s: %s", method, path, resp.Status)
	}
}

func TestEveryServerProvesItsAccounts(t *testing.T) {
	for _, s := range targets(t) {
		t.Run(s.kind, func(t *testing.T) {
			for i, password := range odd {
				user := fmt.Sprintf("v-%s-%d", s.kind, i)
				s.account(t, user, password)
				sp := verify.Spec{Kind: s.kind, DSN: s.dsn, Timeout: 30 * time.Second}
				if err := verify.Check(sp); err != nil {
					t.Fatal(err)
				}
				if err := verify.Verify(t.Context(), sp, map[string]any{"username": user, "password": secret.New(password)}); err != nil {
					t.Errorf("password %q: %v", password, err)
				}
			}
		})
	}
}

func TestEveryServerRefusesAWrongPassword(t *testing.T) {
	for _, s := range targets(t) {
		t.Run(s.kind, func(t *testing.T) {
			user := "v-wrong-" + s.kind
			s.account(t, user, "right-password")
			err := verify.Verify(t.Context(), verify.Spec{Kind: s.kind, DSN: s.dsn, Timeout: 4 * time.Second}, values(user, "wrong-password"))
			if e := failure(t, err, "wrong-password", user); e.Failure != verify.AuthRefused || e.Attempts < 1 || e.Kind != s.kind {
				t.Errorf("got %#v", e)
			}
			err = verify.Verify(t.Context(), verify.Spec{Kind: s.kind, DSN: s.dsn, Timeout: 4 * time.Second}, values("v-nobody", "pw-nobody"))
			if e := failure(t, err, "pw-nobody", "v-nobody"); e.Failure != verify.AuthRefused {
				t.Errorf("nobody: %#v", e)
			}
		})
	}
}

// TestC48_EveryServerIsAskedAgain: the account comes when the login was tried
// already.
func TestC48_EveryServerIsAskedAgain(t *testing.T) {
	for _, s := range targets(t) {
		t.Run(s.kind, func(t *testing.T) {
			user := "v-late-" + s.kind
			done := make(chan error, 1)
			begun := time.Now()
			go func() {
				done <- verify.Verify(t.Context(), verify.Spec{Kind: s.kind, DSN: s.dsn, Timeout: 60 * time.Second}, values(user, "pw-late"))
			}()
			select {
			case err := <-done:
				t.Fatalf("there is no account yet, and after %v it says %v", time.Since(begun), err)
			case <-time.After(700 * time.Millisecond):
			}
			s.account(t, user, "pw-late")
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestEveryServerUnreachable(t *testing.T) {
	silent := listen(t) // accepts (the kernel does) and says nothing
	closed := listen(t)
	closed.Close()
	for kind, dsn := range map[string]string{
		verify.KindMySQL: "mysql://{{username}}:{{password}}@%s/", verify.KindRedis: "redis://{{username}}:{{password}}@%s/0",
		verify.KindRabbitMQ: "amqp://{{username}}:{{password}}@%s/", verify.KindHTTP: "http://{{username}}:{{password}}@%s/",
	} {
		for reason, addr := range map[string]string{"connection refused": closed.Addr().String(), "no answer in time": silent.Addr().String()} {
			begun := time.Now()
			err := verify.Verify(t.Context(), verify.Spec{Kind: kind, DSN: fmt.Sprintf(dsn, addr), Timeout: 400 * time.Millisecond}, values("v-unreachable", "pw-unreachable"))
			if e := failure(t, err, "pw-unreachable", "v-unreachable"); e.Failure != verify.Unreachable || e.Reason != reason {
				t.Errorf("%s: got %#v, want %s", kind, e, reason)
			}
			if took := time.Since(begun); took > 20*time.Second {
				t.Errorf("%s took %v with a budget of 400 ms", kind, took)
			}
		}
	}
}

func TestARedisAccountThatMayDoNothingIsProven(t *testing.T) {
	s := redistest.Shared(t)
	o, err := redis.ParseURL(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	admin := redis.NewClient(o)
	defer admin.Close()
	if err := admin.Do(t.Context(), "ACL", "SETUSER", "v-narrow", "on", ">pw-narrow", "-@all", "+get").Err(); err != nil {
		t.Fatal(err)
	}
	sp := verify.Spec{Kind: verify.KindRedis, DSN: "redis://{{username}}:{{password}}@" + s.Addr(), Timeout: 10 * time.Second}
	if err := verify.Verify(t.Context(), sp, values("v-narrow", "pw-narrow")); err != nil {
		t.Error(err)
	}
	sp.Timeout = 500 * time.Millisecond
	if e := failure(t, verify.Verify(t.Context(), sp, values("v-narrow", "pw-wrong")), "pw-wrong"); e.Failure != verify.AuthRefused {
		t.Errorf("got %#v", e)
	}
}

func TestHTTP(t *testing.T) {
	elsewhere := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
	defer other.Close()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		switch {
		case r.URL.Path == "/away":
			http.Redirect(w, r, other.URL, http.StatusFound)
		case r.URL.Path == "/down":
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/none":
			w.WriteHeader(http.StatusNotFound)
		case user == "v-http" && password == "p@ss w/rd", r.Header.Get("X-Api-Key") == "Key p@ss w/rd":
			w.WriteHeader(http.StatusNoContent)
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer srv.Close()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	basic := strings.Replace(srv.URL, "://", "://{{username}}:{{password}}@", 1)
	// A proxy would see the credential.
	t.Setenv("HTTP_PROXY", other.URL)
	header := map[string]string{"X-Api-Key": "Key {{password}}"}
	for _, c := range []struct {
		url      string
		headers  map[string]string
		password string
		failure  verify.Failure
		reason   string
	}{
		{basic, nil, "p@ss w/rd", "", ""},
		{srv.URL, header, "p@ss w/rd", "", ""},
		{basic, nil, "wrong-one", verify.AuthRefused, "status 401"},
		{srv.URL, header, "wrong-one", verify.AuthRefused, "status 401"},
		{basic + "/away", nil, "p@ss w/rd", verify.Refused, "status 302"},
		{basic + "/none", nil, "p@ss w/rd", verify.Refused, "status 404"},
		{basic + "/down", nil, "p@ss w/rd", verify.Unreachable, "status 503"},
		{srv.URL, header, "a\r\nX-Other: b", verify.Unusable, "a value of the credential has a line break, which no header can hold"},
	} {
		sp := verify.Spec{Kind: verify.KindHTTP, DSN: c.url, Headers: c.headers, Timeout: 300 * time.Millisecond}
		if err := verify.Check(sp); err != nil {
			t.Fatal(err)
		}
		if c.failure == "" {
			sp.Timeout = 20 * time.Second
		}
		err := verify.Verify(t.Context(), sp, values("v-http", c.password))
		if c.failure == "" {
			if err != nil {
				t.Errorf("%s: %v", c.url, err)
			}
			continue
		}
		if e := failure(t, err, c.password, "v-http"); e.Failure != c.failure || e.Reason != c.reason {
			t.Errorf("%s: got %#v, want %s, %s", c.url, e, c.failure, c.reason)
		}
	}
	if elsewhere != 0 {
		t.Errorf("the credential went elsewhere %d times", elsewhere)
	}
}

// script writes a program that a verifier can run.
func script(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "login")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestCommand(t *testing.T) {
	t.Setenv("VAULT_TOKEN", "pw-of-the-service")
	for _, c := range []struct {
		name, text, pass string
		failure          verify.Failure
		reason           string
	}{
		{"stdin", `grep -q '"password":"pw-cmd"' && grep -q . /dev/null || [ "$1" = check ]`, "", "", ""},
		{"env", `[ "$CREDENTIAL_PASSWORD" = pw-cmd ] && [ "$CREDENTIAL_USERNAME" = v-cmd ] && [ "$CREDENTIAL_DB_PORT" = 5432 ]`, "env", "", ""},
		{"nothing of ours", `[ -z "$VAULT_TOKEN" ]`, "", "", ""},
		{"nothing in the arguments", `! tr '\0' ' ' < /proc/$$/cmdline | grep -q pw-cmd`, "env", "", ""},
		{"no", `echo first; echo "no, $CREDENTIAL_USERNAME/$CREDENTIAL_PASSWORD ($(printf %s "$CREDENTIAL_USERNAME:$CREDENTIAL_PASSWORD" | base64))" >&2; exit 1`,
			"env", verify.AuthRefused, "exit status 1: no, [redacted]/[redacted] ([redacted])"},
		{"not there", "exit 75", "", verify.Unreachable, "exit status 75"},
		{"not there either", "exit 69", "", verify.Unreachable, "exit status 69"},
		{"other", "exit 3", "", verify.Refused, "exit status 3"},
		{"killed", "kill -TERM $$", "", verify.Refused, "signal: terminated"},
		{"hangs", "sleep 60 & sleep 60", "", verify.Unreachable, "the command did not end in time"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sp := verify.Spec{Kind: verify.KindCommand, Command: []string{script(t, c.text), "check"}, Pass: c.pass, Timeout: 30 * time.Second}
			if c.failure != "" {
				sp.Timeout = 400 * time.Millisecond
			}
			begun := time.Now()
			err := verify.Verify(t.Context(), sp, map[string]any{"username": "v-cmd", "password": "pw-cmd", "db.port": float64(5432)})
			if took := time.Since(begun); took > 30*time.Second {
				t.Errorf("took %v", took)
			}
			if c.failure == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if e := failure(t, err, "pw-cmd", "v-cmd", "pw-of-the-service"); e.Failure != c.failure || e.Reason != c.reason {
				t.Errorf("got %#v", e)
			}
		})
	}
	sp := verify.Spec{Kind: verify.KindCommand, Command: []string{"/no/such/program"}, Timeout: time.Minute}
	if e := failure(t, verify.Verify(t.Context(), sp, values("v-cmd", "pw-cmd"))); e.Failure != verify.Unusable || !strings.Contains(e.Reason, "no such file") {
		t.Errorf("got %#v", e)
	}
}

// TestC48_ACommandIsRunAgain: what it looks for comes late.
func TestC48_ACommandIsRunAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "there")
	sp := verify.Spec{Kind: verify.KindCommand, Command: []string{script(t, `echo x >> "$1.tried"; [ -e "$1" ]`), file}, Timeout: 60 * time.Second}
	done := make(chan error, 1)
	go func() { done <- verify.Verify(t.Context(), sp, values("v-cmd", "pw-cmd")) }()
	for limit := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if b, _ := os.ReadFile(file + ".tried"); len(b) >= 4 {
			break
		}
		if time.Now().After(limit) {
			t.Fatal("not tried twice in 30 s")
		}
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestCheckOfEveryKind(t *testing.T) {
	const ok = ""
	for _, c := range []struct {
		spec verify.Spec
		says string
	}{
		{verify.Spec{Kind: "mysql", DSN: "mysql://{{username}}:{{password}}@db:3306/app?tls=true"}, ok},
		{verify.Spec{Kind: "mysql", DSN: "mysql://{{username}}:{{password}}@db"}, ok},
		{verify.Spec{Kind: "mysql", DSN: "mysql://{{username}}:{{password}}@db/app?tls=literal-pw"}, "tls that is not known"},
		{verify.Spec{Kind: "mysql", DSN: "mysql://{{username}}:{{password}}@db/app?charset=literal-pw"}, "known: tls, ca, server_name"},
		{verify.Spec{Kind: "mysql", DSN: "mysql://{{username}}:literal-pw@db/app"}, "has a password in it"},
		{verify.Spec{Kind: "mysql", DSN: "mysql://app:{{password}}@db/app"}, "write {{username}}"},
		{verify.Spec{Kind: "mysql", DSN: "mysql://{{username}}:{{password}}@{{host}}/app"}, "host from the credential"},
		{verify.Spec{Kind: "mysql", DSN: "mysql://{{username}}:{{password}}@/app"}, "names no host"},
		{verify.Spec{Kind: "mysql", DSN: "{{username}}:literal-pw@tcp(db)/app"}, "cannot be read: write mysql://"},
		{verify.Spec{Kind: "mysql", DSN: "mysql://{{username}}:{{password}}@db/?tls=true&ca=/none"}, "/none"},
		{verify.Spec{Kind: "rabbitmq", DSN: "amqp://{{username}}:{{password}}@mq/%2F"}, ok},
		{verify.Spec{Kind: "rabbitmq", DSN: "amqps://{{username}}:{{password}}@mq:5671/orders?server_name=mq.internal"}, ok},
		{verify.Spec{Kind: "rabbitmq", DSN: "amqp://{{username}}:literal-pw@mq/"}, "has a password in it"},
		{verify.Spec{Kind: "rabbitmq", DSN: "http://{{username}}:{{password}}@mq/"}, "cannot be read: write amqp://"},
		{verify.Spec{Kind: "redis", DSN: "redis://{{username}}:{{password}}@cache:6379/2"}, ok},
		{verify.Spec{Kind: "redis", DSN: "rediss://{{username}}:{{password}}@cache"}, ok},
		{verify.Spec{Kind: "redis", DSN: "redis://{{username}}:{{password}}@cache/literal-pw"}, "a database that is no number"},
		{verify.Spec{Kind: "redis", DSN: "redis://:{{password}}@cache"}, "write {{username}}"},
		{verify.Spec{Kind: "http", DSN: "https://{{username}}:{{password}}@api/health"}, ok},
		{verify.Spec{Kind: "http", DSN: "https://api/health", Headers: map[string]string{"Authorization": "Bearer {{token}}", "Accept": "text/plain"}}, ok},
		{verify.Spec{Kind: "http", DSN: "https://api/health", Headers: map[string]string{"Authorization": "Bearer literal-pw"}}, "sounds like a secret"},
		{verify.Spec{Kind: "http", DSN: "https://{{username}}:literal-pw@api/health"}, "has a password in it"},
		{verify.Spec{Kind: "http", DSN: "https://api/health"}, "nothing of the credential"},
		{verify.Spec{Kind: "http", DSN: "https://{{host}}/?k={{password}}"}, "host from the credential"},
		{verify.Spec{Kind: "http", DSN: "https://api?k={{password}}"}, ok},
		{verify.Spec{Kind: "http", DSN: "ftp://{{username}}:{{password}}@api"}, "cannot be read"},
		{verify.Spec{Kind: "http", DSN: "https://{{password}}@api", Headers: map[string]string{"a b": "x"}}, "a name that HTTP does not allow"},
		{verify.Spec{Kind: "command", Command: []string{"/usr/bin/check", "--host", "db"}}, ok},
		{verify.Spec{Kind: "command", Command: []string{"/usr/bin/check"}, Pass: "env"}, ok},
		{verify.Spec{Kind: "command"}, "has no command"},
		{verify.Spec{Kind: "command", Command: []string{"check"}}, "absolute path"},
		{verify.Spec{Kind: "command", Command: []string{"/check", "--password={{password}}"}}, "read a program's arguments"},
		{verify.Spec{Kind: "command", Command: []string{"/check"}, Pass: "argv"}, "stdin or env"},
		{verify.Spec{Kind: "command", Command: []string{"/check"}, DSN: "x"}, "has no dsn"},
		{verify.Spec{Kind: "mysql", DSN: "mysql://{{username}}:{{password}}@db", Command: []string{"/check"}}, "of kind command"},
		{verify.Spec{Kind: "mysql", DSN: "mysql://{{username}}:{{password}}@db", Headers: map[string]string{"A": "b"}}, "of kind http"},
	} {
		err := verify.Check(c.spec)
		switch {
		case c.says == ok && err != nil:
			t.Errorf("%s %s: %v", c.spec.Kind, c.spec.DSN, err)
		case c.says != ok && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s %s %q:\n got %v\nwant %q", c.spec.Kind, c.spec.DSN, c.spec.Command, err, c.says)
		case err != nil && strings.Contains(err.Error(), "literal-pw"):
			t.Errorf("%s %s: the error repeats the password: %v", c.spec.Kind, c.spec.DSN, err)
		}
	}
}
