package child_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leasesvc/leasesvc/agent/child"
	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{Why: "running a program needs nothing of ours"})
}

func shell(script string) child.Spec {
	return child.Spec{
		Command: []string{"/bin/sh", "-c", script}, StopSignal: syscall.SIGTERM, StopTimeout: 30 * time.Second, Ready: 50 * time.Millisecond,
		Stdout: io.Discard, Stderr: io.Discard,
	}
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited for %s", what)
		}
		<-time.After(10 * time.Millisecond)
	}
}

func read(file string) string {
	b, _ := os.ReadFile(file)
	return strings.TrimSpace(string(b))
}

func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestCodes(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "kill -TERM $$; sleep 60": 143} {
		p, err := child.Start(shell(script), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Code(); got != want {
			t.Errorf("%s: %d", script, got)
		}
		p.Stop()
	}
	spec := shell("")
	spec.Command = []string{"/no/such/program"}
	if _, err := child.Start(spec, nil); !errors.Is(err, child.ErrStart) {
		t.Errorf("got %v", err)
	}
}

// A program that does not listen is killed, with its children.
func TestStopKillsWhatDoesNotListen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	spec := shell(`trap "" TERM; sleep 600 & echo $! > ` + file + `; while :; do sleep 0.05; done`)
	spec.StopTimeout = 100 * time.Millisecond
	p, err := child.Start(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the grandchild", func() bool { return read(file) != "" })
	p.Stop()
	pid, _ := strconv.Atoi(read(file))
	await(t, "its end", func() bool { return !alive(pid) })
	if code := p.Code(); code != 137 {
		t.Errorf("code %d", code)
	}
}

func TestAnApplicationBecomesAnother(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "runs")
	s := child.Supervise(shell(`echo "$PASSWORD" >> `+file+`; sleep 600 & wait`), slog.New(slog.DiscardHandler))
	defer s.Close()
	for _, v := range []string{"one", "one", "two"} {
		if err := s.Become(context.Background(), []string{"PASSWORD=" + v}); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "both runs", func() bool { return read(file) == "one\ntwo" })
	if _, ok := s.Running(); !ok {
		t.Error("it does not run")
	}
	if err := s.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Running(); ok {
		t.Error("it runs")
	}
}

// A start that fails leaves nothing running and says how it ended, not with what.
func TestAStartThatFails(t *testing.T) {
	spec := shell(`exit 5`)
	spec.Ready = 30 * time.Second
	s := child.Supervise(spec, slog.New(slog.DiscardHandler))
	defer s.Close()
	err := s.Become(context.Background(), []string{"PASSWORD=S3cret"})
	if !errors.Is(err, child.ErrStart) || !strings.Contains(err.Error(), "exit status 5") || strings.Contains(err.Error(), "S3cret") {
		t.Errorf("got %v", err)
	}
	if _, ok := s.Running(); ok {
		t.Error("it runs")
	}
	spec = shell(`sleep 600`)
	spec.Ready = 30 * time.Second
	s2 := child.Supervise(spec, slog.New(slog.DiscardHandler))
	defer s2.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := s2.Become(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// An application that ends by itself is started again with what it had.
func TestItIsStartedAgain(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "runs")
	s := child.Supervise(shell(`echo "$$ $PASSWORD" >> `+file+`; sleep 600 & wait`), slog.New(slog.DiscardHandler))
	defer s.Close()
	if err := s.Become(context.Background(), []string{"PASSWORD=one"}); err != nil {
		t.Fatal(err)
	}
	await(t, "the first run", func() bool { return read(file) != "" })
	pid, _ := strconv.Atoi(strings.Fields(read(file))[0])
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, "the second run", func() bool { return len(strings.Fields(read(file))) == 4 })
	if f := strings.Fields(read(file)); f[3] != "one" || f[2] == f[0] {
		t.Errorf("%v", f)
	}
}

func TestASignalReachesIt(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "heard")
	s := child.Supervise(shell(`trap 'echo hup > `+file+`' HUP; while :; do sleep 0.02; done`), slog.New(slog.DiscardHandler))
	defer s.Close()
	if err := s.Send(syscall.SIGHUP, nil); err != nil {
		t.Errorf("nobody there: %v", err)
	}
	if err := s.Become(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Send(syscall.SIGHUP, nil); err != nil {
		t.Fatal(err)
	}
	await(t, "the signal", func() bool { return read(file) == "hup" })
}
