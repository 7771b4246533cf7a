package service_test

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{
			"epochkv", "events", "events/journal", "handover", "handover/document", "handover/verify", "handover/wire", "internal/failpoint",
			"leasecore", "projector", "secret", "service/api", "service/config", "service/metrics", "snapshot", "story", "tracing", "vault", "web",
		},
		External: []string{"github.com/nats-io", "go.opentelemetry.io/otel/attribute", "go.opentelemetry.io/otel/trace", "golang.org/x/sync", "golang.org/x/sys"},
		Why:      "service brings the parts together; devvault, the consumers' library and the tests' servers are no part of it.",
	})
}
