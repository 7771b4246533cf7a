package clustertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/leasesvc/leasesvc/itest/secrettest"
)

// programs are built once for all tests of a test binary.
var programs struct {
	sync.Mutex
	dir  string
	path map[string]string
}

const (
	natsServer = "github.com/nats-io/nats-server/v2"
	leasesvc   = "./cmd/leasesvc"
)

// program builds a command once and gives its path.
func program(t testing.TB, pkg string) string {
	t.Helper()
	programs.Lock()
	defer programs.Unlock()
	if path := programs.path[pkg]; path != "" {
		return path
	}
	if programs.dir == "" {
		dir, err := os.MkdirTemp("", "leasesvc-clustertest-")
		if err != nil {
			t.Fatalf("clustertest: make a directory for the programs: %v", err)
		}
		programs.dir, programs.path = dir, map[string]string{}
	}
	root, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatalf("clustertest: find the module: %v", err)
	}
	path := filepath.Join(programs.dir, fmt.Sprintf("program-%d", len(programs.path)))
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, pkg)
	build.Dir = strings.TrimSpace(string(root))
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("clustertest: go build %s: %v\n%s", pkg, err, out)
	}
	programs.path[pkg] = path
	return path
}

// Main is the TestMain of a package that uses this one: it runs the tests,
// removes the programs that were built for them, and looks for goroutines that
// were left behind and for secrets that left.
func Main(m *testing.M) {
	code := secrettest.Main(m).Run()
	programs.Lock()
	if programs.dir != "" {
		_ = os.RemoveAll(programs.dir)
	}
	programs.Unlock()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
