package journal

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{"events"},
		External: []string{"github.com/nats-io/nats.go", "github.com/nats-io/nuid"},
		Why:      "the log knows how events are stored, not what they mean together nor who may write them",
	})
}
