package rabbitserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// ErrNotInstalled tells that this machine has no RabbitMQ that [Open] could
// start. The error that wraps it says what is missing and what to install.
var ErrNotInstalled = errors.New("RabbitMQ is not installed")

// places is where the server's script is looked for. What Debian puts into
// PATH is another script, which changes to the user rabbitmq and to the
// system's own directories: it is of no use here.
var places = []string{"/usr/lib/rabbitmq/bin", "/opt/rabbitmq/sbin", "/usr/local/sbin", "/opt/homebrew/sbin"}

// programs are what it takes to run a broker.
type programs struct{ server, epmd string }

func find(places []string) (programs, error) {
	missing := func(what string) error {
		return fmt.Errorf("%w: no %s; install RabbitMQ 3.10 or newer"+
			" (Debian: apt-get install rabbitmq-server; in the source tree: scripts/install-test-deps)", ErrNotInstalled, what)
	}
	epmd, err := exec.LookPath("epmd")
	if err != nil {
		return programs{}, missing("epmd (Erlang's port mapper) in PATH")
	}
	for _, dir := range places {
		path := filepath.Join(dir, "rabbitmq-server")
		if fi, err := os.Stat(path); err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
			return programs{server: path, epmd: epmd}, nil
		}
	}
	return programs{}, missing(fmt.Sprintf("rabbitmq-server in %v", places))
}
