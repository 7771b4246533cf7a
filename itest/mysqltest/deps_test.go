package mysqltest

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{"internal/mysqlserver", "internal/privateserver", "internal/process", "secret"},
		Why:      "what is tested with it must not be in it",
	})
}
