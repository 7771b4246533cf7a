package privateserver

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{"internal/process", "secret"},
		Why:      "what runs any server knows none of them",
	})
}
