package snapshot

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{"events", "events/journal", "leasecore", "projector"},
		External: []string{"github.com/nats-io/nats.go"},
		Why:      "a snapshot is the projection's state and nothing else: what a service does with it is the service's",
	})
}
