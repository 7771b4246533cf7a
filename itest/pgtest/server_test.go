package pgtest_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

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
	if pgtest.Shared(t) != s {
		t.Fatal("the second call started another server")
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

func TestStopRefusesConnectionsUntilStart(t *testing.T) {
	s := pgtest.Start(t)
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Fatalf("the second stop: %v", err)
	}
	if c, err := net.DialTimeout("tcp4", s.Addr(), time.Second); err == nil {
		c.Close()
		t.Fatal("a stopped server answers")
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err == nil {
		t.Fatal("a running server was started again")
	}
	if _, err := s.Roles(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestCleanupRemovesServerAndFiles(t *testing.T) {
	var s *pgtest.Server
	var addr, dir string
	t.Run("a test with a server", func(t *testing.T) {
		s = pgtest.Start(t)
		addr, dir = s.Addr(), filepath.Dir(s.Log())
	})
	if c, err := net.DialTimeout("tcp4", addr, time.Second); err == nil {
		c.Close()
		t.Fatal("the server outlived its test")
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Fatalf("%s outlived its test: %v", dir, err)
	}
}

func TestOnlyThePasswordOpensTheServer(t *testing.T) {
	s := pgtest.Shared(t)
	c, err := pgx.Connect(t.Context(), "postgres://"+s.Superuser()+":wrong@"+s.Addr()+"/postgres?sslmode=disable")
	if err == nil {
		c.Close(t.Context())
		t.Fatal("a wrong password was accepted")
	}
}
