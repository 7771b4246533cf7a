package conformance

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{"consumer/consumertest", "handover", "handover/wire", "secret"},
		External: []string{"github.com/nats-io"},
		Why:      "it looks at consumers of any language, so it knows no consumer library",
	})
}
