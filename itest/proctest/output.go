package proctest

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"
)

const outputPoll = 20 * time.Millisecond

// AwaitOutput waits until text stands in the output of this run or of an
// earlier one with the same log, and ends t when the process ends without it or
// the time is over.
func (p *Process) AwaitOutput(t testing.TB, text string, within time.Duration) {
	t.Helper()
	timeout := time.After(within)
	for {
		// Looked at before the output: what a process that has ended said is
		// all there.
		over := ""
		select {
		case <-p.exited:
			over = "ended: " + p.cmd.ProcessState.String()
		case <-timeout:
			over = fmt.Sprintf("has not said so within %v", within)
		case <-time.After(outputPoll):
		}
		out, err := os.ReadFile(p.log)
		if err != nil {
			t.Fatalf("proctest: read the output of %s: %v", p.cmd.Path, err)
		}
		if bytes.Contains(out, []byte(text)) {
			return
		}
		if over != "" {
			t.Fatalf("proctest: waiting for %q: %s %s; its output ends with:\n%s", text, p.cmd.Path, over, p.LogTail())
		}
	}
}

// LogTail is the end of the output, for an error.
func (p *Process) LogTail() string {
	const most = 4 << 10
	b, err := os.ReadFile(p.log)
	if err != nil {
		return fmt.Sprintf("(no output: %v)", err)
	}
	return string(b[max(0, len(b)-most):])
}
