package rabbitserver_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leasesvc/leasesvc/internal/rabbitserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A broker takes seconds to start: one test looks at all of its life.
func TestLifeOfABroker(t *testing.T) {
	began := time.Now()
	s, err := rabbitserver.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("started in %v", time.Since(began))
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := s.Login(ctx, s.Administrator(), s.Password(), "/"); err != nil {
		t.Fatal(err)
	}
	if err := s.Login(ctx, s.Administrator(), "wrong", "/"); err == nil || !strings.Contains(err.Error(), "ACCESS_REFUSED") {
		t.Errorf("with a wrong password: %v", err)
	}
	if err := s.Login(ctx, s.Administrator(), s.Password(), "none"); err == nil || !strings.Contains(err.Error(), "vhost none not found") {
		t.Errorf("at a virtual host that is not there: %v", err)
	}
	if err := s.Login(ctx, "guest", "guest", "/"); err == nil {
		t.Error("the account that every broker has is there")
	}
	for _, shown := range []string{fmt.Sprint(s), fmt.Sprintf("%+v", s), fmt.Sprintf("%#v", s)} {
		if strings.Contains(shown, s.Password()) {
			t.Error("the password shows")
		}
	}
	if log, err := os.ReadFile(s.Log()); err != nil || strings.Contains(string(log), s.Password()) {
		t.Errorf("the password is in the log, or: %v", err)
	}

	port, management := s.Port(), s.ManagementURL()
	began = time.Now()
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	t.Logf("restarted in %v", time.Since(began))
	if s.Port() != port || s.ManagementURL() != management {
		t.Error("a restart changed a port")
	}
	if err := s.Login(ctx, s.Administrator(), s.Password(), "/"); err != nil {
		t.Fatalf("after a restart: %v", err)
	}
	if err := s.Start(); err == nil {
		t.Error("a running broker was started")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Login(ctx, s.Administrator(), s.Password(), "/"); err == nil {
		t.Error("a closed broker answers")
	}
	if err := s.Start(); err == nil {
		t.Error("a closed broker was started")
	}
}
