package audit_test

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{"events", "leasecore"},
		Why:      "an audit is a function of the log; it must not depend on the code that writes it.",
	})
}
