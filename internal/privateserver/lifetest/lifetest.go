// Package lifetest tests what every private server must do.
package lifetest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

const child = "PRIVATESERVER_CHILD"

// Server is a private server, however it is made.
type Server interface {
	Addr() string
	Port() int
	Password() string
	Log() string
	Dir() string
	Start() error
	Stop() error
	Restart() error
	Close() error
}

// KilledOwner runs a program (the test binary, this very test) that opens a
// server, kills it, and waits for the server to be gone.
func KilledOwner[S Server](t *testing.T, open func() (S, error)) {
	t.Helper()
	if os.Getenv(child) != "" {
		s, err := open()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintln(os.Stdout, "server:", s.Addr()) // who reads it sees if it fails
		select {}                                           // until killed
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// A short path, for a socket's sake, that another account may enter.
	dir, err := os.MkdirTemp("/tmp", "leasesvc-killed-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // what stays behind is in the way of nobody
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	owner := exec.CommandContext(t.Context(), exe, "-test.run", "^"+t.Name()+"$", "-test.timeout", "5m")
	owner.Env = append(os.Environ(), child+"=1", "TMPDIR="+dir)
	owner.Stderr = os.Stderr
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	addr := strings.TrimSpace(strings.TrimPrefix(line, "server: "))
	up := err == nil && answers(t.Context(), addr)
	if err := owner.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = owner.Wait() // "signal: killed"
	if !up {
		t.Fatalf("no server came up: %q, %v", line, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for answers(ctx, addr) {
		select {
		case <-ctx.Done():
			t.Fatalf("the server at %s outlived its killed owner", addr)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func answers(ctx context.Context, addr string) bool {
	c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp4", addr)
	if err != nil {
		return false
	}
	return c.Close() == nil
}

// Life takes a server through its life. login tries a password of its first
// account; refused is in what it says of a wrong one. The server is closed in the
// end.
func Life(t *testing.T, s Server, login func(ctx context.Context, password string) error, refused string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	ok := func(when string) {
		t.Helper()
		if err := login(ctx, s.Password()); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
	}
	ok("at first")
	if err := login(ctx, "wrong"); err == nil || !strings.Contains(err.Error(), refused) {
		t.Fatalf("with a wrong password: %v", err)
	}
	if shown := fmt.Sprintf("%v %+v %#v %s %q", s, s, s, s, s); strings.Contains(shown, s.Password()) {
		t.Error("the password shows")
	}
	if log, err := os.ReadFile(s.Log()); err != nil || strings.Contains(string(log), s.Password()) {
		t.Errorf("the password is in the log, or: %v", err)
	}
	port := s.Port()
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if s.Port() != port {
		t.Error("a restart changed the port")
	}
	ok("after a restart")
	if err := s.Start(); err == nil {
		t.Error("a running server was started")
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := login(ctx, s.Password()); err == nil {
		t.Fatal("a stopped server answers")
	}
	if err := s.Stop(); err != nil {
		t.Errorf("stopping a stopped server: %v", err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	ok("started again")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := login(ctx, s.Password()); err == nil {
		t.Error("a closed server answers")
	}
	if err := s.Start(); err == nil {
		t.Error("a closed server was started")
	}
	if err := s.Close(); err != nil {
		t.Errorf("closing a closed server: %v", err)
	}
	if _, err := os.Stat(s.Dir()); !os.IsNotExist(err) {
		t.Errorf("a closed server's files are there: %v", err)
	}
}
