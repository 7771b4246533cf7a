package verify_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/leasesvc/leasesvc/handover/verify"
	"github.com/leasesvc/leasesvc/internal/arrows"
	"github.com/leasesvc/leasesvc/itest/mysqltest"
	"github.com/leasesvc/leasesvc/itest/pgtest"
	"github.com/leasesvc/leasesvc/itest/rabbittest"
	"github.com/leasesvc/leasesvc/itest/redistest"
	"github.com/leasesvc/leasesvc/secret"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(mysqltest.Main(rabbittest.Main(redistest.Main(pgtest.Main(m)))))
}

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{"secret"},
		External: []string{"github.com/go-sql-driver/mysql", "github.com/jackc/pgx/v5", "github.com/rabbitmq/amqp091-go", "github.com/redis/go-redis/v9"},
		Why:      "A verifier logs in; it knows neither leases, nor events, nor Vault.",
	})
}

// query runs one statement as the superuser.
func query(t *testing.T, s *pgtest.Server, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second) // a cleanup may run one
	defer cancel()
	c, err := pgx.Connect(ctx, s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// account makes an account that is gone when t ends: the server may be shared.
func account(t *testing.T, s *pgtest.Server, user, password string) {
	t.Helper()
	name := pgx.Identifier{user}.Sanitize()
	query(t, s, "CREATE ROLE "+name+" LOGIN PASSWORD "+quote(password))
	t.Cleanup(func() { query(t, s, "DROP ROLE "+name) })
}

func urlTemplate(addr string) string {
	return "postgres://{{username}}:{{password}}@" + addr + "/postgres?sslmode=disable"
}

func spec(dsn string, timeout time.Duration) verify.Spec {
	return verify.Spec{Kind: verify.KindPostgreSQL, DSN: dsn, Timeout: timeout}
}

func values(user, password string) map[string]any {
	return map[string]any{"username": user, "password": password}
}

// failure is err's, or the test ends. It also looks for the values in whatever
// the error prints.
func failure(t *testing.T, err error, secrets ...string) *verify.Error {
	t.Helper()
	var e *verify.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want a *verify.Error", err)
	}
	for _, printed := range []string{err.Error(), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", err), fmt.Sprintf("%#v", *e)} {
		for _, s := range append(secrets, "postgres://", "127.0.0.1") {
			if strings.Contains(printed, s) {
				t.Errorf("the error repeats %q: %s", s, printed)
			}
		}
	}
	return e
}

// TestC48_AccountThatComesLate creates the account only when the server has
// refused it three times.
func TestC48_AccountThatComesLate(t *testing.T) {
	s := pgtest.Start(t)
	done := make(chan error, 1)
	go func() {
		done <- verify.Verify(t.Context(), spec(urlTemplate(s.Addr()), 30*time.Second), values("v-late", "pw-late"))
	}()
	for deadline := time.Now().Add(20 * time.Second); refusals(t, s, "v-late") < 3; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d logins were refused, want 3", refusals(t, s, "v-late"))
		}
	}
	select {
	case err := <-done:
		t.Fatalf("Verify returned before the account was there: %v", err)
	default:
	}
	account(t, s, "v-late", "pw-late")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func refusals(t *testing.T, s *pgtest.Server, user string) int {
	t.Helper()
	log, err := os.ReadFile(s.Log())
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(log), `password authentication failed for user "`+user+`"`)
}

