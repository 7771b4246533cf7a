package mysqlserver_test

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/mysqlserver"
	"github.com/leasesvc/leasesvc/internal/privateserver/lifetest"
)

func TestKilledOwnerTakesItsServerAlong(t *testing.T) { lifetest.KilledOwner(t, mysqlserver.Open) }
