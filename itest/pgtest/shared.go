package pgtest

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/leasesvc/leasesvc/internal/pgserver"
)

var shared struct {
	mu     sync.Mutex
	server *Server
	err    error
}

// Shared gives the server that all tests of this binary share, starting it on
// the first call: for tests that make roles and databases with names of their
// own and never stop the server. [Main] stops it.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server == nil && shared.err == nil {
		shared.server, shared.err = pgserver.Open()
	}
	if shared.err != nil {
		t.Fatalf("pgtest: %v", shared.err)
	}
	return shared.server
}

// Main wraps m so that the shared server is stopped after the tests ran. It
// is for TestMain, with goleak or without:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Main(m)) }
//	func TestMain(m *testing.M) { os.Exit(pgtest.Main(m).Run()) }
func Main(m *testing.M) interface{ Run() int } { return stopping{m} }

type stopping struct{ m *testing.M }

func (r stopping) Run() int {
	code := r.m.Run()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server == nil {
		return code
	}
	if err := shared.server.Close(); err != nil {
		fmt.Fprintf(os.Stderr, "pgtest: %v\n", err)
		code = max(code, 1)
	}
	shared.server = nil
	return code
}
