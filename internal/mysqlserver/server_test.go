package mysqlserver_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leasesvc/leasesvc/internal/mysqlserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T) *mysqlserver.Server {
	t.Helper()
	s, err := mysqlserver.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestLifeOfAServer(t *testing.T) {
	s := open(t)
	ctx := within(t)
	if err := s.Login(ctx, s.Superuser(), s.Password()); err != nil {
		t.Fatal(err)
	}
	if err := s.Login(ctx, s.Superuser(), "wrong"); err == nil || !strings.Contains(err.Error(), "Access denied") {
		t.Fatalf("with a wrong password: %v", err)
	}
	port := s.Port()
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if s.Port() != port {
		t.Error("a restart changed the port")
	}
	if err := s.Login(ctx, s.Superuser(), s.Password()); err != nil {
		t.Fatalf("after a restart: %v", err)
	}
	if err := s.Start(); err == nil {
		t.Error("a running server was started")
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := s.Login(ctx, s.Superuser(), s.Password()); err == nil {
		t.Fatal("a stopped server answers")
	}
	if err := s.Stop(); err != nil {
		t.Errorf("stopping a stopped server: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err == nil {
		t.Error("a closed server was started")
	}
}

func TestNoPasswordIsShown(t *testing.T) {
	s := open(t)
	for _, shown := range []string{fmt.Sprint(s), fmt.Sprintf("%+v", s), fmt.Sprintf("%#v", s)} {
		if strings.Contains(shown, s.Password()) {
			t.Error("the password shows")
		}
	}
	log, err := os.ReadFile(s.Log())
	if err != nil || strings.Contains(string(log), s.Password()) {
		t.Errorf("the password is in the log, or: %v", err)
	}
}
