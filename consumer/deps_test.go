package consumer

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{"handover/wire", "secret"},
		External: []string{"github.com/nats-io/nats.go", "github.com/nats-io/nkeys"},
		Why:      "an application must not carry the service with it",
	})
}
