package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/itest/proctest"
	"github.com/leasesvc/leasesvc/service/config"
)

const installed = "/usr/local/bin/leasesvc"

// unit reads a unit's settings; one that stands several times has several values.
func unit(t *testing.T, file string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok && !strings.HasPrefix(key, "#") {
			settings[key] = append(settings[key], value)
		}
	}
	return settings
}

// TestUnitsAreWhatSystemdAccepts, without a warning, and how exposed they leave the
// service is bounded (0 is not at all, 10 is as a plain service of root's).
func TestUnitsAreWhatSystemdAccepts(t *testing.T) {
	program := proctest.Build(t, "github.com/leasesvc/leasesvc/cmd/leasesvc")
	for file, u := range map[string]struct{ as, exposure string }{
		"systemd/leasesvc.service":        {"leasesvc.service", "15"},
		"systemd/leasesvc-agent@.service": {"leasesvc-agent@orders.service", "50"},
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "\nExecStart="+installed+" ") {
			t.Errorf("%s does not start %s", file, installed)
		}
		// It looks for the program, which is installed somewhere else here.
		path := filepath.Join(t.TempDir(), u.as)
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(text), "="+installed+" ", "="+program+" ")), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"verify", "--man=no"}, {"security", "--offline=true", "--threshold=" + u.exposure, "--no-pager"}} {
			out, err := exec.Command("systemd-analyze", append(args, path)...).CombinedOutput()
			if err != nil || args[0] == "verify" && len(out) > 0 {
				t.Errorf("systemd-analyze %v %s: %v (scripts/install-test-deps installs it)\n%s", args, file, err, out)
			}
		}
	}
}

// TestUnitFitsItsServiceFile: what leasesvc.yaml reads is what the unit hands over and
// makes, a stop has the time it may take, and the exit codes are those that the
// program has.
func TestUnitFitsItsServiceFile(t *testing.T) {
	u := unit(t, "systemd/leasesvc.service")
	c, err := config.Load("systemd/leasesvc.yaml")
	if err != nil {
		t.Fatal(err)
	}
	handed := map[string]bool{}
	for _, l := range u["LoadCredential"] {
		name, _, _ := strings.Cut(l, ":")
		handed["/run/credentials/leasesvc.service/"+name] = false
	}
	login := c.Vaults["main"].Login.AppRole
	for _, path := range []string{c.SealKey.File, c.NATS.CredentialsFile, login.RoleIDFile, login.SecretIDFile} {
		if _, ok := handed[path]; !ok {
			t.Errorf("leasesvc.yaml reads %s, which the unit does not hand over", path)
		}
		handed[path] = true
	}
	for path, read := range handed {
		if !read {
			t.Errorf("the unit hands %s over, which leasesvc.yaml does not read", path)
		}
	}
	if c.StateDir != "/var/lib/"+u["StateDirectory"][0] {
		t.Errorf("state_dir is %s, the unit makes %s", c.StateDir, u["StateDirectory"])
	}
	stop, err := time.ParseDuration(u["TimeoutStopSec"][0])
	if err != nil || stop <= c.ShutdownTimeout.Duration() {
		t.Errorf("the unit gives a stop %s, shutdown_timeout is %s", u["TimeoutStopSec"], c.ShutdownTimeout)
	}
	for key, want := range map[string]string{
		"Type": "exec", "Restart": "on-failure", "RestartPreventExitStatus": "2 78", "DynamicUser": "yes",
		"ProtectSystem": "strict", "NoNewPrivileges": "yes", "LimitCORE": "0",
	} {
		if got := strings.Join(u[key], ","); got != want {
			t.Errorf("%s=%s, not %s", key, got, want)
		}
	}
}

// TestAgentsUnitFitsItsFile: the file reads what the unit hands over, and writes where
// the unit lets it.
func TestAgentsUnitFitsItsFile(t *testing.T) {
	u := unit(t, "systemd/leasesvc-agent@.service")
	c, err := config.LoadAgent("systemd/orders.yaml")
	if err != nil {
		t.Fatal(err)
	}
	name, _, _ := strings.Cut(u["LoadCredential"][0], ":")
	if want := "/run/credentials/leasesvc-agent@orders.service/" + name; c.SeedFile != want {
		t.Errorf("seed_file is %s, the unit hands over %s", c.SeedFile, want)
	}
	for target, x := range c.Targets {
		if dir := "/run/" + strings.ReplaceAll(u["RuntimeDirectory"][0], "%i", "orders"); filepath.Dir(x.Path) != dir {
			t.Errorf("target %s writes to %s, the unit makes %s", target, x.Path, dir)
		}
		if stop, err := time.ParseDuration(u["TimeoutStopSec"][0]); err != nil || x.Hook != nil && stop <= x.Hook.Timeout.Duration() {
			t.Errorf("a stop has %s, a hook %s", stop, x.Hook.Timeout)
		}
	}
	if u["RuntimeDirectoryPreserve"][0] != "yes" {
		t.Error("the files go when the agent stops, and applications live on them")
	}
}
