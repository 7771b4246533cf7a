package vault

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{"secret"},
		External: []string{"github.com/hashicorp/vault/api", "github.com/cockroachdb/apd/v3"},
		Why:      "vault speaks to Vault and knows nothing of events, cells or hand-overs; what a lease means is decided in leasecore.",
	})
}
