package consumer

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{"handover/wire", "secret", "tracing"},
		External: []string{"github.com/nats-io/nats.go", "github.com/nats-io/nkeys", "go.opentelemetry.io/otel/trace"},
		Why:      "an application must not carry the service with it",
	})
}
