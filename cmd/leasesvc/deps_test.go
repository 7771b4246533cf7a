package main

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{
			"agent", "agent/child", "agent/file", "agent/hook", "agent/render", "audit", "consumer", "consumer/conformance", "consumer/consumertest", "consumer/pgxlease", "consumer/sessions",
			"devvault", "epochkv", "events", "events/journal", "handover", "handover/document", "handover/verify", "handover/wire",
			"internal/failpoint", "internal/garbage", "internal/pgserver", "internal/privateserver", "internal/process", "leasecore", "ledger", "projector", "screen", "secret", "service", "service/api",
			"service/config", "service/metrics", "snapshot", "story", "tracing", "tracing/otlp", "vault", "web",
		},
		External: []string{"*"},
		Why:      "cmd wires; it brings nothing of the tests, the simulator or the harness into the program.",
	})
}
