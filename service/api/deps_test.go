package api_test

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{"events"},
		External: []string{"github.com/nats-io"},
		Why:      "the operators' messages are what the commands and the service share; they know neither of them.",
	})
}
