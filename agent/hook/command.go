package hook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// MaxOutput is how much of a command's output is kept, in bytes.
const MaxOutput = 64 << 10

// linger is how long the output is waited for after a command ended, when a child
// of its holds it open.
const linger = 2 * time.Second

func (h *Hook) command(ctx context.Context, o Occasion, args []string) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = linger
	cmd.Env = append(os.Environ(), "LEASESVC_TARGET="+o.Target, "LEASESVC_FILE="+o.File, "LEASESVC_EVENT="+o.Event)
	out := &head{}
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it left behind
	}
	h.say(o, out)
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &exit):
		return fmt.Errorf("the command ended with %s", exit.ProcessState)
	case errors.Is(err, exec.ErrWaitDelay):
		return nil // it ended well; a child of its did not, and is killed
	case err != nil:
		return fmt.Errorf("the command could not be run: %w", err)
	}
	return nil
}

// say puts the output into the log, line by line, without any value.
func (h *Hook) say(o Occasion, out *head) {
	text, cut := out.take()
	text = o.Hidden.Redact(text)
	if cut { // what was cut may begin a value
		text = text[:max(0, len(text)-o.Hidden.Longest())]
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			h.Logger.Info("the hook says", "target", o.Target, "line", line)
		}
	}
	if cut {
		h.Logger.Info("the hook says more, which is left out", "target", o.Target)
	}
}

// head keeps the beginning of what is written to it.
type head struct {
	mu   sync.Mutex
	kept bytes.Buffer
	cut  bool
}

// Write implements io.Writer and never fails.
func (w *head) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	room := MaxOutput - w.kept.Len()
	if len(p) > room {
		w.cut = true
	}
	w.kept.Write(p[:min(len(p), room)])
	return len(p), nil
}

func (w *head) take() (string, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.kept.String(), w.cut
}