func TestSpecialCharactersInUserAndPassword(t *testing.T) {
	s := pgtest.Shared(t)
	keyword := fmt.Sprintf("host=127.0.0.1 port=%d dbname=postgres sslmode=disable ", s.Port())
	templates := map[string]string{
		"url":           urlTemplate(s.Addr()),
		"url query":     "postgresql://" + s.Addr() + "/postgres?sslmode=disable&user={{username}}&password={{ password }}",
		"keyword":       keyword + "user={{username}} password={{password}}",
		"keyword first": "password={{password}} user={{username}} " + keyword,
		"keyword quote": keyword + "user='{{username}}' password='{{password}}'",
	}
	for i, password := range []string{
		"plain", "p@ss:w/rd", "100%41", "a b\tc", `quote'and"double`, `back\slash\`, "?x=1&y=2#z", "host=example.org",
		"{{username}}", "päss wörd", "' host='10.0.0.1", "[::1]", "+", "$1", " lead and trail ", "new\nline",
	} {
		user := fmt.Sprintf("v-%d@x:/%%' \\", i)
		account(t, s, user, password)
		for name, template := range templates {
			if err := verify.Check(verify.Spec{Kind: verify.KindPostgreSQL, DSN: template}); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := verify.Verify(t.Context(), spec(template, 5*time.Second), values(user, password)); err != nil {
				t.Errorf("%s, password %q: %v", name, password, err)
			}
		}
	}
}

func TestOtherKeysAndKindsOfValues(t *testing.T) {
	s := pgtest.Shared(t)
	account(t, s, "v-12345", "67890")
	template := "postgres://{{username}}:{{password}}@127.0.0.1:{{port}}/{{db.name}}?sslmode=disable"
	v := map[string]any{
		"username": "v-12345", "password": json.Number("67890"), "port": float64(s.Port()), "db.name": "postgres",
		"not named": []string{"may be anything"},
	}
	if err := verify.Verify(t.Context(), spec(template, 5*time.Second), v); err != nil {
		t.Fatal(err)
	}
	v["password"] = secret.New("67890")
	if err := verify.Verify(t.Context(), spec(template, 5*time.Second), v); err != nil {
		t.Fatal(err)
	}
}

func TestAuthenticationRefused(t *testing.T) {
	s := pgtest.Shared(t)
	account(t, s, "v-refused", "right-password")
	begin := time.Now()
	err := verify.Verify(t.Context(), spec(urlTemplate(s.Addr()), 600*time.Millisecond), values("v-refused", "wrong-password"))
	e := failure(t, err, "wrong-password", "v-refused")
	if e.Failure != verify.AuthRefused || e.Reason != "SQLSTATE 28P01" || e.Attempts < 2 {
		t.Fatalf("got %#v", e)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Fatalf("took %v with a budget of 600 ms", took)
	}
}

func TestSessionRefused(t *testing.T) {
	s := pgtest.Shared(t)
	account(t, s, "v-nodb", "pw-nodb")
	template := strings.Replace(urlTemplate(s.Addr()), "/postgres?", "/no-such-db?", 1)
	e := failure(t, verify.Verify(t.Context(), spec(template, 300*time.Millisecond), values("v-nodb", "pw-nodb")), "pw-nodb", "no-such-db")
	if e.Failure != verify.Refused || e.Reason != "SQLSTATE 3D000" {
		t.Fatalf("got %#v", e)
	}
}

func TestServerUnreachable(t *testing.T) {
	silent := listen(t) // accepts (the kernel does) and says nothing
	closed := listen(t)
	closed.Close()
	for _, c := range []struct{ name, dsn, reason string }{
		{"closed port", urlTemplate(closed.Addr().String()), "connection refused"},
		{"silent server", urlTemplate(silent.Addr().String()), "no answer in time"},
		{"no such host", urlTemplate("no-such-host.invalid:5432"), "its host name does not resolve"},
		{"no TLS", strings.Replace(urlTemplate(pgtest.Shared(t).Addr()), "sslmode=disable", "sslmode=require", 1), "it speaks no TLS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := verify.Verify(t.Context(), spec(c.dsn, 400*time.Millisecond), values("v-unreachable", "pw-unreachable"))
			e := failure(t, err, "pw-unreachable", "v-unreachable", "no-such-host")
			if e.Failure != verify.Unreachable || e.Reason != c.reason {
				t.Fatalf("got %#v", e)
			}
		})
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// TestRestartIsOutlived: the server comes back within the budget.
func TestRestartIsOutlived(t *testing.T) {
	s := pgtest.Start(t)
	account(t, s, "v-restart", "pw-restart")
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		done <- verify.Verify(t.Context(), spec(urlTemplate(s.Addr()), 30*time.Second), values("v-restart", "pw-restart"))
	}()
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestOwnerRoleIsNoOtherUser: an account may be set up to act as a role that
// owns the tables; it is still the account that logged in.
func TestOwnerRoleIsNoOtherUser(t *testing.T) {
	s := pgtest.Shared(t)
	account(t, s, "v-owned", "pw-owned")
	query(t, s, `CREATE ROLE "table-owner"; GRANT "table-owner" TO "v-owned"; ALTER ROLE "v-owned" SET ROLE "table-owner"`)
	t.Cleanup(func() { query(t, s, `DROP ROLE "table-owner"`) })
	if err := verify.Verify(t.Context(), spec(urlTemplate(s.Addr()), 5*time.Second), values("v-owned", "pw-owned")); err != nil {
		t.Fatal(err)
	}
}

func TestNothingOfTheProcessLogsIn(t *testing.T) {
	s := pgtest.Shared(t)
	t.Setenv("PGUSER", s.Superuser())
	t.Setenv("PGPASSWORD", s.Password())
	template := urlTemplate(s.Addr())
	e := failure(t, verify.Verify(t.Context(), spec(template, 200*time.Millisecond), values("v-nobody", "pw-nobody")), "pw-nobody", s.Password())
	if e.Failure != verify.AuthRefused {
		t.Fatalf("got %#v", e)
	}
	if err := verify.Check(verify.Spec{Kind: verify.KindPostgreSQL, DSN: "postgres://" + s.Addr() + "/postgres"}); err == nil {
		t.Fatal("a template that leaves the login to the process was accepted")
	}
}

func TestUnusableValues(t *testing.T) {
	template := urlTemplate("127.0.0.1:1")
	for name, v := range map[string]map[string]any{
		"no password":    {"username": "v-unusable"},
		"empty password": values("v-unusable", ""),
		"null":           {"username": "v-unusable", "password": nil},
		"object":         {"username": "v-unusable", "password": map[string]any{"x": "pw-unusable"}},
		"NUL":            values("v-unusable", "pw-unusable\x00"),
	} {
		e := failure(t, verify.Verify(t.Context(), spec(template, time.Minute), v), "pw-unusable", "v-unusable")
		if e.Failure != verify.Unusable || !strings.Contains(e.Reason, `"password"`) {
			t.Errorf("%s: got %#v", name, e)
		}
	}
}

func TestEndedContextIsNotTheBudget(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	silent := listen(t)
	done := make(chan error, 1)
	go func() {
		done <- verify.Verify(ctx, spec(urlTemplate(silent.Addr().String()), time.Minute), values("v-ended", "pw-ended"))
	}()
	c, err := silent.Accept() // the attempt is under way
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cancel()
	err = <-done
	if e := failure(t, err, "pw-ended"); e.Failure != verify.Interrupted || !errors.Is(err, context.Canceled) {
		t.Fatalf("got %#v", e)
	}
}

func TestSpecPrintsNoDSN(t *testing.T) {
	s := spec(urlTemplate("db.example.org:5432"), time.Second)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(verb, s); strings.Contains(got, "example") {
			t.Errorf("%s prints %s", verb, got)
		}
	}
}
