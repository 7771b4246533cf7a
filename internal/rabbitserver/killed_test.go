package rabbitserver_test

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/privateserver/lifetest"
	"github.com/leasesvc/leasesvc/internal/rabbitserver"
)

func TestKilledOwnerTakesItsServerAlong(t *testing.T) { lifetest.KilledOwner(t, rabbitserver.Open) }
