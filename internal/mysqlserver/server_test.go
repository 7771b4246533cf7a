package mysqlserver_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/leasesvc/leasesvc/internal/mysqlserver"
	"github.com/leasesvc/leasesvc/internal/privateserver/lifetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLifeOfAServer(t *testing.T) {
	s, err := mysqlserver.Open()
	if err != nil {
		t.Fatal(err)
	}
	lifetest.Life(t, s, func(ctx context.Context, password string) error {
		return s.Login(ctx, s.Superuser(), password)
	}, "Access denied")
}
