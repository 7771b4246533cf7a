package metrics_test

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{"events"},
		External: []string{"github.com/prometheus/client_golang"},
		Why:      "the metrics are told what there is to say; the service knows where it comes from.",
	})
}
