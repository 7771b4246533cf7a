package story_test

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{"events", "leasecore"},
		Why:      "a story is a function of the log, told the same by whoever reads it.",
	})
}
