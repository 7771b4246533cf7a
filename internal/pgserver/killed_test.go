package pgserver_test

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/pgserver"
	"github.com/leasesvc/leasesvc/internal/privateserver/lifetest"
)

func TestKilledOwnerTakesItsServerAlong(t *testing.T) { lifetest.KilledOwner(t, pgserver.Open) }
