package rabbittest

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/rabbitserver"
)

// Server is one private RabbitMQ broker. A test does not close it: Start's
// cleanup or [Main] does.
type Server = rabbitserver.Server

// Start starts a broker for t and stops it at t's end. It ends t when there is
// no RabbitMQ to start.
func Start(t testing.TB) *Server {
	t.Helper()
	s, err := rabbitserver.Open()
	if err != nil {
		t.Fatalf("rabbittest: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("rabbittest: %v", err)
		}
	})
	return s
}
