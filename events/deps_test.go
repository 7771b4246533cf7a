package events

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		External: []string{"github.com/cockroachdb/apd/v3"},
		Why:      "The catalogue is what everybody shares, so it depends on nobody.",
	})
}
