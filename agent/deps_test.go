package agent

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{
			"agent/child", "agent/file", "agent/hook", "agent/render", "consumer", "events", "handover/document", "handover/wire", "secret", "service/config", "tracing",
		},
		External: []string{"golang.org/x/sync"},
		Why:      "the agent is a consumer: it knows the service by the protocol alone.",
	})
}
