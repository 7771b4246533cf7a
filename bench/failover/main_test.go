package failover

import (
	"flag"
	"testing"

	"github.com/leasesvc/leasesvc/bench/table"
	"github.com/leasesvc/leasesvc/itest/clustertest"
)

var (
	rounds       = flag.Int("failover.rounds", 1, "takeovers of each kind; the slow kinds make fewer")
	serverRounds = flag.Int("failover.servers", 0, "rounds of each fault of a NATS server and of 1,000 scopes; 0: none but a single killed stream leader")
	scopeCount   = flag.Int("failover.scopes", 1000, "how many scopes the instance with many leads")
	out          = flag.String("failover.out", "", "the file that the rows are written to; empty: none")
)

func TestMain(m *testing.M) { clustertest.Main(m) }

// TestFailover measures in turns; each part has its rows written when it is
// done.
func TestFailover(t *testing.T) {
	rows := &table.Table{}
	t.Run("killed", func(t *testing.T) { killed(t, rows) })
	t.Run("stopped", func(t *testing.T) { stopped(t, rows) })
	t.Run("planned", func(t *testing.T) { planned(t, rows) })
	t.Run("scopes", func(t *testing.T) { manyScopes(t, rows) })
	t.Run("servers", func(t *testing.T) { servers(t, rows) })
}
