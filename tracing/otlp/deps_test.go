package otlp

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{"secret", "tracing"},
		External: []string{"go.opentelemetry.io/otel", "google.golang.org/grpc/credentials"},
		Why:      "only cmd knows where spans go; this package knows nothing of hand-overs.",
	})
}
