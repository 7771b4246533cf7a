package pgserver_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/leasesvc/leasesvc/internal/pgserver"
	"github.com/leasesvc/leasesvc/internal/privateserver/lifetest"
	"github.com/leasesvc/leasesvc/itest/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Main(m)) }

func run(t *testing.T, dsn, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second) // a cleanup may run one
	defer cancel()
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, sql); err != nil {
		t.Fatal(err)
	}
}

func TestRolesListsOnlyLoginRolesOfAVault(t *testing.T) {
	s := pgtest.Shared(t)
	run(t, s.DSN(), `CREATE ROLE "v-roles-b" LOGIN; CREATE ROLE "v-roles-a" LOGIN; CREATE ROLE "v-nologin"; CREATE ROLE app LOGIN`)
	t.Cleanup(func() { run(t, s.DSN(), `DROP ROLE "v-roles-b", "v-roles-a", "v-nologin", app`) })
	got, err := s.Roles(t.Context())
	if want := []string{"v-roles-a", "v-roles-b"}; err != nil || !slices.Equal(got, want) {
		t.Fatalf("got %v, %v; want %v", got, err, want)
	}
}

func TestRestartKeepsPortAndData(t *testing.T) {
	s := pgtest.Start(t)
	run(t, s.DSN(), `CREATE ROLE "v-kept" LOGIN`)
	dsn, port := s.DSN(), s.Port()
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if s.DSN() != dsn || s.Port() != port {
		t.Fatalf("the port was %d and is %d", port, s.Port())
	}
	roles, err := s.Roles(t.Context())
	if err != nil || !slices.Contains(roles, "v-kept") {
		t.Fatalf("got %v, %v", roles, err)
	}
}

func TestLifeOfAServer(t *testing.T) {
	s, err := pgserver.Open()
	if err != nil {
		t.Fatal(err)
	}
	lifetest.Life(t, s, func(ctx context.Context, password string) error {
		c, err := pgx.Connect(ctx, "postgres://"+s.Superuser()+":"+password+"@"+s.Addr()+"/postgres?sslmode=disable")
		if err != nil {
			return err
		}
		return c.Close(ctx)
	}, "password authentication failed")
}

func TestTheLogHasNoPasswordOfAStatement(t *testing.T) {
	s := pgtest.Shared(t)
	c, err := pgx.Connect(t.Context(), s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.WithoutCancel(t.Context()))
	const password = "a-lease-s-password"
	_, err = c.Exec(t.Context(), `CREATE ROLE postgres LOGIN PASSWORD '`+password+`'`)
	if err == nil {
		t.Fatal("the superuser was created twice")
	}
	log, err := os.ReadFile(s.Log())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(log), `role "postgres" already exists`) {
		t.Fatalf("the refused statement is not in the log: %s", log)
	}
	if strings.Contains(string(log), password) || strings.Contains(string(log), s.Password()) {
		t.Error("the log shows a password")
	}
}
