package docs

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/internal/process"
	"github.com/leasesvc/leasesvc/itest/pgtest"
	"github.com/leasesvc/leasesvc/itest/proctest"
)

var shellBlock = regexp.MustCompile("(?ms)^```sh( [a-z]+)?\n(.*?)^```$")

// pasted is what the quick start has people paste: all but what installs programs and
// starts servers.
func pasted(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("quickstart.md")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	blocks := shellBlock.FindAllStringSubmatch(string(text), -1)
	for _, m := range blocks {
		if m[1] == "" {
			b.WriteString(m[2])
		}
	}
	if len(blocks) < 10 || strings.Count(string(text), "```")/2 != len(blocks) {
		t.Fatalf("%d blocks for the shell, of %d in all", len(blocks), strings.Count(string(text), "```")/2)
	}
	return b.String()
}

// TestQuickStartIsShell that sh reads, with and without a server to run it on.
func TestQuickStartIsShell(t *testing.T) {
	cmd := exec.Command("sh", "-n")
	cmd.Stdin = strings.NewReader(pasted(t))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestQuickStartRuns as it is pasted, on an OpenBao in development mode and a private
// PostgreSQL; what it promises comes to pass.
func TestQuickStartRuns(t *testing.T) {
	bao := os.Getenv("LEASESVC_TEST_BAO")
	if bao == "" {
		bao, _ = exec.LookPath("bao")
	}
	if bao == "" {
		t.Log("no OpenBao (LEASESVC_TEST_BAO, or bao on the PATH): the commands were read, not run")
		return
	}
	dir, programs := t.TempDir(), t.TempDir()
	for name, path := range map[string]string{
		"bao": bao, "leasesvc": proctest.Build(t, "github.com/leasesvc/leasesvc/cmd/leasesvc"), "nk": proctest.Build(t, "github.com/nats-io/nkeys/nk"),
	} {
		if err := os.Symlink(path, filepath.Join(programs, name)); err != nil {
			t.Fatal(err)
		}
	}
	postgres := pgtest.Start(t)
	host, port, err := net.SplitHostPort(postgres.Addr())
	if err != nil {
		t.Fatal(err)
	}
	vault, nats, page := freePort(t), freePort(t), freePort(t)
	environment := []string{
		"HOME=" + dir, "PATH=" + programs + ":" + os.Getenv("PATH"),
		"PGHOST=" + host, "PGPORT=" + port, "PGUSER=" + postgres.Superuser(), "PGPASSWORD=" + postgres.Password(),
		"BAO_ADDR=http://127.0.0.1:" + vault, "BAO_TOKEN=root", "LEASESVC_SERVER=nats://127.0.0.1:" + nats,
	}
	start := exec.Command(bao, "server", "-dev", "-dev-root-token-id=root", "-dev-no-store-token", "-dev-listen-address=127.0.0.1:"+vault)
	start.Env = environment
	run(t, start, filepath.Join(dir, "bao.log"))
	ready := exec.Command("sh", "-c", "until bao status; do sleep 0.1; done")
	ready.Env = environment
	if out, err := ready.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	// A pause becomes a wait for what it is for, on machines of any speed, what is begun
	// is ended, and ports that others may use are others.
	text := pasted(t)
	waits := []string{
		`until leasesvc get orders-db username; do sleep 0.2; done`, `until test -s app.json; do sleep 0.2; done; cp app.json app.1`,
		`until ! cmp -s app.json app.1; do sleep 0.2; done; cp app.json app.2`, `until leasesvc events --type rolled-back | grep -q rolled-back && cmp -s app.json app.2; do sleep 0.2; done; cp app.json app.3`,
	}
	if n := strings.Count(text, "sleep 3\n"); n != len(waits) {
		t.Fatalf("%d pauses", n)
	}
	for _, wait := range waits {
		text = strings.Replace(text, "sleep 3\n", wait+"\n", 1)
	}
	text = strings.NewReplacer(" &\n", " & begun=\"${begun-} $!\"\n", "127.0.0.1:4222", "127.0.0.1:"+nats, "127.0.0.1:8250", "127.0.0.1:"+page).Replace(text)
	script := exec.Command("sh", "-eux")
	script.Env, script.Dir, script.Stdin = environment, dir, strings.NewReader("trap 'kill $begun; wait' EXIT; trap 'exit 1' TERM\n"+text)
	log := filepath.Join(dir, "script.log")
	p := run(t, script, log)
	select {
	case <-p.Exited():
	case <-time.After(3 * time.Minute):
		t.Fatalf("it does not come to its end:\n%s", read(t, log))
	}
	if code := p.State().ExitCode(); code != 0 {
		t.Fatalf("it ends with %d:\n%s", code, read(t, log))
	}

	var users []string
	for _, file := range []string{"app.1", "app.2", "app.3"} {
		var values struct{ Username string }
		if err := json.Unmarshal([]byte(read(t, filepath.Join(dir, file))), &values); err != nil {
			t.Fatal(err)
		}
		users = append(users, values.Username)
	}
	if users[0] == users[1] || users[1] != users[2] || users[0] == "" {
		t.Errorf("the file had the accounts %v: rotated, and rolled back, it should have two", users)
	}
	out := read(t, log)
	for _, want := range []string{"rolled-back", "The log is intact", users[1]} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in what it prints:\n%s", want, out)
		}
	}
}

func run(t *testing.T, cmd *exec.Cmd, log string) *process.Process {
	t.Helper()
	p, err := process.Start(cmd, log, syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.End(syscall.SIGTERM, 30*time.Second); err != nil {
			t.Error(err)
		}
	})
	return p
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
