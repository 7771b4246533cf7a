package redisserver_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/leasesvc/leasesvc/internal/privateserver/lifetest"
	"github.com/leasesvc/leasesvc/internal/redisserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLifeOfAServer(t *testing.T) {
	s, err := redisserver.Open()
	if err != nil {
		t.Fatal(err)
	}
	lifetest.Life(t, s, func(ctx context.Context, password string) error {
		return s.Login(ctx, s.Superuser(), password)
	}, "WRONGPASS")
}
