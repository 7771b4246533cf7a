package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"

	"github.com/leasesvc/leasesvc/itest/proctest"
	"github.com/leasesvc/leasesvc/service"
	"github.com/leasesvc/leasesvc/service/config"
)

// TestScriptsAreShell that sh, or bash, reads, and in which shellcheck finds nothing to
// warn of: those of the images, and those of the repository.
func TestScriptsAreShell(t *testing.T) {
	scripts, err := filepath.Glob("../scripts/*")
	if err != nil || len(scripts) < 3 {
		t.Fatalf("%d scripts (%v)", len(scripts), err)
	}
	for _, script := range append(scripts, "keys.sh", "openbao/setup.sh", "../.ci/run", "../spec/check") {
		if out, err := exec.Command("shellcheck", "--severity=warning", script).CombinedOutput(); err != nil {
			t.Errorf("shellcheck %s: %v (scripts/install-test-deps installs it)\n%s", script, err, out)
		}
	}
	for _, script := range []string{"keys.sh", "openbao/setup.sh"} {
		if out, err := exec.Command("sh", "-n", script).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
	}
}

// withPrograms gives a directory with the programs, to put into a PATH.
func withPrograms(t *testing.T, programs map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, path := range programs {
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// script runs one of ours with more in its environment.
func script(t *testing.T, file, path string, environment ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", file)
	cmd.Env = append([]string{"PATH=" + path + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, environment...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", file, err, out)
	}
}

// keys runs keys.sh into a directory.
func keys(t *testing.T, secrets string) {
	t.Helper()
	nk := proctest.Build(t, "github.com/nats-io/nkeys/nk")
	script(t, "keys.sh", withPrograms(t, map[string]string{"nk": nk}), "SECRETS="+secrets, "FROM=.")
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// TestKeysAreMadeOnce, only for whom they are, and the configuration that comes with
// them names the demo by its key.
func TestKeysAreMadeOnce(t *testing.T) {
	secrets := t.TempDir()
	keys(t, secrets)
	first := map[string]string{}
	for _, name := range []string{"nats-password", "http-token", "prometheus-token", "seal.key", "demo.nk", "service-key"} {
		path := filepath.Join(secrets, name)
		first[name] = read(t, path)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %s", name, info.Mode())
		}
	}
	if first["http-token"] != first["prometheus-token"] || first["http-token"] == first["nats-password"] || len(first["http-token"]) < 32 {
		t.Error("the tokens are not what they should be")
	}
	pair, err := nkeys.FromCurveSeed([]byte(first["seal.key"]))
	if err != nil {
		t.Fatal(err)
	}
	if public, err := pair.PublicKey(); err != nil || public != first["service-key"] {
		t.Errorf("service-key is not that of seal.key (%v)", err)
	}
	pair, err = nkeys.FromSeed([]byte(first["demo.nk"]))
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(filepath.Join(secrets, "leasesvc", "leasesvc.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defs, err := c.LoadDefinitions("demo")
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range defs.Leases {
		if len(d.Consumers) != 1 || d.Consumers[0].Key != public {
			t.Errorf("%s is not the demo's: %+v", name, d.Consumers)
		}
	}

	keys(t, secrets)
	for name, was := range first {
		if read(t, filepath.Join(secrets, name)) != was {
			t.Errorf("%s was replaced", name)
		}
	}
}

// TestSetUpGivesWhatVaultPolicyPrints: the policies and the token role of setup.sh are
// those of `leasesvc vault-policy` for these definitions, to the letter.
func TestSetUpGivesWhatVaultPolicyPrints(t *testing.T) {
	c, err := config.Load("leasesvc/leasesvc.yaml")
	if err != nil {
		t.Fatal(err)
	}
	printed, err := service.VaultPolicy(c, "bao")
	if err != nil {
		t.Fatal(err)
	}
	if text := read(t, "openbao/setup.sh"); !strings.Contains(text, printed) {
		t.Errorf("setup.sh does not have this, which leasesvc vault-policy prints:\n%s", printed)
	}
}

// TestEachPathIsSetUp: what the definitions read, the script has a role for.
func TestEachPathIsSetUp(t *testing.T) {
	c, err := config.Load("leasesvc/leasesvc.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defs, err := c.LoadDefinitions("demo")
	if err != nil {
		t.Fatal(err)
	}
	kinds, text := map[string]bool{}, read(t, "openbao/setup.sh")
	for _, d := range defs.Leases {
		kinds[string(d.Kind)] = true
		role := strings.Replace(d.Path, "/creds/", "/roles/", 1)
		if !regexp.MustCompile(`(?m)^bao write ` + regexp.QuoteMeta(role) + ` `).MatchString(text) {
			t.Errorf("setup.sh makes no role %s", role)
		}
	}
	for _, kind := range []string{"postgresql", "rabbitmq", "redis"} {
		if !kinds[kind] {
			t.Errorf("no definition is of kind %s", kind)
		}
	}
}
