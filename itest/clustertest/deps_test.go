package clustertest

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{
			"consumer", "devvault", "events", "events/journal", "handover", "handover/verify", "handover/wire", "internal/process",
			"itest/proctest", "itest/secrettest", "leasecore", "projector", "secret", "service/api", "tracing",
		},
		External: []string{"github.com/nats-io/nats.go", "github.com/nats-io/nkeys", "go.uber.org/goleak"},
		Why:      "a harness that knew the service's inside would test what it knows",
	})
}
