package bench

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/leasesvc/leasesvc/bench/instance"
)

func TestMain(m *testing.M) {
	// Storing a snapshot starts a goroutine of the client's that reads a channel
	// which the end of a quick store has taken away already (nats.go 1.55).
	goleak.VerifyTestMain(instance.Main(m), goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"))
}
