package cluster

import (
	"flag"
	"testing"

	"github.com/leasesvc/leasesvc/itest/clustertest"
)

var seed = flag.Uint64("cluster.seed", 1, "the seed of what is drawn")

func TestMain(m *testing.M) { clustertest.Main(m) }
