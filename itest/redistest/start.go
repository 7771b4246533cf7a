package redistest

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/redisserver"
)

// Server is one private Redis server. A test does not close it: Start's
// cleanup or [Main] does.
type Server = redisserver.Server

// Start starts a server for t and stops it at t's end. It ends t when there is
// no Redis to start.
func Start(t testing.TB) *Server {
	t.Helper()
	s, err := redisserver.Open()
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("redistest: %v", err)
		}
	})
	return s
}
