package redisserver_test

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/privateserver/lifetest"
	"github.com/leasesvc/leasesvc/internal/redisserver"
)

func TestKilledOwnerTakesItsServerAlong(t *testing.T) { lifetest.KilledOwner(t, redisserver.Open) }
