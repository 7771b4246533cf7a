package pgserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
)

// ErrNotInstalled tells that this machine has no PostgreSQL that [Open] could
// start. The error that wraps it says what is missing and what to install.
var ErrNotInstalled = errors.New("PostgreSQL is not installed")

// debianBinaries is where Debian keeps what it leaves out of PATH.
const debianBinaries = "/usr/lib/postgresql/*/bin"

const howToInstall = "install PostgreSQL 13 or newer, the server with initdb and postgres" +
	" (Debian: apt-get install postgresql; in the source tree: scripts/install-test-deps)"

// binaries finds the directory that holds initdb and postgres: of those that
// the pattern "…/version/bin" matches the newest, else the one in PATH.
func binaries(pattern string) (string, error) {
	dirs, err := filepath.Glob(pattern)
	if err != nil {
		return "", fmt.Errorf("look for PostgreSQL in %s: %w", pattern, err)
	}
	version := func(dir string) int {
		v, _ := strconv.Atoi(filepath.Base(filepath.Dir(dir))) // 0 for a name that is no number: tried last
		return v
	}
	slices.SortFunc(dirs, func(a, b string) int { return version(b) - version(a) })
	if p, err := exec.LookPath("postgres"); err == nil {
		dirs = append(dirs, filepath.Dir(p))
	}
	for _, dir := range dirs {
		if executable(filepath.Join(dir, "initdb")) && executable(filepath.Join(dir, "postgres")) {
			return dir, nil
		}
	}
	return "", fmt.Errorf("%w: no initdb and postgres in %s, none in PATH; %s", ErrNotInstalled, pattern, howToInstall)
}

func executable(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0
}
