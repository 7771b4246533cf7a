package secrettest

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{Why: "what looks for secrets everywhere hangs on nothing that it looks at"})
}
