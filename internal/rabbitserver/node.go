package rabbitserver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
)

// configure writes the broker's configuration for the ports found.
func (s *Server) configure() error {
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
`, s.ports.amqp, s.ports.management, administrator, s.password.Reveal()),
	} {
		if err := os.WriteFile(s.file(name), []byte(content), 0o600); err != nil {
			return fmt.Errorf("write the broker's %s: %w", name, err)
		}
	}
	return nil
}

// mapperCommand runs Erlang's port mapper in the foreground: the one a broker
// would start by itself is a daemon that stays behind.
func (s *Server) mapperCommand() *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), s.programs.epmd, "-port", strconv.Itoa(s.ports.epmd), "-address", "127.0.0.1")
	cmd.Dir, cmd.Env = s.dir, s.environment()
	return cmd
}

func (s *Server) brokerCommand() *exec.Cmd {
	// No context ends it: its owner does, in order.
	cmd := exec.CommandContext(context.Background(), s.programs.server)
	cmd.Dir, cmd.Env = s.dir, s.environment()
	return cmd
}

// environment is all that the broker inherits: a RABBITMQ_* of the caller's
// would change what it is, and so would the system's configuration files, which
// are named away.
func (s *Server) environment() []string {
	return []string{
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin", "LC_ALL=C.UTF-8", "TZ=UTC", "HOME=" + s.dir,
		"ERL_EPMD_PORT=" + strconv.Itoa(s.ports.epmd), "ERL_EPMD_ADDRESS=127.0.0.1",
		"ERL_CRASH_DUMP_SECONDS=0",
		// The script then becomes the Erlang machine instead of waiting for
		// it: the process we signal, and the kernel kills, is the broker.
		"RUNNING_UNDER_SYSTEMD=true",
		"RABBITMQ_CONF_ENV_FILE=" + s.file("none.conf"),
		"RABBITMQ_NODENAME=leasesvc-" + strconv.Itoa(s.ports.amqp) + "@localhost",
		"RABBITMQ_DIST_PORT=" + strconv.Itoa(s.ports.distribution),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}",
		"RABBITMQ_CONFIG_FILE=" + s.file("rabbitmq.conf"),
		"RABBITMQ_ADVANCED_CONFIG_FILE=" + s.file("none.config"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + s.file("enabled_plugins"),
		"RABBITMQ_MNESIA_BASE=" + s.file("data"),
		"RABBITMQ_LOG_BASE=" + s.file("logs"),
		"RABBITMQ_PID_FILE=" + s.file("pid"),
		"RABBITMQ_GENERATED_CONFIG_DIR=" + s.file("generated"),
	}
}
