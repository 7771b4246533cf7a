//go:build failpoints

package failpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

var (
	armed, after = parse(os.Getenv("LEASESVC_FAILPOINT"))
	hits         atomic.Int64
)

func parse(s string) (point string, n int64) {
	point, count, _ := strings.Cut(s, ":")
	n, err := strconv.ParseInt(count, 10, 64)
	if err != nil {
		return point, 1
	}
	return point, n
}

// Hit ends the process at once when the point is the one that is armed and has
// been reached often enough. It says so first: a test checks that the fault
// happened.
func Hit(point string) {
	if point != armed || hits.Add(1) != after {
		return
	}
	fmt.Fprintf(os.Stderr, "failpoint %s: killing this process\n", point)
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal is on its way
}
