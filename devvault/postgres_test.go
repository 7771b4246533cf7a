package devvault_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasesvc/leasesvc/devvault"
	"github.com/leasesvc/leasesvc/itest/pgtest"
	"github.com/leasesvc/leasesvc/secret"
)

// newPostgresVault is a vault whose accounts are roles of a PostgreSQL server
// that only the database configuration names.
func newPostgresVault(t *testing.T) (*vault, *pgtest.Server) {
	t.Helper()
	pg := pgtest.Shared(t)
	// PostgreSQL looks at its own clock: this server must too.
	v := newVault(t, func(c *devvault.Config) {
		c.Clock = nil
		c.Accounts = devvault.NewPostgres(secret.New("postgres://nobody@127.0.0.1:1/none"))
	})
	v.ok("POST", "database/config/db", map[string]any{
		"connection_url": "postgresql://{{username}}:{{password}}@" + pg.Addr() + "/postgres?sslmode=disable",
		"username":       pg.Superuser(), "password": pg.Password(),
	})
	return v, pg
}

func query[T any](t *testing.T, dsn, sql string, args ...any) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	var out T
	if err := conn.QueryRow(ctx, sql, args...).Scan(&out); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return out
}

func login(pg *pgtest.Server, c cred) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, fmt.Sprintf("postgres://%s:%s@%s/postgres?sslmode=disable", c.user, c.password, pg.Addr()))
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

func exists(t *testing.T, pg *pgtest.Server, user string) bool {
	return query[bool](t, pg.DSN(), "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)", user)
}

func TestPostgresAccountLivesAsLongAsItsLease(t *testing.T) {
	v, pg := newPostgresVault(t)
	c := v.creds(v.RootToken())
	if err := login(pg, c); err != nil {
		t.Fatalf("login: %v", err)
	}
	until := func() time.Time {
		return query[time.Time](t, pg.DSN(), "SELECT rolvaliduntil FROM pg_roles WHERE rolname = $1", c.user)
	}
	first := until()
	if left := time.Until(first); left < 55*time.Second || left > 66*time.Second {
		t.Errorf("valid for %s, want the lease's minute and 5 s", left)
	}
	v.ok("PUT", "sys/leases/renew", map[string]any{"lease_id": c.lease, "increment": "150s"})
	if moved := until().Sub(first); moved < 80*time.Second || moved > 100*time.Second {
		t.Errorf("a renewal moved VALID UNTIL by %s, want about 90 s", moved)
	}
	v.ok("PUT", "sys/leases/revoke", map[string]any{"lease_id": c.lease})
	if exists(t, pg, c.user) {
		t.Error("the role outlived its lease")
	}
	if err := login(pg, c); err == nil {
		t.Error("a login after the revocation")
	}
}

func TestPostgresStatementsAndDefaultRevocation(t *testing.T) {
	v, pg := newPostgresVault(t)
	query[int](t, pg.DSN(), "WITH x AS (SELECT 1 AS n) SELECT n FROM x")
	v.ok("POST", "database/roles/app", map[string]any{
		"creation_statements": []string{
			`CREATE ROLE "{{name}}" WITH LOGIN PASSWORD '{{password}}' VALID UNTIL '{{expiration}}'; GRANT USAGE ON SCHEMA public TO "{{name}}"; GRANT SELECT ON ALL TABLES IN SCHEMA public TO "{{name}}"`,
			`DO $$ BEGIN PERFORM 1; EXECUTE 'CREATE TABLE IF NOT EXISTS granted (n int)'; END $$;`,
			`GRANT SELECT ON granted TO "{{username}}"; GRANT CONNECT ON DATABASE postgres TO "{{username}}";`,
		},
	})
	c := v.creds(v.RootToken())
	if !query[bool](t, pg.DSN(), "SELECT has_table_privilege($1, 'granted', 'SELECT')", c.user) {
		t.Fatal("the grant was not made")
	}
	v.ok("PUT", "sys/leases/revoke", map[string]any{"lease_id": c.lease})
	if exists(t, pg, c.user) {
		t.Error("a role with grants was not dropped")
	}
	v.ok("POST", "database/roles/app", map[string]any{"revocation_statements": []string{`DROP OWNED BY "{{name}}"`, `DROP ROLE "{{name}}"`}})
	c = v.creds(v.RootToken())
	v.ok("PUT", "sys/leases/revoke", map[string]any{"lease_id": c.lease})
	if exists(t, pg, c.user) {
		t.Error("the role's own revocation statements did not drop it")
	}
}

