package process_test

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leasesvc/leasesvc/internal/process"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func shell(t *testing.T, script string) *process.Process {
	t.Helper()
	p, err := process.Start(exec.Command("sh", "-c", script), filepath.Join(t.TempDir(), "log"), syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func await(t *testing.T, p *process.Process, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := p.AwaitOutput(ctx, text); err != nil {
		t.Fatal(err)
	}
}

func TestEndIsOrderly(t *testing.T) {
	p := shell(t, `trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.05; done`)
	await(t, p, "ready")
	if err := p.End(syscall.SIGTERM, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if code := p.State().ExitCode(); code != 3 || !strings.Contains(p.LogTail(), "bye") {
		t.Fatalf("exit code %d, output %q", code, p.LogTail())
	}
}

func TestEndKillsWhatDoesNotEnd(t *testing.T) {
	p := shell(t, `trap '' TERM; echo ready; while :; do sleep 0.05; done`)
	await(t, p, "ready")
	if err := p.End(syscall.SIGTERM, 200*time.Millisecond); err == nil {
		t.Fatal("a process that ignores the signal ended in order")
	}
	if status := p.State().Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL {
		t.Fatalf("it ended with %v", p.State())
	}
}

func TestKillIsNoticed(t *testing.T) {
	p := shell(t, `echo ready; exec sleep 60`)
	await(t, p, "ready")
	p.Kill()
	select {
	case <-p.Exited():
	default:
		t.Fatal("Kill returned before the process was reaped")
	}
	p.Kill() // once more does nothing
}

func TestMissingProgram(t *testing.T) {
	if _, err := process.Start(exec.Command("no-such-program"), filepath.Join(t.TempDir(), "log"), syscall.SIGKILL); err == nil {
		t.Fatal("it started")
	}
}

func TestAwaitOutputTellsThatTheProcessEnded(t *testing.T) {
	p := shell(t, `echo last words; exit 7`)
	err := p.AwaitOutput(t.Context(), "ready")
	if err == nil || !strings.Contains(err.Error(), "exit status 7") || !strings.Contains(err.Error(), "last words") {
		t.Fatalf("got %v", err)
	}
}

func TestAwaitOutputEndsWithItsContext(t *testing.T) {
	p := shell(t, `exec sleep 60`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.AwaitOutput(ctx, "ready"); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	select {
	case <-p.Exited():
		t.Fatalf("it ended by itself: %v", p.State())
	default:
	}
}
