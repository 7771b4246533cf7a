package redisserver

import (
	"errors"
	"fmt"
	"os/exec"
)

// ErrNotInstalled tells that this machine has no Redis that [Open] could
// start. The error that wraps it says what is missing and what to install.
var ErrNotInstalled = errors.New("no Redis installed")

func binary() (string, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return "", fmt.Errorf("%w: no redis-server in PATH; install Redis 6 or newer"+
			" (Debian: apt-get install redis-server; in the source tree: scripts/install-test-deps)", ErrNotInstalled)
	}
	return path, nil
}
