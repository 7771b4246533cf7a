package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Spec is how an application is run.
type Spec struct {
	// Command is the program and its arguments.
	Command []string
	// StopSignal asks it to end; StopTimeout is how long it may take to.
	StopSignal  syscall.Signal
	StopTimeout time.Duration
	// Ready is how long it must run until a start counts as good.
	Ready          time.Duration
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// SameGroup leaves it in our process group, where a terminal's signals reach
	// it; only the process itself is then killed.
	SameGroup bool
}

// Process is one run.
type Process struct {
	spec   Spec
	cmd    *exec.Cmd
	exited chan struct{} // closed when it is reaped
}

// ErrStart says that a program could not be started, or ended at once.
var ErrStart = errors.New("the application did not start")

// Start runs the program with variables on top of our own environment. They
// replace those of the same name.
func Start(spec Spec, variables []string) (*Process, error) {
	// It ends when it is stopped, not with a context: first it is asked.
	cmd := exec.CommandContext(context.Background(), spec.Command[0], spec.Command[1:]...)
	cmd.Env = append(os.Environ(), variables...) // of two with one name the last counts
	cmd.Stdin, cmd.Stdout, cmd.Stderr = spec.Stdin, spec.Stdout, spec.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: !spec.SameGroup}
	// Its output is copied for it where it is no file; a child of its that
	// holds it open must not keep us.
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	p := &Process{spec: spec, cmd: cmd, exited: make(chan struct{})}
	go func() {
		defer close(p.exited)
		_ = cmd.Wait() // how it ended is in cmd.ProcessState
		if !spec.SameGroup {
			// What it left behind; now, since its id may soon be somebody else's.
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
	}()
	return p, nil
}

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// PID gives the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Code gives the exit code of a process that has ended, as a shell tells it: 128
// and the signal for one that a signal ended.
func (p *Process) Code() int {
	<-p.exited
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return p.cmd.ProcessState.ExitCode()
}

// Signal sends a signal to the process; one that has ended is no error.
func (p *Process) Signal(s os.Signal) error {
	err := p.cmd.Process.Signal(s)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// Stop ends the process and what it started, and waits for it.
func (p *Process) Stop() {
	if p.over() {
		return
	}
	_ = p.Signal(p.spec.StopSignal) // one that can't be asked is killed
	patience := time.NewTimer(p.spec.StopTimeout)
	defer patience.Stop()
	select {
	case <-p.exited:
	case <-patience.C:
		_ = p.cmd.Process.Kill() // its group follows it
	}
	<-p.exited
}

func (p *Process) over() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// ready waits until a start counts as good.
func (p *Process) ready(ctx context.Context) error {
	timer := time.NewTimer(p.spec.Ready)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-p.exited:
		return fmt.Errorf("%w: it ended with %s", ErrStart, p.cmd.ProcessState)
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrStart, context.Cause(ctx))
	}
}
