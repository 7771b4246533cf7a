package pgserver

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func put(t *testing.T, dir string, programs ...string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range programs {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNewestCompleteVersionIsTaken(t *testing.T) {
	root, path := t.TempDir(), t.TempDir()
	t.Setenv("PATH", path)
	put(t, path, "initdb", "postgres")
	put(t, filepath.Join(root, "9", "bin"), "initdb", "postgres")
	put(t, filepath.Join(root, "15", "bin"), "initdb", "postgres")
	put(t, filepath.Join(root, "17", "bin"), "psql") // only a client
	pattern := filepath.Join(root, "*", "bin")
	if got, err := binaries(pattern); err != nil || got != filepath.Join(root, "15", "bin") {
		t.Fatalf("got %q, %v", got, err)
	}
	if got, err := binaries(filepath.Join(root, "none")); err != nil || got != path {
		t.Fatalf("without Debian's directories: got %q, %v", got, err)
	}
}

func TestMissingPostgreSQLSaysWhatToInstall(t *testing.T) {
	root := t.TempDir()
	t.Setenv("PATH", root)
	_, err := binaries(filepath.Join(root, "*", "bin"))
	if !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), "apt-get install postgresql") {
		t.Fatalf("got %v", err)
	}
}
