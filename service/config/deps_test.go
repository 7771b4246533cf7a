package config_test

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{"events", "secret"},
		External: []string{"github.com/nats-io/nkeys", "go.yaml.in/yaml/v4"},
		Why:      "The files are read without knowing who will use them; what a driver thinks of a DSN comes in as a hook (CheckVerifier).",
	})
}
