package sessions

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{"consumer", "handover/wire", "secret", "tracing"},
		Why:      "what adapters share knows no driver, and nothing of the service",
	})
}
