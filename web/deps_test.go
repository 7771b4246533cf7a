package web_test

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{"events", "events/journal", "leasecore", "projector", "secret", "story"},
		External: []string{"golang.org/x/sync", "golang.org/x/time"},
		Why:      "the page reads the log and nothing else: it can't reach Vault, sealed values or an appender.",
	})
}
