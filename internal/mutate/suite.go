package mutate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"time"
)

// Limits of one test binary: a mutant that loops must not take the machine.
const (
	memoryLimit = 4 << 20 // KiB of address space
	// A mutant may be this much slower than the original, plus leastTime.
	slowdown  = 10
	leastTime = 5 * time.Second
)

// suite is a compiled test binary.
type suite struct {
	testPackage
	file    string
	timeout time.Duration // 0: none but the one of go test
}

// verdict is what a run of a suite came to; killer is "" when all tests passed.
type verdict struct {
	killer string
}

var failure = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// run runs the tests with a mutant in force (0: none).
func (s *suite) run(ctx context.Context, mutant int, skip string) (verdict, error) {
	args := []string{"-c", fmt.Sprintf(`ulimit -v %d; exec "$0" "$@"`, memoryLimit), s.file, "-test.failfast", "-test.count=1"}
	if skip != "" {
		args = append(args, "-test.skip="+skip)
	}
	if s.timeout > 0 {
		// The binary's own limit tells where it hung; ours is for when it can't.
		args = append(args, "-test.timeout="+s.timeout.String())
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.timeout+leastTime)
		defer cancel()
	}
	if s.rapid {
		// The same values in every run, no time on making them small, and
		// nothing written into the tree.
		args = append(args, "-rapid.seed=1", "-rapid.shrinktime=0s", "-rapid.nofailfile")
	}
	cmd := exec.CommandContext(ctx, "sh", args...)
	cmd.Dir = s.dir
	cmd.Env = append(cmd.Environ(), environ+"="+strconv.Itoa(mutant))
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return verdict{}, nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded), bytes.Contains(out.Bytes(), []byte("panic: test timed out")):
		return verdict{killer: "the time limit"}, nil
	case ctx.Err() != nil:
		return verdict{}, ctx.Err()
	case !errors.As(err, &exit):
		return verdict{}, fmt.Errorf("running the tests of %s: %w", s.path, err)
	}
	if m := failure.FindSubmatch(out.Bytes()); m != nil {
		return verdict{killer: string(m[1])}, nil
	}
	return verdict{killer: "a panic"}, nil
}
