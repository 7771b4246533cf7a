package proctest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Build builds a command of this module, such as "./cmd/leasesvc", with more
// flags of go build if given ("-race"), and returns the program's path. It is
// gone at t's end.
func Build(t testing.TB, pkg string, flags ...string) string {
	t.Helper()
	root, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatalf("proctest: find the module: %v", err)
	}
	program := filepath.Join(t.TempDir(), filepath.Base(pkg))
	build := exec.CommandContext(t.Context(), "go", append(append([]string{"build", "-o", program}, flags...), pkg)...)
	build.Dir = strings.TrimSpace(string(root))
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("proctest: go build %s: %v\n%s", pkg, err, out)
	}
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("proctest: go build %s made no program: %v", pkg, err)
	}
	return program
}
