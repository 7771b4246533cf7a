package process

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{Why: "a child process is the operating system's, and the standard library's"})
}
