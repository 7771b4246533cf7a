package mysqltest

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/mysqlserver"
)

// Server is one private MariaDB server. A test does not close it: Start's
// cleanup or [Main] does.
type Server = mysqlserver.Server

// Start starts a server for t and stops it at t's end. It ends t when there is
// no MariaDB to start.
func Start(t testing.TB) *Server {
	t.Helper()
	s, err := mysqlserver.Open()
	if err != nil {
		t.Fatalf("mysqltest: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("mysqltest: %v", err)
		}
	})
	return s
}
