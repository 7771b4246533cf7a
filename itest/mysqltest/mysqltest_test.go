package mysqltest_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leasesvc/leasesvc/itest/mysqltest"
)

// goleak sees a shared server that Main did not stop.
func TestMain(m *testing.M) { goleak.VerifyTestMain(mysqltest.Main(m)) }

func TestSharedGivesOneServer(t *testing.T) {
	s := mysqltest.Shared(t)
	if err := s.Login(t.Context(), s.Superuser(), s.Password()); err != nil {
		t.Fatal(err)
	}
	if mysqltest.Shared(t) != s {
		t.Fatal("the second call started another server")
	}
}

func TestCleanupRemovesServerAndFiles(t *testing.T) {
	var addr, dir string
	t.Run("a test with a server", func(t *testing.T) {
		s := mysqltest.Start(t)
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
