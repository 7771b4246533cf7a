package devvault_test

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{"secret"},
		External: []string{"github.com/go-sql-driver/mysql", "github.com/hashicorp/hcl", "github.com/jackc/pgx/v5"},
		Why:      "devvault stands in for a server of somebody else's: it must not know how leasesvc uses one",
	})
}
