package pgtest

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/pgserver"
)

// Server is one private PostgreSQL server. A test does not close it: Start's
// cleanup or [Main] does.
type Server = pgserver.Server

// Start starts a server for t and stops it at t's end. It ends t when there is
// no PostgreSQL to start.
func Start(t testing.TB) *Server {
	t.Helper()
	s, err := pgserver.Open()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return s
}
