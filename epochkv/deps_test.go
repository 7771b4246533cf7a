package epochkv

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		External: []string{"github.com/nats-io/nats.go", "golang.org/x/sys/unix", "github.com/google/renameio/v2"},
		Why:      "who holds a scope is decided without knowing what a scope is for: epochkv knows no other package of the house",
	})
}
