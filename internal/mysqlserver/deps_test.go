package mysqlserver

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{"internal/privateserver", "internal/process", "secret"},
		External: []string{"github.com/go-sql-driver/mysql"},
		Why:      "a server to try things on knows nothing of who tries them",
	})
}
