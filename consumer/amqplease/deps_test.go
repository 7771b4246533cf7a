package amqplease

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{"consumer", "consumer/sessions", "handover/wire", "secret", "tracing"},
		External: []string{"github.com/rabbitmq/amqp091-go"},
		Why:      "an adapter knows its driver and the consumer library, nothing of the service",
	})
}
