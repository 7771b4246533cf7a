package document

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{"secret"},
		Why:      "documents are pure: who reads, publishes and seals is the caller's",
	})
}
