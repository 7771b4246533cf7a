package rabbitserver

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{"internal/privateserver", "internal/process", "secret"},
		Why:      "a server to try things on knows nothing of who tries them, nor of the clients that are tried on it",
	})
}
