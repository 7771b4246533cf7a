package proctest_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leasesvc/leasesvc/itest/proctest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func shell(t *testing.T, script string) *proctest.Process {
	t.Helper()
	p, err := proctest.Start(exec.Command("sh", "-c", script), filepath.Join(t.TempDir(), "log"), syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func TestEndIsOrderly(t *testing.T) {
	p := shell(t, `trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.05; done`)
	p.AwaitOutput(t, "ready", 10*time.Second)
	if err := p.End(syscall.SIGTERM, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if code := p.State().ExitCode(); code != 3 || !strings.Contains(p.LogTail(), "bye") {
		t.Fatalf("exit code %d, output %q", code, p.LogTail())
	}
}

func TestEndKillsWhatDoesNotEnd(t *testing.T) {
	p := shell(t, `trap '' TERM; echo ready; while :; do sleep 0.05; done`)
	p.AwaitOutput(t, "ready", 10*time.Second)
	if err := p.End(syscall.SIGTERM, 200*time.Millisecond); err == nil {
		t.Fatal("a process that ignores the signal ended in order")
	}
	if status := p.State().Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL {
		t.Fatalf("it ended with %v", p.State())
	}
}

func TestKillIsNoticed(t *testing.T) {
	p := shell(t, `echo ready; exec sleep 60`)
	p.AwaitOutput(t, "ready", 10*time.Second)
	p.Kill()
	select {
	case <-p.Exited():
	default:
		t.Fatal("Kill returned before the process was reaped")
	}
	p.Kill() // once more does nothing
}

func TestMissingProgram(t *testing.T) {
	if _, err := proctest.Start(exec.Command("no-such-program"), filepath.Join(t.TempDir(), "log"), syscall.SIGKILL); err == nil {
		t.Fatal("it started")
	}
}

func TestBuildGivesAProgram(t *testing.T) {
	program := proctest.Build(t, "./itest/proctest/testdata/hello")
	p, err := proctest.Start(exec.Command(program), filepath.Join(t.TempDir(), "log"), syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	p.AwaitOutput(t, "hello", 10*time.Second)
	if !p.State().Success() {
		t.Fatal(p.State())
	}
}
