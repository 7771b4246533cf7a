package secret_test

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{Why: "everybody carries secrets, so what carries them depends on nobody."})
}
