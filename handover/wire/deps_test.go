package wire

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{"secret"},
		External: []string{"github.com/nats-io/nkeys", "golang.org/x/crypto/nacl/box"},
		Why:      "applications import the messages, so the messages import no driver and nothing of the service",
	})
}
