package mysqlserver

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
)

// ErrNotInstalled tells that this machine has no MariaDB that [Open] could
// start. The error that wraps it says what is missing and what to install.
var ErrNotInstalled = errors.New("no MariaDB installed")

// programs are what a server needs.
type programs struct{ server, install string }

// places is where Debian has the server, which is in root's PATH only.
var places = []string{"/usr/sbin", "/usr/bin"}

func find() (programs, error) {
	server, errServer := look("mariadbd")
	install, errInstall := look("mariadb-install-db")
	if errServer != nil || errInstall != nil {
		return programs{}, fmt.Errorf("%w: no mariadbd and mariadb-install-db in PATH; install MariaDB 10.6 or newer"+
			" (Debian: apt-get install mariadb-server; in the source tree: scripts/install-test-deps)", ErrNotInstalled)
	}
	return programs{server, install}, nil
}

func look(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	for _, dir := range places {
		if path, ok := exec.LookPath(filepath.Join(dir, name)); ok == nil {
			return path, nil
		}
	}
	return "", err
}
