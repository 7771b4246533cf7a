package rabbittest_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leasesvc/leasesvc/itest/rabbittest"
)

// goleak sees a shared server that Main did not stop.
func TestMain(m *testing.M) { goleak.VerifyTestMain(rabbittest.Main(m)) }

func TestSharedGivesOneServer(t *testing.T) {
	s := rabbittest.Shared(t)
	if err := s.Login(t.Context(), s.Administrator(), s.Password(), "/"); err != nil {
		t.Fatal(err)
	}
	if rabbittest.Shared(t) != s {
		t.Fatal("the second call started another server")
	}
}

func TestCleanupRemovesServerAndFiles(t *testing.T) {
	var addr, dir string
	t.Run("a test with a server", func(t *testing.T) {
		s := rabbittest.Start(t)
		addr, dir = s.Addr(), filepath.Dir(s.Log())
		if _, err := os.Stat(dir); err != nil {
			t.Fatal(err)
		}
	})
	if c, err := net.DialTimeout("tcp4", addr, time.Second); err == nil {
		c.Close()
		t.Fatal("the server outlived its test")
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Fatalf("%s outlived its test: %v", dir, err)
	}
}