// The second statement is a syntax error that quotes the password.
const createThenFail = `CREATE ROLE "{{name}}" WITH LOGIN PASSWORD '{{password}}'; SELECT 1 "x" "{{password}}"`

func TestPostgresCreationThatFailsLeavesNothingAndSaysNoPassword(t *testing.T) {
	v, pg := newPostgresVault(t)
	before := len(v.Leases())
	v.ok("POST", "database/roles/app", map[string]any{"creation_statements": []string{createThenFail}})
	status, out := v.call(v.RootToken(), "GET", "database/creds/app", nil)
	if text := fmt.Sprint(out["errors"]); status != 500 || !strings.Contains(text, "[password]") || !strings.Contains(text, "SQLSTATE 42601") {
		t.Errorf("%d %s", status, text)
	}
	if n := query[int](t, pg.DSN(), "SELECT count(*) FROM pg_roles WHERE rolname LIKE 'v-token-app-%'"); n != 0 || len(v.Leases()) != before {
		t.Errorf("%d roles, %d leases left", n, len(v.Leases()))
	}
}

func TestPostgresWrongPasswordInTheConfiguration(t *testing.T) {
	v, pg := newPostgresVault(t)
	status, out := v.call(v.RootToken(), "POST", "database/config/db", map[string]any{"password": "wrong-password-of-the-test"})
	text := fmt.Sprint(out["errors"])
	if status != 400 || !strings.Contains(text, "error verifying connection") || strings.Contains(text, "wrong-password") {
		t.Errorf("%d %s", status, text)
	}
	v.ok("POST", "database/config/db", map[string]any{"password": pg.Password()})
	config := fmt.Sprint(v.ok("GET", "database/config/db", nil)["data"])
	if strings.Contains(config, pg.Password()) || !strings.Contains(config, "{{username}}") {
		t.Errorf("read back: %s", config)
	}
}

func TestPostgresBrokenAccountAndStaticRole(t *testing.T) {
	v, pg := newPostgresVault(t)
	v.BreakNextAccounts(1)
	c := v.creds(v.RootToken())
	if err := login(pg, c); err == nil {
		t.Error("a broken account let somebody in")
	}
	v.ok("PUT", "sys/leases/revoke", map[string]any{"lease_id": c.lease})

	own := devvault.NewPostgres(secret.New(pg.DSN()))
	if err := own.Create(context.Background(), devvault.Account{User: "v-static", Password: secret.New("before"), Expires: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	v.ok("POST", "database/static-roles/st", map[string]any{"db_name": "db", "username": "v-static", "rotation_period": "1h"})
	data := v.ok("GET", "database/static-creds/st", nil)["data"].(map[string]any)
	if err := login(pg, cred{user: "v-static", password: data["password"].(string)}); err != nil {
		t.Errorf("after the rotation: %v", err)
	}
	names, err := own.List(context.Background())
	if err != nil || len(names) != 1 || names[0] != "v-static" {
		t.Errorf("list: %v %v", names, err)
	}
	if err := own.Drop(context.Background(), "v-static", nil); err != nil {
		t.Error(err)
	}
	if err := own.Drop(context.Background(), "v-static", nil); err != nil {
		t.Errorf("dropping what is gone: %v", err)
	}
	err = own.Create(context.Background(), devvault.Account{User: `v-x"; DROP TABLE y; --`, Password: secret.New("p")})
	if err == nil {
		t.Error("a name with a quote reached SQL")
	}
}
