package sqllease

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{"consumer", "consumer/sessions", "handover/wire", "secret", "tracing"},
		External: []string{"github.com/go-sql-driver/mysql", "github.com/jackc/pgx/v5"},
		Why:      "an adapter knows its drivers and the consumer library, nothing of the service",
	})
}
