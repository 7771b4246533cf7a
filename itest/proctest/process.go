package proctest

import (
	"context"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/internal/process"
	"github.com/leasesvc/leasesvc/itest/secrettest"
)

// Process is one run of a program: a [process.Process] that a test waits for.
type Process struct{ *process.Process }

// Start starts cmd as [process.Start] does: with its output appended to the
// file log, and sent the signal orphaned should the test process die. The
// caller must end it: [process.Process.End] or [process.Process.Kill]. What it
// prints is looked at for secrets at the end of the run (package secrettest).
func Start(cmd *exec.Cmd, log string, orphaned syscall.Signal) (*Process, error) {
	p, err := process.Start(cmd, log, orphaned)
	if err != nil {
		return nil, err
	}
	if err := secrettest.File(log); err != nil {
		p.Kill()
		return nil, err
	}
	return &Process{p}, nil
}

// AwaitOutput waits until text stands in the output of this run or of an
// earlier one with the same log, and ends t when the process ends without it or
// the time is over.
func (p *Process) AwaitOutput(t testing.TB, text string, within time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), within) // a cleanup may wait, too
	defer cancel()
	if err := p.Process.AwaitOutput(ctx, text); err != nil {
		t.Fatalf("proctest: %v", err)
	}
}
