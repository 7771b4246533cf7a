package rabbitserver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"github.com/leasesvc/leasesvc/internal/privateserver"
)

// configure writes the broker's configuration for the ports found.
func (s *Server) configure(p ports) error {
	for name, content := range map[string]string{
		"enabled_plugins": "[rabbitmq_management].\n",
		"rabbitmq.conf": fmt.Sprintf(`listeners.tcp.1 = 127.0.0.1:%d
management.tcp.ip = 127.0.0.1
management.tcp.port = %d
default_user = %s
default_pass = %s
default_user_tags.administrator = true
disk_free_limit.absolute = 1MB
log.console = true
log.console.level = info
log.file = false
`, p.amqp, p.management, administrator, s.Password()),
	} {
		if err := os.WriteFile(s.File(name), []byte(content), 0o600); err != nil {
			return fmt.Errorf("write the broker's %s: %w", name, err)
		}
	}
	return nil
}

// commands are Erlang's port mapper in the foreground, since the one that a broker
// would start by itself is a daemon that stays behind, and the broker.
func (s *Server) commands(found []int) ([]privateserver.Command, error) {
	p := portsOf(found)
	if err := s.configure(p); err != nil {
		return nil, err
	}
	run := func(log, program string, args ...string) privateserver.Command {
		cmd := exec.CommandContext(context.Background(), program, args...)
		cmd.Dir, cmd.Env = s.Dir(), s.environment(p)
		return privateserver.Command{Cmd: cmd, Log: log}
	}
	return []privateserver.Command{
		run("epmd.log", s.programs.epmd, "-port", strconv.Itoa(p.epmd), "-address", "127.0.0.1"),
		run("log", s.programs.server),
	}, nil
}

// environment is all that the broker inherits: a RABBITMQ_* of the caller's
// would change what it is, and so would the system's configuration files, which
// are named away.
func (s *Server) environment(p ports) []string {
	return []string{
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin", "LC_ALL=C.UTF-8", "TZ=UTC", "HOME=" + s.Dir(),
		"ERL_EPMD_PORT=" + strconv.Itoa(p.epmd), "ERL_EPMD_ADDRESS=127.0.0.1",
		"ERL_CRASH_DUMP_SECONDS=0",
		// The script then becomes the Erlang machine instead of waiting for
		// it: the process we signal, and the kernel kills, is the broker.
		"RUNNING_UNDER_SYSTEMD=true",
		"RABBITMQ_CONF_ENV_FILE=" + s.File("none.conf"),
		"RABBITMQ_NODENAME=leasesvc-" + strconv.Itoa(p.amqp) + "@localhost",
		"RABBITMQ_DIST_PORT=" + strconv.Itoa(p.distribution),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}",
		"RABBITMQ_CONFIG_FILE=" + s.File("rabbitmq.conf"),
		"RABBITMQ_ADVANCED_CONFIG_FILE=" + s.File("none.config"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + s.File("enabled_plugins"),
		"RABBITMQ_MNESIA_BASE=" + s.File("data"),
		"RABBITMQ_LOG_BASE=" + s.File("logs"),
		"RABBITMQ_PID_FILE=" + s.File("pid"),
		"RABBITMQ_GENERATED_CONFIG_DIR=" + s.File("generated"),
	}
}
