package process

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Process is one run of a program.
type Process struct {
	cmd    *exec.Cmd
	log    string
	exited chan struct{} // closed when the process is reaped
}

// Start starts cmd with its output appended to the file log, which is made if
// need be. Should this process die without ending it, the kernel sends it
// orphaned. The caller must end it: [Process.End] or [Process.Kill].
//
// The kernel sends that signal when the thread that forked ends, not the
// process; so a goroutine locked to its thread forks and then waits.
func Start(cmd *exec.Cmd, log string, orphaned syscall.Signal) (*Process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", cmd.Path, err)
	}
	defer out.Close() // the process has its own descriptor
	cmd.Stdout, cmd.Stderr = out, out
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	endWithParent(cmd.SysProcAttr, orphaned)

	p := &Process{cmd: cmd, log: log, exited: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		defer close(p.exited)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in cmd.ProcessState
		}
	}()
	if err := <-started; err != nil {
		<-p.exited
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Log is the file that has the output.
func (p *Process) Log() string { return p.log }

// Exited is closed when the process has ended and is reaped.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// State waits for the process to end and tells how it did.
func (p *Process) State() *os.ProcessState {
	<-p.exited
	return p.cmd.ProcessState
}

// Signal sends a signal; that the process has ended already is no error.
func (p *Process) Signal(sig os.Signal) { _ = p.cmd.Process.Signal(sig) }

// Kill kills the process as kill -9 does and returns when it is reaped.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.exited
}

// End asks the process to end with sig and returns when it is reaped. An error
// says that it did not within the time and was killed.
func (p *Process) End(sig os.Signal, within time.Duration) error {
	p.Signal(sig)
	select {
	case <-p.exited:
		return nil
	case <-time.After(within):
	}
	p.Kill()
	return fmt.Errorf("%s (pid %d) did not end within %v of %v and was killed", p.cmd.Path, p.PID(), within, sig)
}
