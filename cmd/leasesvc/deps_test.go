package main

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{
			"consumer", "consumer/pgxlease", "devvault", "epochkv", "events", "events/journal", "handover", "handover/verify", "handover/wire",
			"internal/failpoint", "internal/pgserver", "internal/process", "leasecore", "projector", "secret", "service", "service/api",
			"service/config", "vault", "web",
		},
		External: []string{"*"},
		Why:      "cmd wires; it brings nothing of the tests, the simulator or the harness into the program.",
	})
}
