package hook_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leasesvc/leasesvc/agent/hook"
	"github.com/leasesvc/leasesvc/agent/render"
	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{"agent/render", "secret"},
		Why:      "a hook tells an application; it knows nothing of leases",
	})
}

// log collects what is logged.
type log struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func run(t *testing.T, h hook.Hook) (string, error) {
	t.Helper()
	out := &log{}
	h.Logger = slog.New(slog.NewTextHandler(out, nil))
	if h.Timeout == 0 {
		h.Timeout = 30 * time.Second
	}
	err := h.Run(context.Background(), hook.Occasion{
		Target: "settings", File: "/run/x", Event: "prepare", Hidden: render.Secrets(map[string]any{"p": "S3cret-value"}),
	})
	return out.String(), err
}

func TestACommandMeetsNoShell(t *testing.T) {
	file := filepath.Join(t.TempDir(), "$(touch x); a b")
	if _, err := run(t, hook.Hook{Command: []string{"touch", file}}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	out, err := run(t, hook.Hook{Shell: `test "$LEASESVC_TARGET-$LEASESVC_FILE-$LEASESVC_EVENT" = settings-/run/x-prepare && echo fine | tr f F`})
	if err != nil || !strings.Contains(out, "line=Fine") {
		t.Error(err, out)
	}
}

// TestC44_AFailingHookIsANo, with how it ended and without what it printed.
func TestC44_AFailingHookIsANo(t *testing.T) {
	out, err := run(t, hook.Hook{Shell: `echo "the password S3cret-value is wrong"; echo S3cret-value >&2; exit 3`})
	if !errors.Is(err, hook.ErrHook) || !strings.Contains(err.Error(), "exit status 3") || strings.Contains(err.Error(), "password") {
		t.Errorf("got %v", err)
	}
	if strings.Contains(out, "S3cret") || !strings.Contains(out, "the password [redacted] is wrong") {
		t.Errorf("the log has\n%s", out)
	}
	if _, err := run(t, hook.Hook{Command: []string{"/no/such/program"}}); !errors.Is(err, hook.ErrHook) {
		t.Errorf("got %v", err)
	}
}

// A value that stands where the output is cut must not show in half.
func TestACutOutputShowsNoBeginningOfAValue(t *testing.T) {
	script := fmt.Sprintf(`head -c %d /dev/zero | tr '\0' x; printf S3cret-value`, hook.MaxOutput-6)
	out, err := run(t, hook.Hook{Shell: script})
	if err != nil || strings.Contains(out, "S3cr") || !strings.Contains(out, "left out") {
		t.Error(err, len(out), strings.Contains(out, "S3cr"))
	}
}

// TestC44_AHangingHookIsKilled with all that it started.
func TestC44_AHangingHookIsKilled(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	_, err := run(t, hook.Hook{Shell: `sleep 600 & echo $! > "` + pids + `"; sleep 600`, Timeout: 500 * time.Millisecond})
	if !errors.Is(err, hook.ErrTimeout) {
		t.Fatalf("got %v", err)
	}
	gone(t, pids)
	// One that ends well and leaves a child that holds its output.
	began := time.Now()
	if _, err := run(t, hook.Hook{Shell: `sleep 600 & echo $! > "` + pids + `"`}); err != nil {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > 25*time.Second {
		t.Errorf("the child was waited for: %s", took)
	}
	gone(t, pids)
}

func gone(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(30 * time.Second)
	for alive(pid) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d is alive", pid)
		}
		<-time.After(10 * time.Millisecond)
	}
}

func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// listener is a program that writes down each HUP.
func listener(t *testing.T, name string) (pid int, heard func() int) {
	t.Helper()
	dir := t.TempDir()
	program, file := filepath.Join(dir, name), filepath.Join(dir, "heard")
	script := "#!/bin/sh\ntrap 'echo hup >> " + file + "' HUP\necho ready > " + file + ".ready\nwhile :; do sleep 0.02; done\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", program)
	cmd.Args[0] = name
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	await(t, func() bool { _, err := os.Stat(file + ".ready"); return err == nil })
	return cmd.Process.Pid, func() int {
		b, _ := os.ReadFile(file)
		return strings.Count(string(b), "hup")
	}
}

func await(t *testing.T, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatal("waited too long")
		}
		<-time.After(10 * time.Millisecond)
	}
}

func TestASignalGoesToWhomAFileOrANameSays(t *testing.T) {
	name := fmt.Sprintf("leasesvc-hooked-%d", os.Getpid())
	pid, heard := listener(t, name)
	file := filepath.Join(t.TempDir(), "pid")
	if err := os.WriteFile(file, fmt.Appendf(nil, "%d\n", pid), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, h := range []hook.Hook{{Signal: syscall.SIGHUP, PIDFile: file}, {Signal: syscall.SIGHUP, Process: name}} {
		if _, err := run(t, h); err != nil {
			t.Fatal(err)
		}
		await(t, func() bool { return heard() == i+1 })
	}
}

func TestNobodyToBeToldIsANo(t *testing.T) {
	dir := t.TempDir()
	for what, text := range map[string]string{"zero": "0", "group": "-5", "init": "1", "text": "nginx", "empty": ""} {
		file := filepath.Join(dir, what)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := run(t, hook.Hook{Signal: syscall.Signal(0), PIDFile: file, Optional: true}); !errors.Is(err, hook.ErrHook) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, h := range []hook.Hook{
		{Signal: syscall.SIGHUP, PIDFile: filepath.Join(dir, "none")},
		{Signal: syscall.SIGHUP, Process: "no-such-program-here"},
		{URL: "http://127.0.0.1:1/reload?token=S3cret-value", Method: "POST"},
	} {
		out, err := run(t, h)
		if !errors.Is(err, hook.ErrNobody) || strings.Contains(err.Error()+out, "S3cret") {
			t.Errorf("%v: %v", h, err)
		}
		h.Optional = true
		if _, err := run(t, h); err != nil {
			t.Errorf("optional: %v", err)
		}
	}
}

func TestAnHTTPAnswerDecides(t *testing.T) {
	hold := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/no":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/elsewhere":
			http.Redirect(w, r, "/yes", http.StatusFound)
		case "/hang":
			select {
			case <-hold:
			case <-r.Context().Done():
			}
		default:
			if r.Method != http.MethodPut {
				w.WriteHeader(http.StatusMethodNotAllowed)
			}
		}
	}))
	defer srv.Close()
	defer close(hold)
	for path, want := range map[string]string{"/yes": "", "/no": "503", "/elsewhere": "302", "/hang": "in time"} {
		h := hook.Hook{URL: srv.URL + path, Method: http.MethodPut, Timeout: 30 * time.Second}
		if path == "/hang" {
			h.Timeout = 200 * time.Millisecond
		}
		_, err := run(t, h)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
