package otlptest

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		External: []string{"go.opentelemetry.io/proto/otlp", "google.golang.org/grpc", "google.golang.org/protobuf"},
		Why:      "a collector that knew our exporter would show nothing.",
	})
}
