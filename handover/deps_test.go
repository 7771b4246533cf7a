package handover

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{"handover/wire", "secret"},
		External: []string{"github.com/nats-io/nats.go", "github.com/nats-io/nkeys"},
		Why:      "the protocol knows nothing of Vault, the log or the cells",
	})
}
