package process

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"
)

const (
	outputPoll = 20 * time.Millisecond
	tailBytes  = 4 << 10
)

// AwaitOutput waits until text stands in the output of this run or of an
// earlier one with the same log. It returns an error, which quotes the end of
// the output, when the process ends without it, and one that wraps ctx's when
// ctx is over first.
func (p *Process) AwaitOutput(ctx context.Context, text string) error {
	for {
		// Looked at before the output: what a process that has ended said is
		// all there.
		var over error
		select {
		case <-p.exited:
			over = fmt.Errorf("it ended: %s", p.cmd.ProcessState)
		case <-ctx.Done():
			over = context.Cause(ctx)
		case <-time.After(outputPoll):
		}
		out, err := os.ReadFile(p.log)
		if err != nil {
			return fmt.Errorf("read the output of %s: %w", p.cmd.Path, err)
		}
		if bytes.Contains(out, []byte(text)) {
			return nil
		}
		if over != nil {
			return fmt.Errorf("wait for %s to say %q: %w; its output ends with:\n%s", p.cmd.Path, text, over, p.LogTail())
		}
	}
}

// LogTail is the end of the output, at most 4 KiB, for an error.
func (p *Process) LogTail() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return fmt.Sprintf("(no output: %v)", err)
	}
	return string(b[max(0, len(b)-tailBytes):])
}
