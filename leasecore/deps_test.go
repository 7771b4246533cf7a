package leasecore_test

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{"events"},
		Why:      "The core is pure: commands, time and ids go in, events and effects come out. Input and output belong to service.",
	})
}
