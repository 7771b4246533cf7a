package redislease

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{"consumer", "consumer/sessions", "handover/wire", "secret", "tracing"},
		External: []string{"github.com/redis/go-redis/v9"},
		Why:      "an adapter knows its driver and the consumer library, nothing of the service",
	})
}
