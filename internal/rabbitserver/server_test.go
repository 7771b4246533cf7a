package rabbitserver_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leasesvc/leasesvc/internal/privateserver/lifetest"
	"github.com/leasesvc/leasesvc/internal/rabbitserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A broker takes seconds to start: one test looks at all of its life.
func TestLifeOfABroker(t *testing.T) {
	s, err := rabbitserver.Open()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Login(ctx, s.Administrator(), s.Password(), "none"); err == nil || !strings.Contains(err.Error(), "vhost none not found") {
		t.Errorf("at a virtual host that is not there: %v", err)
	}
	if err := s.Login(ctx, "guest", "guest", "/"); err == nil {
		t.Error("the account that every broker has is there")
	}
	management := s.ManagementURL()
	lifetest.Life(t, s, func(ctx context.Context, password string) error {
		if s.ManagementURL() != management {
			t.Error("a restart changed a port")
		}
		return s.Login(ctx, s.Administrator(), password, "/")
	}, "ACCESS_REFUSED")
}
