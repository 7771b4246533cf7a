package main

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{"consumer", "consumer/amqplease", "consumer/pgxlease", "consumer/redislease", "consumer/sessions", "handover/wire", "secret", "tracing"},
		External: []string{"github.com/nats-io/nats.go", "github.com/rabbitmq/amqp091-go", "github.com/redis/go-redis/v9", "golang.org/x/sync"},
		Why:      "the demo is an application: it knows what an application would import, and nothing of the service.",
	})
}
