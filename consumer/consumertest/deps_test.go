package consumertest

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{"handover", "handover/wire", "secret"},
		External: []string{"github.com/nats-io/nats.go"},
		Why:      "the scripted holder speaks the real protocol and must work for any consumer library, so it knows none",
	})
}
