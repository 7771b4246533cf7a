package mysqltest

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/leasesvc/leasesvc/internal/mysqlserver"
)

var shared struct {
	mu     sync.Mutex
	server *Server
	err    error
}

// Shared gives the server that all tests of this binary share, starting it on
// the first call: for tests that make accounts with names of their own and
// never stop the server. [Main] stops it.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server == nil && shared.err == nil {
		shared.server, shared.err = mysqlserver.Open()
	}
	if shared.err != nil {
		t.Fatalf("mysqltest: %v", shared.err)
	}
	return shared.server
}

// Runner is a *testing.M, or what another package's Main made of one.
type Runner = interface{ Run() int }

// Main wraps m so that the shared server is stopped after the tests ran. It is
// for TestMain, and may be put around another package's:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(mysqltest.Main(pgtest.Main(m))) }
func Main(m Runner) Runner { return stopping{m} }

type stopping struct{ m Runner }

func (r stopping) Run() int {
	code := r.m.Run()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server == nil {
		return code
	}
	if err := shared.server.Close(); err != nil {
		fmt.Fprintf(os.Stderr, "mysqltest: %v\n", err)
		code = max(code, 1)
	}
	shared.server = nil
	return code
}
