package proctest_test

import (
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leasesvc/leasesvc/itest/proctest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

func TestMissingProgram(t *testing.T) {
	p, err := proctest.Start(exec.Command("no-such-program"), filepath.Join(t.TempDir(), "log"), syscall.SIGKILL)
	if err == nil || p != nil {
		t.Fatalf("got %v, %v", p, err)
	}
}

// fatal notes what would have ended the test.
type fatal struct {
	testing.TB
	told bool
}

func (f *fatal) Fatalf(string, ...any) { f.told = true }

func TestAwaitOutputEndsTheTestOfASilentProcess(t *testing.T) {
	p, err := proctest.Start(exec.Command("true"), filepath.Join(t.TempDir(), "log"), syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	f := &fatal{TB: t}
	if p.AwaitOutput(f, "hello", 10*time.Second); !f.told {
		t.Fatal("it went on")
	}
}
