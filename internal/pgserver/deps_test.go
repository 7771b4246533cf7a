package pgserver

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{"internal/privateserver", "internal/process", "secret"},
		External: []string{"github.com/jackc/pgx/v5"},
		Why:      "a server to try things on knows nothing of who tries them",
	})
}

// Package testing would put its flags into leasesvc's command line.
func TestNoPackageTestingInside(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	deps := strings.Fields(string(out))
	if !slices.Contains(deps, arrows.Module+"/internal/process") {
		t.Fatalf("go list gave not this package's imports: %v", deps)
	}
	if slices.Contains(deps, "testing") {
		t.Error("leasesvc dev would be built with package testing")
	}
}
